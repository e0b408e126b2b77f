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

STYLE = """
:root { --pk-text: #222; --pk-soft: #5b5b5b; --pk-line: #d6d6d6; --pk-bad: #a33b00;
  --pk-paper: #fff; --pk-private: #fff5ec; --pk-public: #eef6fc; }
.body--dark { --pk-text: #eee; --pk-soft: #b4b4b4; --pk-line: #4a4a4a; --pk-bad: #ffb084;
  --pk-paper: #121212; --pk-private: #2a1f16; --pk-public: #14222d; }
body { color: var(--pk-text); font-size: 16px; }
.pk-page { max-width: 66rem; width: 100%; margin: 0 auto; padding: 0 .75rem 4rem; gap: 1rem; }
.pk-card { width: 100%; border: 1px solid var(--pk-line); border-radius: 8px; padding: 1rem;
  display: flex; flex-direction: column; gap: .75rem; min-width: 0; }
.pk-card > * { max-width: 100%; }
.pk-private { background: var(--pk-private); }
.pk-public { background: var(--pk-public); }
.pk-guide { border-style: dashed; }
.pk-two { display: grid; gap: 1rem; width: 100%;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); }
.pk-way { border: 2px solid var(--pk-line); border-radius: 8px; padding: .75rem; width: 100%;
  display: flex; flex-direction: column; gap: .4rem; }
.pk-taken { border-color: var(--q-primary); }
.pk-small { color: var(--pk-soft); font-size: .8rem; }
.pk-ends { display: flex; justify-content: space-between; color: var(--pk-soft);
  font-size: .85rem; margin-top: -.75rem; }
.pk-page .q-btn { align-self: flex-start; }
.pk-row > .q-btn { align-self: center; }
.q-uploader { box-shadow: none; border: 1px dashed var(--pk-line); background: transparent; }
.q-uploader__header { background: transparent; color: var(--pk-soft); }
.q-uploader__title { font-size: .9rem; font-weight: 400; line-height: 1.4; white-space: normal; }
.q-uploader__subtitle, .q-uploader__list, .q-uploader .q-btn { display: none; }
.q-uploader__title { color: var(--pk-soft); text-align: center; }
.pk-card h2 { font-size: 1.15rem; font-weight: 600; margin: 0; line-height: 1.4; }
.pk-card h3 { font-size: 1rem; font-weight: 600; margin: .5rem 0 0; line-height: 1.4; }
.pk-head { padding-top: .75rem; margin-bottom: -.75rem; }
.pk-soft { color: var(--pk-soft); }
.pk-bad { color: var(--pk-bad); font-weight: 600; overflow-wrap: anywhere; }
.pk-bad:empty, .pk-row:empty, .pk-stack:empty { display: none; }
.pk-row { display: flex; flex-wrap: wrap; gap: .75rem; align-items: center; width: 100%; }
.pk-row > .q-field { flex: 1 1 11rem; }
.pk-stack { display: flex; flex-direction: column; gap: .75rem; width: 100%; min-width: 0; }
.pk-more summary { cursor: pointer; color: var(--pk-soft); display: block; padding: .25rem 0; }
.pk-more summary::before { content: "▸ "; }
.pk-more[open] summary::before { content: "▾ "; }
.pk-more summary > div { display: inline; }
.pk-more h3 { font-size: .95rem; }
.pk-words { white-space: pre-wrap; overflow-wrap: anywhere; }
.pk-picture { overflow-x: auto; width: 100%; }
.pk-picture img { height: auto; max-width: none; }
.body--light .pk-dark, .body--dark .pk-light { display: none; }
@layer overrides {
  .pk-head .q-btn { color: var(--pk-text) !important; }
  .pk-head .q-btn[aria-pressed=true] .block { text-decoration: underline 2px; }
  .body--dark .text-primary, .body--dark .q-tab--active { color: #8ccbf2 !important; }
}
.pk-scroll { width: 100%; overflow-x: auto; }
.pk-table { border-collapse: collapse; width: 100%; font-size: .9rem; }
.pk-table th, .pk-table td { text-align: left; padding: .35rem 1rem .35rem 0; vertical-align: top;
  border-bottom: 1px solid var(--pk-line); }
.pk-table th { color: var(--pk-soft); font-weight: 600; white-space: nowrap; }
.pk-table td.num, .pk-table th.num { text-align: right; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
.pk-code { font-family: ui-monospace, monospace; font-size: .8rem; white-space: pre;
  overflow-x: auto; border: 1px solid var(--pk-line); border-radius: 6px; padding: .75rem;
  margin: 0; width: 100%; }
.pk-matrix input { text-align: right; }
.q-loading-bar { display: none; }
.q-tab { min-height: 44px; }
:focus-visible { outline: 3px solid #56B4E9; outline-offset: 2px; }
.pk-card h2:focus { outline: none; }
@media (max-width: 480px) {
  .pk-page { padding: 0 .4rem 3rem; } .pk-card { padding: .75rem; }
  .pk-table thead { display: none; }
  .pk-matrix > .q-field { flex: 1 1 40%; }
  .pk-matrix > :first-child { flex: 1 0 100% !important; }
  .pk-table tr { display: block; padding: .4rem 0; border-bottom: 1px solid var(--pk-line); }
  .pk-table td, .pk-table td.num { display: flex; justify-content: space-between; gap: 1rem;
    padding: .1rem 0; border: none; white-space: normal; text-align: right; }
  .pk-table td:first-child { font-weight: 600; text-align: left; }
  .pk-table td:not(:first-child)::before { content: attr(data-head); color: var(--pk-soft);
    text-align: left; flex: none; }
}
"""

FOCUS = """<script>(() => {
  // Parts of the page are drawn anew while somebody goes through it by keyboard; whoever was at a
  // control is put back to the control of the same name.
  const all = 'button, input, textarea, summary, a[href], [tabindex]:not([tabindex="-1"])';
  const inside = () => [...(document.querySelector('main')?.querySelectorAll(all) || [])];
  const name = (e) => e.tagName + (e.getAttribute('aria-label') || e.textContent.trim());
  const alike = (called) => inside().filter((e) => name(e) === called);
  let last = null;
  document.addEventListener('focusin', (event) => {
    const called = name(event.target);
    last = inside().includes(event.target)
      ? {called, n: alike(called).indexOf(event.target)} : null;
  });
  document.addEventListener('pointerdown', () => { last = null; }, true);
  new MutationObserver(() => {
    if (document.activeElement !== document.body || last === null) return;
    const same = alike(last.called).filter((e) => !e.disabled);
    if (same.length) same[Math.min(last.n, same.length - 1)].focus({preventScroll: true});
  }).observe(document.body, {childList: true, subtree: true, attributeFilter: ['disabled']});
})();</script>"""
"""Keeps the focus where it was."""

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
