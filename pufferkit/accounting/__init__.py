"""Composition theorems, the ledger, accounts and streams: what has been spent, and why."""
