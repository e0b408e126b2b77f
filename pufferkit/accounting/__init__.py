"""Composition theorems, the ledger, accounts: what has been spent, and why."""
