"""Composition theorems, the ledger, sessions and streams: what has been spent, and why."""
