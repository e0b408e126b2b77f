"""Data and queries: what was recorded, and what is asked of it."""
