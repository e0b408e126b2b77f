"""The command line under hostile input; run as ``python -m tests.fuzz --calls 20000 --seed 1``.

Every call is made as it stands, which is valid, and then with one thing spoiled: an option, its
model, table, ledger or record. Both must end as documented:
no traceback, no hang, exit code 0 or 2 (or 1 for a verdict), one line of error, nothing written by
a call that fails, nothing readable by others by one that succeeds, no control characters shown.
"""
