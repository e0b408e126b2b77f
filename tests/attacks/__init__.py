"""Attacks on the account: histories that climb towards more loss than was charged.

`cases` makes histories and their neighbours, `charges` asks pufferkit what they cost, the loss
comes from `tests.oracles.joint_loss`, and `climb` brings the three together. ``python -m
tests.attacks`` looks for longer than the suite does.
"""
