"""How much one entry says about others, and what that costs."""
