"""``pufferkit ledger``: inspect a ledger, check it, export it for an auditor."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

import pufferkit as pk
from pufferkit.cli import inputs, outputs, terminal
from pufferkit.cli.flags import option
from pufferkit.cli.job import of_job
from pufferkit.cli.terminal import Commands, help_if_alone
from pufferkit.errors import printable
from pufferkit.shown import Statement, aligned

app = Commands("Show, verify or export a ledger; change a budget; keep its head elsewhere.")

Where = Annotated[
    str | None, typer.Argument(metavar="LEDGER", help="The ledger; or give --ledger, or a job.")
]


@app.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    """Show, verify or export a ledger; change a budget; keep its head elsewhere."""
    help_if_alone(context)


@app.command()
def show(
    where: Where = None,
    ledger: inputs.MaybeLedger = None,
    account: inputs.Account = None,
    as_json: inputs.AsJson = False,
) -> None:
    """Print the accounts, or the entries of one."""
    with _opened(where, ledger) as book:
        rows = book.table_rows() if account is None else _entries(book, account)
        if as_json:
            terminal.as_json(rows)
            return
        terminal.say(_statements(rows, [] if account is None else [_balance(book, account)]))


def _statements(rows: Sequence[Mapping[str, Any]], heads: Sequence[str]) -> list[Statement]:
    """Rows as a table, amounts with the digits they have."""
    from pufferkit.account.amounts import show, spent_micro  # noqa: PLC0415

    names = [name for name in rows[0] if name != "rule"] if rows else []
    table = [[name.replace("_", " ").replace("total", "spent") for name in names]] + [
        [
            show(spent_micro(row[name]))
            if isinstance(row[name], float)
            else printable(row[name])[: 16 if name == "made_at" else None].replace("T", " ")
            for name in names
        ]
        for row in rows
    ]
    text = "\n".join(aligned(table, ""))
    return [*(Statement("head", head) for head in heads), Statement("table", text)]


def _balance(book: pk.Ledger, account: str) -> str:
    """What remains of an account, in one line."""
    from pufferkit.account.amounts import show  # noqa: PLC0415

    now = book.account(account)
    return f"account {printable(account)}: {show(now.remaining)} of {show(now.budget)} remain"


def _entries(book: pk.Ledger, account: str) -> list[dict[str, Any]]:
    """The entries of an account as plain data."""
    from pufferkit.account.amounts import in_epsilon  # noqa: PLC0415

    book.account(account)
    return [
        {
            "entry": entry.seq,
            "kind": entry.kind,
            "epsilon": in_epsilon(entry.epsilon),
            "total": in_epsilon(entry.total),
            "made_at": entry.made_at,
            "made_by": entry.made_by,
            "what": _what(entry.body),
        }
        for entry in book.entries(account)
    ]


@app.command()
def verify(
    where: Where = None,
    ledger: inputs.MaybeLedger = None,
    anchor: inputs.Anchor = None,
    anchor_key: inputs.AnchorKey = None,
    as_json: inputs.AsJson = False,
) -> None:
    """Check every entry, the chain of digests and the balances. Exit code 1 if there are problems.

    The check reads one consistent snapshot, also while others spend. --anchor takes the file of
    ledger anchor, or a digest recorded earlier, which must occur.
    """
    head = anchor if anchor is not None and re.fullmatch(r"[0-9a-f]{64}", anchor) else None
    kept = anchor if head is None else None
    try:
        with _opened(where, ledger, anchor=kept, anchor_key=anchor_key) as book:
            seen = book.examine(head)
            entries, last, problems = seen.entries, seen.head, list(seen.problems)
    except pk.LedgerError as error:
        entries, last, problems = None, None, [str(error)]
    if as_json:
        record = {"ok": not problems, "entries": entries, "head": last, "problems": problems}
        terminal.as_json(record)
    elif not problems:
        terminal.say(f"{entries} entries, no problems; head {last}")
    else:
        terminal.say("\n".join(f"problem: {problem}" for problem in problems))
    if problems:
        raise typer.Exit(1)


@app.command()
def budget(
    account: Annotated[str, typer.Argument(metavar="ACCOUNT", help="Whose budget.")],
    new: Annotated[
        float, typer.Argument(parser=terminal.number, metavar="NEW", help="New total epsilon.")
    ],
    ledger: inputs.MaybeLedger = None,
    why: Annotated[str, option("Reason, recorded with the change.")] = "",
    anchor: inputs.Anchor = None,
    anchor_key: inputs.AnchorKey = None,
    as_json: inputs.AsJson = False,
) -> None:
    """Change the budget of an account; the ledger records who did it, when and why.

    It cannot fall below what is spent. A larger budget weakens the promise to the people behind the
    data, also for earlier releases.
    """
    from pufferkit.account.amounts import in_epsilon  # noqa: PLC0415
    from pufferkit.account.amounts import show as amount  # noqa: PLC0415

    with _opened(None, ledger, anchor=anchor, anchor_key=anchor_key) as book:
        before = book.account(account)
        after = book.change_budget(account, new, why=why)
    if as_json:
        amounts = {
            "was": before.budget,
            "budget": after.budget,
            "total": after.total,
            "remaining": after.remaining,
        }
        terminal.as_json({"account": account, **{k: in_epsilon(v) for k, v in amounts.items()}})
        return
    terminal.say(
        f"{printable(account)}: budget {amount(before.budget)} is now {amount(after.budget)}; "
        f"{amount(after.total)} spent, {amount(after.remaining)} remaining"
    )


@app.command()
def anchor(
    places: Annotated[
        list[str],
        typer.Argument(metavar="[LEDGER] ANCHOR", help="The ledger, and the file to create."),
    ],
    ledger: inputs.MaybeLedger = None,
    anchor_key: inputs.AnchorKey = None,
) -> None:
    """Create an anchor: a separate file that holds the head of a ledger.

    Give it as --anchor from then on. Every charge checks and advances it, so that an old copy, a
    deleted log or a removed tail is detected. Keep it where people who can write the ledger have no
    write access.
    """
    *where, file = places
    if len(where) > 1:
        raise ValueError(f"ANCHOR: one file is created, got {', '.join(places)}")
    with _opened(next(iter(where), None), ledger, anchor=file, anchor_key=anchor_key) as book:
        book.make_anchor()
    terminal.written([file])


@app.command()
def export(
    where: Where = None,
    ledger: inputs.MaybeLedger = None,
    out: inputs.Out = None,
    as_json: inputs.AsJson = False,
) -> None:
    """Print every entry as a line of JSON, released values included; with --json as one array."""
    out = outputs.on_disk(out)
    outputs.check_outputs([out])
    with _opened(where, ledger) as book:
        lines = list(book.export())
    text = f"[{','.join(lines)}]\n" if as_json else "".join(f"{line}\n" for line in lines)
    if out is None:
        terminal.give(text)
    else:
        outputs.write_all({out: text.encode()})
        terminal.written([out])


def _what(body: Mapping[str, Any]) -> str:
    """Description of a charge: query, mechanism, window and label."""
    if "was" in body and "budget" in body:
        return " ".join(["budget changed", *([f"({body['why']})"] if body.get("why") else [])])
    words = [str(body.get("query") or body.get("what") or ""), str(body.get("mechanism", ""))]
    if body.get("window"):
        ends = " to ".join(map(str, body["window"]))
        words.append(ends if isinstance(body["window"][0], str) else f"entries {ends}")
    if body.get("label"):
        words.append(f"({body['label']})")
    return " ".join(word for word in words if word)


def _opened(where: str | None, ledger: str | None, **options: Any) -> pk.Ledger:
    """An existing ledger, named in one way or by the job; reading never creates one."""
    if where is not None and ledger is not None:
        raise ValueError("--ledger: the ledger is named already; leave one of them out")
    named = where or ledger or of_job("account", "ledger")
    if named is None:
        raise ValueError("--ledger: name the ledger; there is none in a job here")
    book = pk.Ledger(named, **options)
    if not book.exists:
        book.close()
        raise ValueError(f"{book!r}: there is no such ledger")
    return book
