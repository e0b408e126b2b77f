"""``python -m pufferkit``."""

from pufferkit.cli import main

if __name__ == "__main__":
    main()
