"""Max-influence, and the quilts that decide the noise."""
