"""``python -m halfulp`` is the command ``halfulp``."""

import sys


def main() -> None:
    """Run the command line. An interrupt while it is imported ends it with its own exit status."""
    try:
        from halfulp.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
