"""``python -m halfulp`` is the command ``halfulp``."""

import sys


def main() -> None:
    """Run the command line. An interrupt while it is imported ends it with its own exit status."""
    from halfulp.installed import missing

    try:
        from halfulp.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as error:
        if (line := missing(error)) is None:
            raise
        print(f"error: {line}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
