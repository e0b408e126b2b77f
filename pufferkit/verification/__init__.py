"""Checks of releases from their records: the proof that a release carries is evaluated.

Nothing is searched and no programme is solved. It shares with the mechanisms what the beliefs and
the question say, and none of their searches; docs/verifying.md walks through it.
"""
