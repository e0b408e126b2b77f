"""``python -m pufferkit.cli``."""

from pufferkit.cli import main

if __name__ == "__main__":
    main()
