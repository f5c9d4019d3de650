"""Load a library in a separate process: `probe.py LIBRARY MODULE` prints its build info.

Prints one line of JSON (the result of `build_info()`, {} without one), or the loader's message with
exit code 1. Run by path, with only the standard library: a crashing library, or a package that
shadows another, harms nothing else.
"""

import importlib.util
import json
import sys


def main(library: str, module: str) -> int:
    spec = importlib.util.spec_from_file_location(module, library)
    assert spec is not None
    assert spec.loader is not None
    try:
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
    except ImportError as error:
        print(f"import error: {error}")
        return 1
    print(json.dumps(loaded.build_info() if hasattr(loaded, "build_info") else {}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
