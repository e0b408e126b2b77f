"""What an account has accumulated, and what one more release adds to it.

The price of a release is what it adds to the largest loss of the profile. It is never more than
the loss of a series without an end of which each entry spends as much as the one that spends most,
so a question that is asked every day at one epsilon costs that epsilon once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pufferkit.account.amounts import PICO, in_epsilon, spent_micro, spent_pico
from pufferkit.account.chain import Entry
from pufferkit.account.spending import Spending, SpentProfile, spending_of, with_the_rest
from pufferkit.account.theorems import ANY_START, PRIVATE, check_start, entries_separate
from pufferkit.beliefs.base import Beliefs
from pufferkit.errors import NoTheorem
from pufferkit.records import digest

_LISTED = 8
"""Segments up to which their lengths are recorded; a digest stands for more."""

ALONE, PROFILE, ENDLESS = "single", "entry_profile", "endless"
"""The rules that give a price: a promise of its own, the profile, a promise without an end."""


@dataclass(frozen=True)
class Standing:
    """What the charges of an account add up to."""

    profile: SpentProfile | None = field(default_factory=SpentProfile)
    """What was spent on each entry; ``None`` after a release without a per-entry bound."""
    releases: int = 0
    last: int = 0
    """The last entry that was used."""
    segments: tuple[int, ...] | str = ()
    """Lengths of the independent segments up to it, or a digest of many."""
    bought: tuple[str, ...] = ()
    """Keys of the purchases of beliefs that are charged."""
    promised: bool = False
    """Whether a release was priced by its own promise, which holds under its beliefs only."""

    def after(
        self, spending: Spending, segments: Sequence[int], *, rule: str, bought: str | None = None
    ) -> Standing:
        """The standing after one more charge; ``segments`` are those of the whole series."""
        b, profile = spending.entry_epsilon, self.profile
        last = max(self.last, spending.window[1])
        return Standing(
            None if b is None or profile is None else profile.with_spending(spending),
            self.releases + 1,
            last,
            segments_until(segments, last),
            self.bought if bought is None else (*self.bought, bought),
            self.promised or rule == ALONE,
        )

    def whole(self, name: str, lengths: tuple[int, ...], *, clocked: bool) -> tuple[int, ...]:
        """The segments of the whole series, of which these end with the data that were given.

        Where a clock tells the places of one segment, the data may end before entries that were
        used. Refuses a series in which the entries used so far lie in other segments.
        """
        if not self.last:
            return lengths
        if clocked and len(lengths) == 1:
            lengths = (max(lengths[0], self.last),)
        if sum(lengths) < self.last or segments_until(lengths, self.last) != self.segments:
            raise ValueError(
                f"data: the series of {name!r} had other segments when entries up to {self.last} "
                "were released; the data of an account may only grow at the end"
            )
        return lengths

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as the ledger keeps it."""
        return {
            "profile": None if self.profile is None else self.profile.to_dict(),
            "releases": self.releases,
            "last": self.last,
            "segments": self.segments if isinstance(self.segments, str) else list(self.segments),
            "bought": list(self.bought),
            "promised": self.promised,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Standing:
        """What ``to_dict`` described."""
        profile, segments = data["profile"], data["segments"]
        return cls(
            None if profile is None else SpentProfile.from_dict(profile),
            int(data["releases"]),
            int(data["last"]),
            segments if isinstance(segments, str) else tuple(segments),
            tuple(data["bought"]),
            bool(data["promised"]),
        )

    def after_entry(self, entry: Entry) -> Standing:
        """The standing after a charge, from what the ledger holds of it."""
        body = entry.body
        size = range(len(body["contributions"] or ()))
        segments = body["segments"]
        after = self.after(
            spending_of(entry, size), (), rule=body["rule"], bought=body.get("bought")
        )
        return replace(after, segments=segments if isinstance(segments, str) else tuple(segments))


def segments_until(lengths: Sequence[int], last: int) -> tuple[int, ...] | str:
    """Lengths of the segments up to entry ``last``, or a digest if there are many."""
    segments, left = [], last
    for length in lengths:
        segments.append(min(length, left))
        left -= segments[-1]
        if not left:
            break
    return tuple(segments) if len(segments) <= _LISTED else digest(segments)


def as_stored(spending: Spending, theta: Beliefs) -> Spending:
    """A spending as the ledger stores it: states in order, its event-level epsilon rounded up."""
    ordered = spending.ordered(theta.states)
    b = ordered.entry_epsilon
    return ordered if b is None else replace(ordered, entry_epsilon=spent_pico(b) / PICO)


def price(
    before: Standing,
    total: int,
    new: Sequence[Spending],
    theta: Beliefs,
    lengths: Sequence[int],
    *,
    horizon: int | None,
    endless: bool,
    exact: bool = True,
) -> tuple[int, str]:
    """The total of an account after one release, in millionths of epsilon, and its rule.

    Parameters
    ----------
    before, total
        The standing and the total of the account.
    new
        The spendings of the release, over windows that have no entry in common.
    theta, lengths
        The beliefs, and the lengths of the segments of the series so far.
    horizon
        Length of the longest series that the account may cover; ``None`` for named entries.
    endless
        Whether the noise is that of `endless`: then the promise covers every profile that is
        nowhere above its own.
    exact
        Whether losses are computed entry by entry; otherwise as if every entry had spent as much
        as the one that spent most.

    Raises
    ------
    NoTheorem
        If a release has no per-entry bound, and others were made.
    """
    own, profile = spent_micro(new[0].epsilon), before.profile
    for spending in new:
        known = profile is not None and spending.entry_epsilon is not None
        profile = profile.with_spending(spending) if known else None  # type: ignore[union-attr]

    def loss_of(profile: SpentProfile) -> int:
        if not exact and horizon is not None:
            return spent_micro(profile.largest_loss(theta, horizon))
        return spent_micro(profile.loss(theta, lengths, in_epsilon(total), horizon))

    if endless and profile is not None and profile.nowhere_above(new[0]):
        if own <= total:
            return total, ENDLESS
        loss = loss_of(profile) if exact else own
        return (max(total, loss), PROFILE) if loss <= own else (own, ENDLESS)
    alone = None if before.releases else _alone(new, theta, lengths, horizon)
    if profile is None:
        if alone is None:
            raise NoTheorem(
                f"no theorem covers this release together with the earlier ones: "
                f"{new[0].mechanism} or an earlier one gives no per-entry bound"
            )
        return max(total, own), ALONE
    loss = loss_of(profile)
    if alone is not None and own < loss:
        return max(total, own), ALONE
    return max(total, loss), PROFILE


def _alone(
    new: Sequence[Spending], theta: Beliefs, lengths: Sequence[int], horizon: int | None
) -> Sequence[Spending] | None:
    """The release, if its own promise covers every entry of the series (`theorems.single`).

    Several windows are one release if its noise was made for the whole series, and not for each of
    them alone. Entries that are still to come count too.
    """
    if len(new) > 1 and any(max(one.made_for or (0,)) < max(lengths) for one in new):
        return None
    if theta.hides_states and horizon is not None:
        lengths = with_the_rest(lengths, max(one.window[1] for one in new), horizon)
    try:
        for spending in new:
            if spending.mechanism not in PRIVATE:
                return None
            if spending.mechanism not in ANY_START:
                check_start(spending.window, theta, lengths)
                entries_separate(spending.window, theta, lengths)
    except NoTheorem:
        return None
    return new
