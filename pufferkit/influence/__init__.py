"""How much one entry reveals about others, and the privacy loss that follows."""
