"""Import a built extension by its path in a fresh process: `check_import.py LIBRARY MODULE`.

Missing symbols and wrong module names show up only when a library is loaded, not when it is linked.
Prints one line and exits with 1 if the library does not load.
"""

import importlib.util
import re
import shutil
import subprocess
import sys


def main(library: str, module: str) -> int:
    spec = importlib.util.spec_from_file_location(module, library)
    assert spec is not None
    assert spec.loader is not None
    try:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    except ImportError as error:
        print(explain(str(error), module))
        return 1
    return 0


def explain(error: str, module: str) -> str:
    """The loader's error in one line, with a missing symbol demangled."""
    if "does not define module export function" in error:
        return f"wrong module name: the library does not define {module} ({error})"
    if found := re.search(r"undefined symbol: (\S+)", error):
        return f"undefined symbol: {demangle(found[1])}; the unit that defines it was not compiled"
    return f"import error: {error}"


def demangle(symbol: str) -> str:
    tool = shutil.which("c++filt")
    if tool is None:
        return symbol
    return subprocess.run([tool, symbol], capture_output=True, text=True).stdout.strip() or symbol


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
