"""A release recomputed from its record: the theorems once more, plainly, to be read.

It shares the beliefs with the mechanisms, and none of their searches.
"""
