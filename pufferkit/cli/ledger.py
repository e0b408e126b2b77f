"""``pufferkit ledger``: look at the account book, check it, hand it to an auditor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import pufferkit as pk
from pufferkit.cli import outputs, terminal
from pufferkit.cli.terminal import OneLineErrors, help_if_alone
from pufferkit.errors import printable

app = typer.Typer(cls=OneLineErrors, rich_markup_mode=None, help="Show, verify or export a ledger.")

Where = Annotated[str, typer.Argument(metavar="FILE|URL", help="The ledger.")]


@app.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    """Show, verify or export a ledger."""
    help_if_alone(context)


@app.command()
def show(
    ledger: Where,
    account: Annotated[
        str | None, typer.Option("--account", metavar="NAME", help="Its entries, not all accounts.")
    ] = None,
) -> None:
    """Print the accounts, or the entries of one."""
    from pufferkit.accounting.amounts import show as amount  # noqa: PLC0415

    with _opened(ledger) as book:
        if account is None:
            rows: list[tuple[str, ...]] = [("account", "budget", "spent", "remaining", "entries")]
            rows += [
                (a.account, amount(a.budget), amount(a.total), amount(a.remaining), str(a.entries))
                for a in book.accounts()
            ]
        else:
            book.account(account)
            rows = [("entry", "kind", "epsilon", "total", "made at", "what")]
            for entry in book.entries(account):
                rows.append(
                    (
                        str(entry.seq),
                        entry.kind,
                        amount(entry.epsilon),
                        amount(entry.total),
                        entry.made_at[:19],
                        _what(entry.body),
                    )
                )
    rows = [tuple(printable(cell) for cell in row) for row in rows]
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        terminal.say("  ".join(cells).rstrip())


@app.command()
def verify(
    ledger: Where,
    head: Annotated[
        str | None,
        typer.Option("--head", metavar="DIGEST", help="A digest noted earlier; it must be there."),
    ] = None,
) -> None:
    """Check every entry, the chain of digests and the balances. Exit code 1 if anything is off."""
    with _opened(ledger) as book:
        problems = book.verify(head)
        last, count = book.head, len(book.entries())
    for problem in problems:
        terminal.say(f"problem: {problem}")
    if problems:
        raise typer.Exit(1)
    terminal.say(f"{count} entries, nothing wrong; head {last}")


@app.command()
def export(
    ledger: Where,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write here, not to stdout.")
    ] = None,
) -> None:
    """Print every entry as a line of JSON, released values included."""
    outputs.check_outputs([out])
    with _opened(ledger) as book:
        text = "".join(f"{line}\n" for line in book.export())
    if out is None:
        terminal.give(text)
    else:
        outputs.write_all({out: text.encode()})


def _what(body: Mapping[str, Any]) -> str:
    """What was paid for: query, mechanism, the entries it is about, and the label."""
    words = [str(body.get("query") or body.get("what") or ""), str(body.get("mechanism", ""))]
    if body.get("window"):
        first, last = body["window"]
        words.append(f"entries {first} to {last}")
    if body.get("label"):
        words.append(f"({body['label']})")
    return " ".join(word for word in words if word)


def _opened(ledger: str) -> pk.Ledger:
    """A ledger that is there; looking never makes a new one."""
    if "://" not in ledger and not Path(ledger).is_file():
        raise ValueError(f"{ledger}: there is no such ledger")
    return pk.Ledger(ledger)
