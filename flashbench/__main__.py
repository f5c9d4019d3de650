"""The `flashbench` command, also as `python -m flashbench`."""

import sys
from typing import NoReturn

from flashbench.errors import Exit, FlashbenchError, missing_package


def main() -> None:
    """Run the command line, or say what it needs to start."""
    if sys.version_info < (3, 11):  # noqa: UP036 - run from a checkout, nothing has checked it
        sys.exit(_fail(f"Python 3.11 or later is needed; this is {sys.version.split()[0]}"))
    checks = sys.argv[1:2] == ["preflight"]
    try:
        from flashbench.cli import main as run

        if checks:
            import flashbench.cli.preflight  # noqa: F401 - with all that its options need
    except ModuleNotFoundError as error:
        if lacks := missing_package(error):
            sys.exit(_bare_preflight(lacks) if checks else _fail(lacks))
        raise
    run()


def _bare_preflight(lacks: str) -> int:
    """Find defects of the sources by Python alone. lacks: what other levels need."""
    import argparse
    import json
    from pathlib import Path

    from flashbench.preflight import run
    from flashbench.streams import guard
    from flashbench.views import preflight

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            sys.exit(_fail(f"preflight: {message}; see flashbench preflight --help", Exit.USAGE))

    guard()
    parser = Parser("flashbench preflight", description=_bare_preflight.__doc__)
    parser.add_argument("--level", choices=["source", "build", "device"], default="source")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    options = parser.parse_args(sys.argv[2:])
    if options.level != "source":
        return _fail(f"--level {options.level}: {lacks}")
    try:
        report = run(Path.cwd(), "source")
        as_json = options.format == "json"
        text = json.dumps(preflight.data(report), indent=1) if as_json else preflight.text(report)
        print(text.rstrip("\n"))
    except FlashbenchError as error:
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _fail("interrupted")
    return Exit.REGRESSION if report.errors else Exit.PASS


def _fail(message: str, code: Exit = Exit.NOT_MEASURED) -> int:
    print(f"flashbench: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
