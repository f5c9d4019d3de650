"""The `flashbench` command, also as `python -m flashbench`."""

import sys

from flashbench.errors import Exit, missing_package


def main() -> None:
    """Run the command line, or say what it needs to start."""
    try:
        from flashbench.cli import main as run
    except ModuleNotFoundError as error:
        if lacks := missing_package(error):
            print(f"flashbench: {lacks}", file=sys.stderr)
            sys.exit(Exit.NOT_MEASURED)
        raise
    run()


if __name__ == "__main__":
    main()
