"""Start a Python that runs this process's flashbench, wherever that is."""

import sys
from pathlib import Path

_PATH = "import sys; sys.path.insert(0, sys.argv.pop(1)); "
# Then modules are found from the current directory, as `python -m` would.
FROM_HERE = "sys.path[0] = ''; "


def command(code: str, *arguments: str) -> list[str]:
    """The command for `code`, which finds the arguments in sys.argv[1:]."""
    root = str(Path(__file__).parents[1])
    return [sys.executable, "-P", "-c", _PATH + code, root, *arguments]
