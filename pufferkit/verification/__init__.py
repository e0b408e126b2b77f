"""Verification of a release by recomputation from its record: the theorems in plain code.

It shares the beliefs with the mechanisms, but none of their searches.
"""
