"""One HTML file about a release or a table of them: for those who decide and those who check.

Question, answer with interval and picture, the promise in words, the beliefs and how they were
tested, who is not covered, the record, and how to verify it. The file needs nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from typing import Any

from pufferkit.account.releases import Releases
from pufferkit.beliefs.base import as_beliefs
from pufferkit.beliefs.provenance import words_of_tests
from pufferkit.data.durations import of_seconds
from pufferkit.mechanisms.release import Release
from pufferkit.plots.canvas import picture
from pufferkit.plots.pictures import figure_of
from pufferkit.shown import Shown, Statement, in_html

_STYLE = (
    "body{font-family:sans-serif;max-width:56em;margin:2em auto;padding:0 1em;line-height:1.45}"
    "table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.3em .6em;text-align:left}"
    "img{max-width:100%}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f6f6f6;padding:1em;font-size:.8em}"
)
_UNTESTED = (
    "It is not recorded that these beliefs were tested on people left out; pufferkit beliefs "
    "choose does so. Adversaries with other beliefs may learn more."
)


def release_report(
    release: Release | Releases,
    beliefs: Any | None,
    meaning: Sequence[str] = (),
    shown: Sequence[Shown] = (),
    record: str | None = None,
) -> str:
    """The page of a release: its statements, in the order in which a terminal has them.

    Parameters
    ----------
    release, beliefs
        What was released, a table of releases as well, and the beliefs that the noise is for.
    meaning
        What epsilon means here, a sentence each (`pufferkit.mechanisms.explain`).
    shown
        What the answer is, if not the release alone: a quantile that is read off.
    record
        The record as it was written; by default that of the release.
    """
    kept = release.to_json() if record is None else record
    believed = ["no beliefs: entries are taken one by one"]
    tested = None
    if beliefs is not None:
        theta = as_beliefs(beliefs)
        believed = [theta.description, *filter(None, [theta.promise])]
        tested = words_of_tests(theta.sources)
    said = release.statements()
    promise = [line for line in said if line.kind == "remark"]
    promise += [Statement("remark", line) for line in meaning if line != tested]
    answer = in_html([line for line in said if line.kind != "remark"], release.shown_rows())
    answer += "".join(in_html(own.statements(), own.shown_rows()) for own in shown)
    digest = hashlib.sha256(kept.encode()).hexdigest()
    parts = [
        ("Question", _paragraphs([_question(release)])),
        ("Answer", answer + image(figure_of(release), "the answer with intervals")),
        ("What is promised", in_html(promise)),
        ("Against whom", _paragraphs(believed)),
        ("How the beliefs were tested, and who is not covered", _paragraphs([tested or _UNTESTED])),
        (
            "How to verify it",
            _paragraphs(
                [
                    "Save the record below as release.json and run: pufferkit verify release.json",
                    f"SHA-256 of the record: {digest}",
                ]
            ),
        ),
        ("Record", f"<pre id=record>{escape(kept)}</pre>"),
    ]
    body = "".join(f"<h2>{escape(head)}</h2>{content}" for head, content in parts)
    return page(f"Release: {release.query}, epsilon {release.epsilon:g}", body)


def image(figure: Any, words: str = "") -> str:
    """A figure within a page."""
    content = base64.b64encode(picture(figure, "picture.png")).decode()
    return f'<p><img alt="{words}" src="data:image/png;base64,{content}"></p>'


def page(title: str, body: str) -> str:
    """A page that needs no other file."""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1>{body}</html>\n"
    )


def _question(release: Release | Releases) -> str:
    """What was asked, of which data."""
    if isinstance(release, Releases):
        each = f"{release.entries.min():,} to {release.entries.max():,}"
        return f"{release.query}, over {each} entries in each of {len(release):,} rows"
    entries = sum(release.lengths)
    apart = "" if release.step is None else f", {of_seconds(release.step)} apart"
    unseen = 0 if release.observed is None else entries - sum(release.observed)
    gaps = f", {unseen:,} of them not observed" if unseen else ""
    return f"{release.query}, over {entries:,} entries{apart}{gaps}"


def _paragraphs(lines: Sequence[str]) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in lines)
