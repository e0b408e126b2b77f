"""The one act: these data, under these beliefs, this question, this epsilon, from this account."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from pufferkit.account.accounts import BEST, Account, release_series
from pufferkit.account.ledger import TableAccounts
from pufferkit.account.periods import Period, Window, period_of, rule_of
from pufferkit.account.subjects import FleetRun
from pufferkit.account.tables import Groups, release_several, release_table
from pufferkit.data.table import Table
from pufferkit.errors import NotApplicable
from pufferkit.influence.progress import Progress

SUBJECT, ALL = "subject", "all"


def release(
    data: Any,
    beliefs: Any,
    query: Any,
    epsilon: float | None,
    *,
    account: Account | TableAccounts | None = None,
    mechanism: str = BEST,
    per: str | Mapping[Hashable, Hashable] | None = None,
    keys: Sequence[Hashable] | None = None,
    window: Window | None = None,
    label: str = "",
    anyway: bool = False,
    storage: str | None = None,
    progress: Progress | None = None,
) -> Any:
    """Answer a question with noise; with an account it is paid from its budget.

    With an account, asking again for the same release (same question, window, epsilon, mechanism
    and label) gives the stored value at no cost, also after a crash and on another machine.

    Parameters
    ----------
    data
        A `Table` with ``per``; or one series: a `Series`, the `Table` of one subject, a sequence of
        states, or a sequence of segments of states; for networks and joint distributions also a
        record {name: value}. With an account the whole series, which may grow from one release to
        the next; or, where times are known, a later part of it.
    beliefs
        Chains for the whole series, networks or joint distributions.
    query
        A question, a `Query` made for the window, or several with the errors they may have,
        ``{name: (query, error)}``: these are one release, and one charge. Of a table the errors are
        those of the row of median size.
    epsilon
        Pufferfish privacy of this release alone. With an account: of a series without an end of
        which every entry is asked like these. For several questions ``None`` gives the least that
        meets the errors; otherwise the errors are proportions.
    account
        Pays. Without one, nothing knows of other releases about the same data. For a table the
        accounts of its subjects, `Ledger.accounts_for`: each pays for its own entries, and if one
        cannot, none does.
    mechanism
        A name from a plan; by default the one with the least noise. With an account it must
        compose with later releases, which is the influence curve for chains. After `exact_sum` and
        `wasserstein`, whose noise is made for one sum alone, later releases cost far more.
    per
        For a table: ``"subject"``, an answer for each subject (and window of the table);
        ``"all"``, one about all of them together, whose entries all are paid for; or one for each
        of the ``keys`` of a column of groups that the table was read with, ``read(...,
        groups=column)``, or of a mapping from subject to group. No subject is in two groups, so all
        groups together cost as much as one.
    keys
        All possible groups: which of them occur is a fact about the data.
    window
        The entries to use, by default all of the data. First and last entry, counted from 1 from
        the first entry of the account, unobserved entries included; a period of the calendar
        (``"2026"``, ``"2026-09"``, ``"2026-W37"``, ``"2026-09-15"``), or two moments, the second
        excluded, for data with a clock. For a series also a rule (``"day"``, ``"month"``,
        ``"7d"``), which gives a release for each window that the data cover, by its name; windows
        that they cover in part are left out, and listed in ``left_out``.
    label
        Something to tell otherwise equal releases apart. For a table the name of the run: the same
        call continues one that was killed.
    anyway
        Noise that drowns the answer gives a warning, `DrownedAnswer`, before anything is charged,
        unless this is true.
    storage
        For a table on a cluster: a folder that driver and executors can reach.
    progress
        For a table: called with the number of rows done and the number of all rows.

    Returns
    -------
    `Releases` for a table, for several questions by name; on a cluster and per subject a
    DataFrame. For a series a `Release`; for
    several questions the joint release, which `verify` checks and `mechanisms.joint_plan.split`
    takes apart.

    Raises
    ------
    OverBudget
        If the account cannot pay; nothing is spent then.
    NoTheorem
        If no theorem covers this release together with the earlier ones.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> pk.release([0, 0, 1] * 100, chain, pk.count(1), 1.0).mechanism
    'influence_curve'

    A table, with an account for each subject:

    >>> import polars as pl
    >>> from tempfile import mkdtemp
    >>> rows = pl.DataFrame({"who": ["ann", "bob"] * 200, "t": range(400), "x": [0, 0, 1, 1] * 100})
    >>> table = pk.read(rows, subject="who", time="t", state="x", states=chain.states)
    >>> book = pk.Ledger(mkdtemp() + "/ledger.db")
    >>> accounts = book.accounts_for(table, "home of ", budget=2)
    >>> pk.release(table, chain, "histogram", 1, account=accounts, per="subject").subjects
    ('ann', 'bob')
    >>> len(pk.release(table, chain, "histogram", 0.5, account=accounts, per="all"))
    1
    """
    far = hasattr(type(data), "counted")  # a table on a cluster
    if per is None and keys is None and not far:
        if isinstance(account, TableAccounts):
            raise ValueError("account: is for the subjects of a table; give per='subject'")
        return release_series(
            data,
            beliefs,
            query,
            epsilon,
            account=account,
            mechanism=mechanism,
            window=window,
            label=label,
            anyway=anyway,
        )
    accounts = _accounts_of(data, account, far=far)
    period = _period(window)
    if isinstance(query, Mapping) and (far or mechanism not in (BEST, "influence_curve")):
        raise NotApplicable(
            "query: several questions at once are asked with the influence curve, and not on a "
            "cluster; ask one by one, from accounts, which add them up"
        )
    if epsilon is None and not isinstance(query, Mapping):
        raise ValueError("epsilon: must be given for one question about a table")
    each, groups = per in (None, SUBJECT), None
    what = "each" if each else "all"
    if not each and per != ALL:
        data, far = data.collect() if far else data, False
        groups = _groups(data, per, keys)
        what = f"all by {groups.digest}"
    elif keys is not None:
        raise ValueError("keys: are those of groups; name the column of groups with per=")
    mechanism = "influence_curve" if mechanism == BEST else mechanism

    def run_of(asked: Any, level: Any) -> FleetRun:
        return FleetRun.of(what, beliefs, level, asked, mechanism, label, data.windows)

    shown: dict[str, Any] = {"each": each, "progress": progress, "anyway": anyway}
    if isinstance(query, Mapping):
        shown |= {"accounts": accounts, "groups": groups, "period": period, "epsilon": epsilon}
        return release_several(data, query, run_of, **shown)
    run = run_of(query, epsilon)
    if far:
        from pufferkit.cluster.packs import release_on_cluster  # noqa: PLC0415

        if period is not None:
            raise NotApplicable(f"window: give the rows of {period.name}, filtered on the cluster")
        return release_on_cluster(data, run, accounts, storage=storage, **shown)
    return release_table(data, run, accounts, groups=groups, period=period, **shown)


def _accounts_of(data: Any, account: Any, *, far: bool) -> TableAccounts | None:
    """The accounts of a table; refuses what is no table."""
    if not far and not isinstance(data, Table):
        raise ValueError(
            f"table: must come from read, got {type(data).__name__}; for example "
            'read(frame, subject="person", time="time", state="activity")'
        )
    if account is not None and not isinstance(account, TableAccounts):
        raise ValueError("account: a table has one for each subject; see Ledger.accounts_for")
    return account


def _period(window: Window | None) -> Period | None:
    """The period of a table that is asked about; ``None`` for all of it."""
    if rule_of(window) is not None:
        raise ValueError(
            "window: a table has the windows it was read with: read(..., window=); here a "
            "period such as 2026-09 chooses among them"
        )
    period = None if window is None else period_of(window)
    if window is not None and period is None:
        raise ValueError("window: of a table is a period, such as 2026-09, or two moments")
    return period


def _groups(table: Table, per: Any, keys: Sequence[Hashable] | None) -> Groups:
    """The groups of a column that the table was read with, or those of a mapping."""
    members = table.groups.get(per) if isinstance(per, str) else per
    if members is None:
        raise ValueError(
            f"per: must be 'subject', 'all' or a column of groups that the table was read with "
            f"(it has {', '.join(table.groups) or 'none'}; read(..., groups={per!r})), got {per!r}"
        )
    return Groups.of(table.subjects, members, keys)
