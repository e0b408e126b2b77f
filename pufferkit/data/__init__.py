"""What was recorded, and what is asked of it."""
