"""``python -m halfulp`` is the command ``halfulp``."""

from halfulp.cli import main

if __name__ == "__main__":
    main()
