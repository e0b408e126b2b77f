"""One series asked of one account, under the same beliefs each time."""

from functools import partial

import pufferkit as pk
from pufferkit.account.spending import spending_of


class Asking:
    """Short for `release(data, beliefs, ..., account=account)`, and for what an account tells."""

    def __init__(self, data, beliefs, budget, ledger, *, name="data", **options):
        self.account = pk.Account(ledger, name, budget, **options)
        self.ledger, self.data, self.beliefs = self.account.ledger, data, beliefs
        self.release = partial(pk.release, data, beliefs, account=self.account)
        self.cost = partial(self.account.cost, data, beliefs)
        self.plan = partial(self.account.plan, data, beliefs)
        self.charge = partial(self.account.charge, data=data, beliefs=beliefs)

    @property
    def remaining(self):
        return self.account.remaining

    @property
    def spent(self):
        return self.account.spent

    @property
    def history(self):
        return self.account.history

    @property
    def profile(self):
        return self.account.profile

    @property
    def charges(self):
        return charges_of(self.ledger, self.account.name)


def charges_of(ledger, name):
    """The charges of an account, oldest first."""
    return [entry for entry in ledger.entries(name) if entry.kind == "charge"]


def spent_by(asking):
    """What each charge of an account spent."""
    return [spending_of(entry, asking.account.beliefs.states) for entry in asking.charges]


def for_each(table, beliefs, epsilon, *, query="histogram", **options):
    """Short for `release(table, ..., per="subject")` with the accounts of a ledger."""
    return pk.release(table, beliefs, query, epsilon, per="subject", **_paid(table, options))


def for_all(table, beliefs, epsilon, *, query="histogram", groups=None, **options):
    """The same for all subjects together, or for groups of them."""
    per = "all" if groups is None else groups
    return pk.release(table, beliefs, query, epsilon, per=per, **_paid(table, options))


def _paid(table, options):
    """The options of `release`, with the accounts that ledger, budget and prefix name."""
    ledger, budget = options.pop("ledger", None), options.pop("budget", None)
    prefix, meant = options.pop("prefix", ""), options.pop("confirm_data", False)
    if ledger is None:
        return options
    book = ledger if isinstance(ledger, pk.Ledger) else pk.Ledger(ledger)
    return {**options, "account": book.accounts_for(table, prefix, budget, confirm_data=meant)}
