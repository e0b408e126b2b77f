"""The errors a caller may want to tell apart. Bad arguments are plain ``ValueError``."""


class NotApplicable(ValueError):
    """A mechanism's conditions do not hold for these beliefs; the message says which."""


class NoTheorem(ValueError):
    """No theorem covers what was asked, so no number is given."""


class OverBudget(ValueError):
    """The account cannot pay for this; nothing was spent."""


class LedgerError(ValueError):
    """The ledger cannot be read or written, or was tampered with; nothing was handed over."""


def printable(text: object) -> str:
    """Text that a terminal shows and does not obey: control characters and the like, escaped."""
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(
        letter if letter.isprintable() else ascii(letter)[1:-1].replace("\\'", "'")
        for letter in shown
    )
