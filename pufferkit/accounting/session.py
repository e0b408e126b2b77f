"""A session: data, beliefs and a budget in one place.

The budget is the Pufferfish epsilon of everything ever released about the data under the beliefs. A
release costs the difference it makes to the joint guarantee, by the tightest theorem that applies,
which is usually less than its own epsilon. Beliefs that were bought from the data
(`private_transitions`) have spent some of it already: the first release charges that too.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pufferkit import checks
from pufferkit.accounting.amounts import (
    PICO,
    allowed_micro,
    in_epsilon,
    show,
    spent_micro,
    spent_pico,
    three_digits,
)
from pufferkit.accounting.charges import Charge, Terms, over_budget
from pufferkit.accounting.composition import ANY_START, Composition, compose, compose_kept
from pufferkit.accounting.entries import Account, Entry
from pufferkit.accounting.fingerprints import SeriesData
from pufferkit.accounting.history import Composed, entry_rows
from pufferkit.accounting.ledger import Ledger
from pufferkit.accounting.session_plan import BEST, SessionPlan, best_for, composable
from pufferkit.accounting.spending import (
    Spending,
    asked_query,
    joined,
    recorded_charge,
    spendings_of,
)
from pufferkit.accounting.windows import check_start
from pufferkit.beliefs.base import Beliefs, as_beliefs
from pufferkit.beliefs.meeting import check_series
from pufferkit.beliefs.provenance import owed
from pufferkit.data.query import Query
from pufferkit.data.series import Series
from pufferkit.errors import NoTheorem, OverBudget
from pufferkit.mechanisms.calibration import Calibration, in_order, requested
from pufferkit.mechanisms.dashboard import Dashboard, split
from pufferkit.mechanisms.plan import calibrate, plan
from pufferkit.mechanisms.release import Release
from pufferkit.mechanisms.usefulness import questioned, warn_if_drowned
from pufferkit.records import digest
from pufferkit.rounding import least_passing
from pufferkit.shown import Shown

_OVER = "the data of the session, like histogram(session.data.states, session.data)"
_PURCHASE = "private_transitions"
_CHARGE = "charge"
_PARTS = 1000
"""Of a refused epsilon, in which what would fit is looked for."""


class Session(Shown):
    """Releases about one series, kept within a budget.

    Parameters
    ----------
    data
        A `Series`, the `Table` of one subject, a sequence of states, or a sequence of segments of
        states; for networks and joint distributions also a record {name: value}.
    beliefs
        A `MarkovChain` or a `ChainClass` for the whole series, networks or joint distributions.
    budget
        Pufferfish epsilon for everything released about these data.
    ledger
        A `Ledger`, or a path or URL to open one.
    name
        The account, named after the data. Sessions with the same name share the budget. The
        first release creates the account.
    data_meant
        The same data under a second name, and data that changed since an earlier release, are
        refused; ``True`` confirms that this is intended.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from pufferkit import MarkovChain, Session, count
    >>> chain, book = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]), mkdtemp() + "/ledger.db"
    >>> session = Session([0, 0, 1] * 100, chain, 1.0, book, name="alice")
    >>> release = session.release(count(1, 300), epsilon=0.4)
    >>> session.remaining
    0.6
    >>> session.release(count(1, 300), epsilon=0.4).value == release.value  # the same one, free
    True
    >>> from pufferkit import histogram
    >>> session.plan(histogram([0, 1], 300), epsilon=0.3).plan.best.mechanism
    'influence_curve'
    """

    def __init__(
        self,
        data: Any,
        beliefs: Any,
        budget: float,
        ledger: Ledger | str,
        *,
        name: str = "data",
        data_meant: bool = False,
    ) -> None:
        self.beliefs: Beliefs = as_beliefs(beliefs)
        states, names = self.beliefs.states, self.beliefs.entries
        if names is not None and isinstance(data, Mapping):
            data = in_order(data, names)
        self.data = data if isinstance(data, Series) else Series.of(data, states)
        if set(self.data.states) - set(states):
            self.data = Series.of(self.data, states)
        if names is not None and self.data.lengths != (len(names),):
            raise ValueError(
                f"data: must have one value for each of the {len(names)} entries of the beliefs, "
                f"got {len(self.data)}"
            )
        # The whole series is marked, so that no window is too short to be recognised.
        check_series(self.beliefs, self.data)
        self.ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        self.name = name
        about: dict[str, Any] = {"lengths": _lengths(self.data), "beliefs": self.beliefs.digest}
        if self.data.step is not None:
            about["step"] = self.data.step
        self._terms = Terms(allowed_micro(budget), "composed", about)
        self._meant = data_meant
        self._recognised = SeriesData(self.data.codes, self.data.states, self.data.lengths)
        self._made: dict[str, tuple[str, Calibration]] = {}
        self.ledger.check_terms({name: (self._terms, self._recognised)}, data_meant=data_meant)
        self._bought = self._purchase()
        if self._owes() and self._account.remaining < 0:
            raise OverBudget(
                f"budget: the beliefs were bought from these data, which alone costs "
                f"{show(self._account.total)} of {show(self._account.budget)}; give a larger budget"
            )

    def __str__(self) -> str:
        account = self._account
        return (
            f"Session({self.name!r}, {len(self.data)} entries, {self.beliefs.description}, "
            f"{show(account.remaining)} of {show(account.budget)} remain)"
        )

    def table_rows(self) -> list[dict[str, Any]]:
        """One row for each charge, for a data frame or a notebook."""
        return self.history

    @property
    def remaining(self) -> float:
        """Epsilon that is left."""
        return in_epsilon(self._account.remaining)

    @property
    def spent(self) -> Composition:
        """The joint guarantee of everything released so far, and the rule that gives it."""
        return compose(self._spendings(), self.beliefs, self.data.lengths)

    @property
    def history(self) -> list[dict[str, Any]]:
        """One row for each charge, oldest first."""
        return [
            {
                "entry": entry.seq,
                "query": entry.body["query"],
                "window": tuple(entry.body["window"]),
                "mechanism": entry.body["mechanism"],
                "epsilon": in_epsilon(entry.epsilon),
                "scale": entry.body["scale"],
                "total": in_epsilon(entry.total),
                "rule": entry.body["rule"],
                "made_at": entry.made_at,
                "made_by": entry.made_by,
            }
            for entry in self._charges()
        ]

    def plan(
        self, query: Query, epsilon: float, *, window: tuple[int, int] | None = None
    ) -> SessionPlan:
        """Every mechanism side by side, and what the best one would cost."""
        bounds = self._window(window)
        query = asked_query(query, self.beliefs.states, self.data.window(*bounds), _OVER)
        check_start(bounds, self.beliefs, self.data.lengths)
        table = plan(self.beliefs, query, epsilon)
        account, composed = self._standing()
        spending = self._spending(composable(table), bounds)
        cost = max(0, self._joint(account, composed, spending)[0].micro - account.total)
        return SessionPlan(table, in_epsilon(cost), in_epsilon(account.remaining))

    def cost(
        self,
        query: Query,
        epsilon: float,
        *,
        mechanism: str = BEST,
        window: tuple[int, int] | None = None,
        label: str = "",
    ) -> float:
        """What `release` with the same arguments would cost; nothing is written.

        0 for a release that is already stored.
        """
        bounds = self._window(window)
        query = asked_query(query, self.beliefs.states, self.data.window(*bounds), _OVER)
        if self.ledger.find(self.name, self._key(query, epsilon, mechanism, bounds, label)):
            return 0.0
        account, composed = self._standing()
        _, calibration = self._calibrate(query, checks.privacy(epsilon), mechanism)
        joint, _ = self._joint(account, composed, self._spending(calibration, bounds))
        return in_epsilon(max(0, joint.micro - account.total))

    @property
    def profile(self) -> list[dict[str, Any]]:
        """The spending on the entries, run by run (`entry_rows`)."""
        return entry_rows(self._spendings(), self.beliefs, self.data.lengths)

    def release(
        self,
        query: Query,
        epsilon: float,
        *,
        mechanism: str = BEST,
        window: tuple[int, int] | None = None,
        label: str = "",
        anyway: bool = False,
    ) -> Release:
        """Answer a query with noise, paid from the budget.

        Asking again for the same release (same query, window, epsilon, mechanism and label) gives
        the stored value at no cost, also after a crash.

        Parameters
        ----------
        query
            Made for the length of the window, or a question about no series yet. Your own functions
            are distinguished by their names and numbers.
        epsilon
            Pufferfish privacy of this release alone.
        mechanism
            A name from a plan; by default the mechanism with the least noise that hides every entry
            and composes with later releases. After `exact_sum` and `wasserstein`, whose noise is
            calibrated for one sum alone, later releases cost far more than their epsilons.
        window
            First and last entry to use, counted from 1, unobserved entries included; by default the
            whole series. If the window starts within a segment, the beliefs must hold from any time
            on.
        label
            Something to tell otherwise equal releases apart.
        anyway
            Noise that drowns the answer gives a warning, `DrownedAnswer`, before anything is
            charged, unless this is true.

        Raises
        ------
        OverBudget
            If the joint guarantee would exceed the budget; nothing is spent then.
        NoTheorem
            If no theorem covers this release together with the earlier ones.
        """
        asked = questioned(checks.privacy(epsilon))
        if asked is not None:
            warnings.warn(asked, UserWarning, stacklevel=2)
        bounds = self._window(window)
        query = asked_query(query, self.beliefs.states, self.data.window(*bounds), _OVER)
        if mechanism not in ANY_START:
            check_start(bounds, self.beliefs, self.data.lengths)
        part = self.data.window(*bounds)
        key = self._key(query, epsilon, mechanism, bounds, label)
        stored = self.ledger.find(self.name, key)
        if stored is not None:
            return Release.from_dict(stored.body)
        name, calibration = self._calibrate(query, epsilon, mechanism)
        checked = calibration.checked(part)
        warn_if_drowned(calibration, anyway=anyway)
        return self._paid(calibration, checked, bounds, key, name)

    def charge(
        self, entry_epsilon: float, window: tuple[int, int] | None = None, *, label: str = ""
    ) -> float:
        """Charge what something else spends on these data: answers of `local.sanitize`, a library.

        Theorem: `entry_profile`, for the secrets and beliefs of its docstring. If the density of
        an output changes by a factor of at most e^b when one entry of the window changes, and by
        none when another entry does, it is a release of event-level epsilon b over the window,
        whatever made it: event-level epsilons add up entry by entry.

        Parameters
        ----------
        entry_epsilon
            Event-level epsilon b of the output, for each entry of the window: of mechanisms with
            differential privacy for one entry, their epsilon. Independent of the beliefs.
        window
            First and last entry that it uses, counted from 1; by default the whole series.
        label
            With a label the same charge is made once, however often it is asked for. Without one
            every call is a new charge. Charge before anything noisy is drawn.

        Returns
        -------
        The epsilon by which the account has grown; 0 for a label that was charged before.

        Raises
        ------
        OverBudget
            If the joint guarantee would exceed the budget; nothing is spent then.

        Examples
        --------
        >>> from tempfile import mkdtemp
        >>> from pufferkit import MarkovChain, Session
        >>> chain, book = MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]]), mkdtemp() + "/ledger.db"
        >>> session = Session([0, 0, 1] * 100, chain, 1.0, book, name="alice")
        >>> session.charge(0.1, window=(1, 30), label="library") > 0.1
        True
        >>> session.charge(0.1, window=(1, 30), label="library")
        0.0
        """
        bounds = self._window(window)
        b = spent_pico(checks.privacy(entry_epsilon)) / PICO
        asked = {"charge": b, "window": list(bounds), "label": label}
        key = digest({**asked, "once": label or secrets.token_hex(16)})
        while self.ledger.find(self.name, key, "charge") is None:
            account, composed = self._standing()
            # Only its event-level epsilon is known, so no other rule may use its mechanism.
            spending = Spending(_CHARGE, b, bounds, b)
            joint, after = self._joint(account, composed, spending)
            if joint.micro > account.budget:
                raise over_budget(joint.micro - account.total, account.remaining)
            charges = [self._purchase_charge(account)] if self._owes() else []
            charges.append(
                self._event_charge(
                    account, spending, key, joint.micro, rule=joint.rule, label=label, state=after
                )
            )
            if self.ledger.charge_many(charges, data_meant=self._meant):
                return in_epsilon(max(0, joint.micro - account.total))
        return 0.0

    def release_dashboard(self, plan: Dashboard, *, label: str = "") -> dict[str, Release]:
        """Answer all questions of a dashboard with noise, as one charge; the answers by name.

        Parameters
        ----------
        plan
            From `pufferkit.dashboard`, made for the beliefs and the whole series of the session.
        label
            Something to tell otherwise equal releases apart.

        Examples
        --------
        >>> import os, tempfile
        >>> import pufferkit as pk
        >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
        >>> book = os.path.join(tempfile.mkdtemp(), "ledger.db")
        >>> session = pk.Session([0, 0, 1] * 100, chain, 2.0, book)
        >>> both = {"time": (pk.count(1, 300), 30), "runs": (pk.episodes(1, 300), 20)}
        >>> plan = pk.dashboard(chain, both)
        >>> answers = session.release_dashboard(plan)
        >>> session.release_jointly(plan).raw[0] == answers["time"].raw[0]  # the same one, free
        True
        >>> len(session.history)
        1
        """
        return split(self.release_jointly(plan, label=label))

    def release_jointly(self, plan: Dashboard, *, label: str = "") -> Release:
        """As `release_dashboard`, with all answers in the single record that `verify` checks."""
        made_for = plan.calibration.beliefs
        if made_for is None or made_for.digest != self.beliefs.digest:
            raise ValueError("plan: it was made for other beliefs than those of the session")
        bounds, calibration = self._window(None), self._holding(plan.calibration)
        key = digest(
            {
                "dashboard": calibration.digest,
                "window": list(bounds),
                "label": label,
            }
        )
        stored = self.ledger.find(self.name, key)
        if stored is not None:
            return Release.from_dict(stored.body)
        part = calibration.checked(self.data.window(*bounds))
        return self._paid(calibration, part, bounds, key, "influence_curve")

    def _paid(
        self,
        calibration: Calibration,
        part: Series,
        window: tuple[int, int],
        key: str,
        name: str,
    ) -> Release:
        """Draw, then write charge and value in one transaction before anything is returned."""
        spending = self._spending(calibration, window)
        while True:
            account, composed = self._standing()
            bought = self._purchase_charge(account) if self._owes() else None
            joint, after = self._joint(account, composed, spending)
            if joint.micro > account.budget:
                fits = self._what_fits(account, composed, calibration, window, name)
                raise over_budget(joint.micro - account.total, account.remaining, fits)
            body = recorded_charge(calibration, spending, self.beliefs, joint.rule)
            drawn = calibration.release(part, anyway=True).to_dict()
            charge = Charge(
                self.name,
                key,
                spent_micro(calibration.epsilon),
                joint.micro,
                body,
                after=account.entries,
                terms=self._terms,
                value=drawn,
                data=self._recognised,
                state=after.to_dict(),
            )
            charges = [charge] if bought is None else [bought, charge]
            self.ledger.charge_many(charges, data_meant=self._meant)
            # What counts is what is stored, if two processes ask at once.
            stored = self.ledger.find(self.name, key)
            if stored is not None:
                return Release.from_dict(stored.body)

    def _joint(
        self, account: Account, composed: Composed, spending: Spending
    ) -> tuple[Composition, Composed]:
        """The joint guarantee with one more release, and the accumulated history."""
        new = spending.ordered(self.beliefs.states)
        if new.entry_epsilon is not None:  # as the ledger stores it
            new = replace(new, entry_epsilon=spent_pico(new.entry_epsilon) / PICO)
        after = composed.after(new)

        def history() -> list[Spending]:
            return [*self._spendings(), new]

        enough, sizes = in_epsilon(account.total), self.data.lengths
        return compose_kept(after, self.beliefs, sizes, history, enough), after

    def _spending(self, calibration: Calibration, window: tuple[int, int]) -> Spending:
        """The query with the gaps of the data, whether or not it was made with them."""
        pattern = self.data.window(*window).pattern
        gaps = None if pattern is None else joined(pattern)
        return replace(Spending.of(calibration, window), gaps=gaps)

    def _what_fits(
        self,
        account: Account,
        composed: Composed,
        refused: Calibration,
        window: tuple[int, int],
        name: str,
    ) -> str:
        """The largest epsilon, to three digits, for which the same mechanism fits the budget."""

        def epsilon(part: int) -> float:
            return three_digits(refused.epsilon * part / _PARTS)

        def refuses(part: int) -> bool:
            smaller = calibrate(name, self.beliefs, refused.query, epsilon(part))
            try:
                spending = self._spending(smaller, window)
                joint, _ = self._joint(account, composed, spending)
            except NoTheorem:
                return True
            return joint.micro > account.budget

        fits = least_passing(refuses, 0, _PARTS) - 1
        return f"epsilon {epsilon(fits):g} would fit ({name})" if fits else "no epsilon would fit"

    def _calibrate(self, query: Query, epsilon: float, mechanism: str) -> tuple[str, Calibration]:
        """The calibration, and the name by which `calibrate` repeats it.

        Made once for all windows of the same lengths and gaps.
        """
        key = digest(requested(mechanism, self.beliefs, query, epsilon))
        if key not in self._made:
            if mechanism == BEST:
                self._made[key] = best_for(self.beliefs, query, epsilon)
            else:
                made = calibrate(mechanism, self.beliefs, query, epsilon)
                self._made[key] = (mechanism, made)
        name, made = self._made[key]
        return name, self._holding(replace(made, query=query))

    def _holding(self, calibration: Calibration) -> Calibration:
        """The calibration, with what its beliefs were bought for, which the account holds."""
        if self._bought is None:
            return calibration
        known = replace(calibration.evidence, bought=self._bought.entry_epsilon)
        return replace(calibration, evidence=known)

    def _standing(self) -> tuple[Account, Composed]:
        """The balance of the account and its accumulated charges, at one moment."""
        account, state = self.ledger.standing(self.name)
        composed = Composed()
        if account is None:
            account = Account(self.name, self._terms.rule, self._terms.budget, 0, 0)
        elif state is not None:
            composed = Composed.from_dict(state)
        else:  # not charged yet
            known, charges = self.ledger.charges_of([self.name])
            account = known[self.name]
            composed = Composed.of(spendings_of(charges, self.beliefs.states))
        if self._bought is not None and self._owes():
            composed, enough = composed.after(self._bought), in_epsilon(account.total)
            joint = compose_kept(composed, self.beliefs, self.data.lengths, self._spendings, enough)
            account = account._replace(total=max(account.total, joint.micro))
        return account, composed

    def _purchase(self) -> Spending | None:
        """What the data have been spent for the beliefs, on every entry."""
        bought = owed(self.beliefs.sources)
        if bought is None:
            return None
        if len(self.data) < bought.entries:
            raise ValueError(
                f"beliefs: were {bought.words}, and the data have {len(self.data):,}; open the "
                "session over all of them, or, for data of other people, use "
                "PrivateTransitions.for_others"
            )
        b = spent_pico(bought.entry_epsilon) / PICO
        # Only its event-level epsilon holds under these beliefs, so no rule knows the mechanism.
        return Spending(_PURCHASE, b, (1, len(self.data)), b)

    def _owes(self) -> bool:
        """Whether the beliefs were bought and the account does not hold that yet."""
        if self._bought is None:
            return False
        return self.ledger.find(self.name, self._purchase_key, "charge") is None

    @property
    def _purchase_key(self) -> str:
        b = None if self._bought is None else self._bought.entry_epsilon
        return digest({_PURCHASE: b, "beliefs": self.beliefs.digest})

    def _purchase_charge(self, account: Account) -> Charge:
        """The charge of the purchase, with the total that `_standing` holds for it."""
        assert self._bought is not None
        return self._event_charge(account, self._bought, self._purchase_key, account.total)

    def _event_charge(
        self,
        account: Account,
        spending: Spending,
        key: str,
        total: int,
        *,
        rule: str = "entry_profile",
        label: str = "",
        state: Composed | None = None,
    ) -> Charge:
        """The charge of something of which only the event-level epsilon is known."""
        return Charge(
            self.name,
            key,
            spent_micro(spending.epsilon),
            total,
            {
                "query": label or spending.mechanism,
                "labels": [],
                "window": list(spending.window),
                "beliefs": self.beliefs.digest,
                "mechanism": spending.mechanism,
                "scale": None,
                "entry_privacy_pico": spent_pico(spending.entry_epsilon or 0.0),
                "quilt": None,
                "contributions": None,
                "gaps": None,
                "rule": rule,
            },
            after=account.entries,
            terms=self._terms,
            data=self._recognised,
            state=None if state is None else state.to_dict(),
        )

    def _spendings(self) -> list[Spending]:
        """Everything spent so far, with the purchase of the beliefs if it is not charged yet."""
        charged = spendings_of(self._charges(), self.beliefs.states)
        return [*charged, self._bought] if self._bought and self._owes() else charged

    @property
    def _account(self) -> Account:
        return self._standing()[0]

    def _charges(self) -> list[Entry]:
        return self.ledger.charges_of([self.name])[1]

    def _window(self, window: tuple[int, int] | None) -> tuple[int, int]:
        if window is None:
            return 1, len(self.data)
        first, last = (checks.whole("window", n, 1) for n in window)
        if not first <= last <= len(self.data):
            raise ValueError(
                f"window: needs 1 <= first <= last <= {len(self.data)}, got {first} to {last}"
            )
        return first, last

    def _key(
        self, query: Query, epsilon: float, mechanism: str, window: tuple[int, int], label: str
    ) -> str:
        return digest(
            {
                "query": query.digest,
                "window": list(window),
                "epsilon": float(epsilon),
                "mechanism": mechanism,
                "label": label,
            }
        )


def _lengths(series: Series) -> str | list[int]:
    """Lengths of the segments, or a digest of them if there are many."""
    return list(series.lengths) if len(series.lengths) <= 100 else digest(list(series.lengths))
