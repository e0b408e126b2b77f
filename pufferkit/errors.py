"""Errors that callers may want to distinguish. Invalid arguments raise a plain ``ValueError``."""

from typing import Any


class NotApplicable(ValueError):
    """A mechanism's conditions do not hold for these beliefs; the message says which.

    Examples
    --------
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.99, 0.01], [0.01, 0.99]])
    >>> try:
    ...     pk.gk16(chain, pk.count(1, 100), epsilon=1)
    ... except pk.NotApplicable as reason:
    ...     print(str(reason).partition(";")[0])
    GK16 needs an influence matrix of spectral norm below 1
    """


class TakesLong(NotApplicable):
    """A mechanism applies, but not within the work that was allowed."""


class NoTheorem(ValueError):
    """No theorem covers this request, so no number is given.

    Examples
    --------
    >>> import pufferkit as pk
    >>> flu = pk.FiniteJoint({(0, 0): 0.4, (0, 1): 0.1, (1, 0): 0.1, (1, 1): 0.4})
    >>> try:
    ...     pk.entry_epsilon(flu, 2, 1.0)
    ... except (pk.NoTheorem, pk.NotApplicable) as reason:
    ...     print("refused")
    refused
    """


class OverBudget(ValueError):
    """The budget that is left is too small; nothing was spent.

    Examples
    --------
    >>> import os, tempfile
    >>> import pufferkit as pk
    >>> book = pk.Ledger(os.path.join(tempfile.mkdtemp(), "ledger.db"))
    >>> _ = book.open_account("alice", budget=0.5)
    >>> try:
    ...     _ = book.spend("alice", 0.6, what="weekly count")
    ... except pk.OverBudget as short:
    ...     print(short)
    alice: requested 0.600, remaining 0.500, short by 0.100
    """


class LedgerError(ValueError):
    """The ledger cannot be read or written, or was tampered with; nothing was released.

    Examples
    --------
    >>> import pufferkit as pk
    >>> issubclass(pk.OverBudget, ValueError), issubclass(pk.LedgerError, ValueError)
    (True, True)
    """


class DrownedAnswer(UserWarning):
    """Noise drowns the answer that is about to be released (`Usefulness`); nothing is spent yet.

    ``anyway=True`` confirms it. ``calibration`` is the noise that was judged.

    Examples
    --------
    >>> import warnings
    >>> import pufferkit as pk
    >>> chain = pk.MarkovChain.steady([[0.9, 0.1], [0.4, 0.6]])
    >>> noise = pk.influence_curve(chain, pk.relative_frequencies([0, 1], 10), epsilon=1)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", pk.DrownedAnswer)
    ...     try:
    ...         noise.release([0] * 10)
    ...     except pk.DrownedAnswer as drowned:
    ...         print(str(drowned).partition(":")[0])
    the noise drowns the answer
    >>> len(noise.release([0] * 10, anyway=True).value)
    2
    """

    def __init__(self, message: str, calibration: Any = None) -> None:
        super().__init__(message)
        self.calibration = calibration


def printable(text: object) -> str:
    """Text that is safe to print on a terminal: control characters are escaped."""
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(
        letter if letter.isprintable() else ascii(letter)[1:-1].replace("\\'", "'")
        for letter in shown
    )
