"""Distributions of sums, and how far one entry moves them."""
