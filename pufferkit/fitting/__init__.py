"""Beliefs from data, and tests of beliefs against data."""
