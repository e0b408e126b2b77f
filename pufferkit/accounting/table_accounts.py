"""The accounts of the subjects of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pufferkit.accounting.ledger import Ledger


@dataclass(frozen=True)
class TableAccounts:
    """The accounts of the subjects of a table, from `Ledger.accounts_for`."""

    ledger: Ledger
    prefix: str
    budget: float
    data_meant: bool = False
    horizon: int | None = None
