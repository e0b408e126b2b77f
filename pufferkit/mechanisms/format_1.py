"""Release files of format 1, converted to the present format.

Format 1 had the reading of a theorem in its notes and the guarantee as a sentence. Here, and
nowhere else, these sentences are parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VERSION_1 = "pufferkit-release/1"

_GUARANTEES = {
    "Pufferfish for each entry": "pufferfish",
    "Pufferfish for each entry, whatever the correlation within a segment": "group",
    "Pufferfish for the pairs of secrets that were given, and for no others": "secrets",
    "entry DP only: does not hide entries that others predict": "entry",
}
_BOUNDS = {
    "markov_quilt": "quilts",
    "markov_quilt_approx": "quilts",
    "influence_curve": "curve",
    "wasserstein": "distance",
    "gk16": "neighbours",
    "group_dp": "group",
    "entry_dp": "entry",
}
_READINGS = {"markov_quilt": "definition", "markov_quilt_approx": "paper"}
_KINDS = ("count", "histogram", "relative frequencies", "total", "mean", "transition counts")


def from_version_1(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same record in format 2.

    The kind of a query followed from its name. The nearest histogram was not distinguished from the
    answer as drawn; it is one if value and raw differ.
    """
    evidence = data.get("evidence")
    notes = evidence.get("notes") or () if isinstance(evidence, Mapping) else ()
    all_notes = " ".join(note for note in notes if isinstance(note, str))
    mechanism, guarantee = data.get("mechanism"), data.get("guarantee")
    bound, variant = _BOUNDS.get(str(mechanism)), _READINGS.get(str(mechanism))
    if mechanism == "influence_curve" and "quilt bound was the better" in all_notes:
        bound = "quilts"
    if "operator norm" in all_notes:
        variant = "tight"
    elif "as printed" in all_notes:
        variant = "formula"
    drawn = data.get("value") == data.get("raw")
    return {
        **data,
        "guarantee": _GUARANTEES.get(str(guarantee), guarantee),
        "kind": data.get("query") if data.get("query") in _KINDS else "own",
        "presentation": "as drawn" if drawn else "nearest histogram",
        "evidence": {**evidence, "bound": bound, "variant": variant}
        if isinstance(evidence, Mapping)
        else evidence,
    }
