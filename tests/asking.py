"""One series asked of one account, under the same beliefs each time."""

from functools import partial

import pufferkit as pk


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
        return self.ledger.charges_of([self.account.name])[1]
