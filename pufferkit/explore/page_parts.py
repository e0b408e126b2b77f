"""Parts shared by the steps: cards, refusals in plain words, tables, pictures, code to copy."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from nicegui import ui

from pufferkit.explore.worker import Cancelled, Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

TO_HEADING = """setTimeout(() => {
  const heading = document.querySelector('.pk-card h2');
  if (heading) { heading.tabIndex = -1; heading.focus(); window.scrollTo(0, 0); }
}, 50)"""
"""Moves the focus to the heading of a new step."""


@contextmanager
def card(title: str, words: str = "", *, icon: str = "", tint: str = "") -> Iterator[Any]:
    """A box with a heading."""
    with ui.element("section").classes(f"pk-card {tint}") as box:
        with ui.element("h2"):
            if icon:
                ui.icon(icon).props('aria-hidden="true"').style("margin-right: .4rem")
            ui.label(title).style("display: inline")
        if words:
            ui.label(words).classes("pk-soft")
        yield box


def heading(text: str) -> None:
    """A smaller heading inside a card."""
    with ui.element("h3"):
        ui.label(text)


def soft(text: str) -> ui.label:
    """A secondary line of text."""
    return ui.label(text).classes("pk-soft")


def problem() -> ui.label:
    """The place for refusals; empty without one."""
    return ui.label().classes("pk-bad").props('role="alert"')


_PYTHON = re.compile(r"\w+=|--\w|\b[a-z]\w*\(|\bpk\.|\bread_\w+\b|\bpip install")
_ARGUMENTS = re.compile(r"\b(independent_after|repeated_hour|times_in|at_least|confirm_data)\b")
_NAMES = {"cuts": "Cut points", "of": "States", "pi_min": "Rarest state", "lengths": "Length"}


def plain_words(text: str) -> str:
    """A sentence of the library without what concerns Python or the command line alone.

    >>> plain_words("a.csv: 2 rows are twice; choose how (repeated_hour='shift'), or give the zone")
    'a.csv: 2 rows are twice; choose how, or give the zone.'
    >>> plain_words("every: needs times; name their column with time=")
    'Every: needs times.'
    """
    text = " ".join(text.split())
    text = re.sub(r"\s*\([^()]*\)", lambda m: "" if _PYTHON.search(m[0]) else m[0], text)
    name, colon, rest = text.partition(": ")
    if colon and name in _NAMES:
        text = f"{_NAMES[name]}: {rest}"
    parts = [part for part in text.split("; ") if not _PYTHON.search(part)]
    text = "; ".join(parts) or text  # a sentence is never lost
    text = _ARGUMENTS.sub(lambda m: m[0].replace("_", " "), text)
    text = re.sub(r"\[([^][]*)\]", r"\1", text).rstrip(". ")
    named = re.match(r"\S*[./_]\S*:", text)  # a file or a mechanism, which keeps its name
    first = text[:1] if named else text[:1].upper()
    return f"{first}{text[1:]}."


@asynccontextmanager
async def attempt(place: ui.label, *buttons: Any) -> AsyncIterator[None]:
    """Run an action that may be refused; show its error, with buttons disabled meanwhile."""
    place.set_text("")
    for button in buttons:
        button.disable()
    try:
        yield
    except (Refused, ValueError, OSError) as error:
        place.set_text(plain_words(str(error)))
    except Cancelled as error:
        if "newer" not in str(error):
            place.set_text(f"Stopped: {error}.")
    finally:
        for button in buttons:
            if not button.is_deleted:
                button.enable()


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]], numeric: Sequence[int] = ()) -> None:
    """A plain table; cells are text, so nothing in them is markup."""

    def cell(tag: str, n: int, content: Any) -> None:
        drawn = ui.element(tag).classes("num" if n in numeric else "")
        if tag == "td":
            drawn.props["data-head"] = heads[n]  # shown before the cell where columns do not fit
        with drawn:
            ui.label(str(content))

    scrolled = ui.element("div").classes("pk-scroll").props('tabindex="0" role="group"')
    scrolled.props["aria-label"] = f"Table by {heads[0]}"
    with scrolled, ui.element("table").classes("pk-table"):
        with ui.element("thead"), ui.element("tr"):
            for n, head in enumerate(heads):
                cell("th", n, head)
        with ui.element("tbody"):
            for row in rows:
                with ui.element("tr"):
                    for n, content in enumerate(row):
                        cell("td", n, content)


_MOST_ROWS = 12


def said(shown: Mapping[str, Any], numeric: Sequence[int] = ()) -> Any:
    """What `calls.said` tells of an object: its statements in order, its table by its rows."""
    with ui.element("div").classes("pk-stack") as box:
        for kind, text in shown["statements"]:
            if kind == "table":
                rows = shown["rows"]
                cells = list(rows[0]), [list(row.values()) for row in rows], numeric
                if len(rows) <= _MOST_ROWS:
                    table(*cells)
                else:
                    with more(f"All {len(rows)} rows"):
                        table(*cells)
            elif kind == "warning":
                ui.label(plain_words(text)).classes("pk-bad")
            else:
                soft(plain_words(text))
    return box


_PIXELS, _SMALLER = 110, 90
"""Of an inch of a figure, where there is room, and of a wide one."""
_FITS = 6
"""Wider figures are scrolled, so that they can be read."""


def picture(drawn: Mapping[str, Any]) -> Any:
    """A picture of `calls.picture`; screen readers get its description."""
    fits = drawn["inches"] < _FITS
    wide = f"{drawn['inches'] * (_PIXELS if fits else _SMALLER):.0f}px"
    with ui.element("div").classes("pk-picture") as box:
        if not fits:
            box.props('tabindex="0" role="group" aria-label="Picture, wider than the page"')
        for shade in ("light", "dark"):
            shown = ui.element("img").classes(f"pk-{shade}")
            shown.props["src"], shown.props["alt"] = drawn[shade], drawn["words"]
            shown.style(f"width: min(100%, {wide})" if fits else f"width: {wide}")
    return box


def code(title: str, text: str) -> None:
    """Text to copy, with a button."""
    with ui.element("div").classes("pk-row"):
        heading(title)
        ui.space()
        ui.button("Copy", on_click=lambda: ui.clipboard.write(text)).props(
            f'flat dense no-caps aria-label="Copy {title}"'
        )
    with (
        ui.element("div")
        .classes("pk-code")
        .props(f'tabindex="0" role="group" aria-label="{title}"')
    ):
        ui.label(text).style("white-space: pre")


@contextmanager
def more(title: str) -> Iterator[Any]:
    """Details that can be unfolded."""
    with ui.element("details").classes("pk-more") as box:
        with ui.element("summary"):
            ui.label(title)
        with ui.element("div").classes("pk-stack"):
            yield box


def select(
    label: str, options: Any, value: Any, action: Any = None, *, mark: str, multiple: bool = False
) -> ui.select:
    """A choice of one or several options."""
    made = ui.select(options, label=label, value=value, on_change=action, multiple=multiple)
    return made.props("outlined dense options-dense" + (" use-chips" if multiple else "")).mark(
        mark
    )


def text_field(label: str, value: str, like: str = "", *, mark: str) -> ui.input:
    """A field for text."""
    return ui.input(label, value=value, placeholder=like).props("outlined dense").mark(mark)


def button(text: str, action: Any, *, main: bool = False, mark: str = "") -> ui.button:
    """A button in plain words."""
    made = ui.button(text, on_click=action).props(
        "no-caps unelevated" if main else "no-caps outline"
    )
    return made.mark(mark) if mark else made
