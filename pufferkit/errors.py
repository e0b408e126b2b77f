"""The errors a caller may want to tell apart. Bad arguments are plain ``ValueError``."""


class NotApplicable(ValueError):
    """A mechanism's conditions do not hold for these beliefs; the message says which."""


class NoTheorem(ValueError):
    """No theorem covers what was asked, so no number is given."""


class OverBudget(ValueError):
    """The account cannot pay for this; nothing was spent."""


class LedgerError(ValueError):
    """The ledger cannot be read or written, or was tampered with; nothing was handed over."""
