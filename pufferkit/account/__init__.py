"""Accounts: what was spent and why, the ledger, and the payer of one series or many subjects."""
