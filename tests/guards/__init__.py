"""The guards of every change: a table of scales, and a walk through classes, questions, secrets.

``python -m tests.guards`` prints both.
"""
