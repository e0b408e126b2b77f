"""``python -m pufferkit.cli``."""

from pufferkit.cli import main

main()
