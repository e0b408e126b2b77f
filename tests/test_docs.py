"""Every Python block of the documentation runs, page by page, in one namespace."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda path: path.stem)
def test_page(page, capsys):
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    names = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
    assert not blocks or capsys.readouterr().out
