"""The README as a package index shows it: there, a link to a file of this repository leads nowhere.

With ``Source`` filled in under ``[project.urls]`` of pyproject.toml, such links and pictures become
addresses below it, at the tag of this version. Without, links become their words, and pictures go.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|mailto:|#)([\w.][^)\s]*[./][^)\s]*)\)")


def elsewhere(text: str, source: str | None, tag: str) -> str:
    """Markdown without links relative to this repository."""

    def link(match: re.Match[str]) -> str:
        picture, words, path = match.groups()
        if source is None:
            return "" if picture else words
        root = f"{source.rstrip('/')}/{'raw' if picture else 'blob'}/{tag}"
        return f"{picture}[{words}]({root}/{path})"

    return LINK.sub(link, text)


class Readme(MetadataHookInterface):
    """Called by hatchling whenever it needs the metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme, from README.md and the address if there is one."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source")
        text = elsewhere(text, source, f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
