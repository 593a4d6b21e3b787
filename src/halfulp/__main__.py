"""``python -m halfulp`` is the command ``halfulp``."""

import sys


def main() -> None:
    """Run the command line; where it is interrupted while it is imported, end as it does itself."""
    try:
        from halfulp.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
