"""Check what a build needs from the machine; each missing thing is one line with its fix.

`make` runs this before it creates an environment, setup.py before it calls CMake. Standard library
and old syntax only, because it must run on a Python that is too old in order to report that.
"""

import os
import shutil
import sys
import sysconfig

OLDEST = (3, 11)


def missing(for_environment=False):
    """One line for each missing thing, with the command that fixes it."""
    lines = []
    if sys.version_info < OLDEST:
        lines.append(
            "Python {}.{} is too old: flashbench needs {}.{} or newer; "
            "install it and run `make PYTHON=python3.11`".format(*sys.version_info[:2], *OLDEST)
        )
    compiler = os.environ.get("CXX", "").split()[:1] or ["c++", "g++", "clang++"]
    if not any(shutil.which(name) for name in compiler):
        lines.append(
            "no C++ compiler ({} not found): install one, e.g. `apt-get install g++`".format(
                ", ".join(compiler)
            )
        )
    header = os.path.join(sysconfig.get_paths()["include"], "Python.h")  # noqa: PTH118
    if not os.path.exists(header):  # noqa: PTH110
        lines.append(
            "no Python headers ({} not found): install them, e.g. "
            "`apt-get install python{}.{}-dev`".format(header, *sys.version_info[:2])
        )
    if for_environment:
        lines += _missing_for_environment()
    return lines


def _missing_for_environment():
    lines = []
    if not shutil.which("git"):
        lines.append("git is not on PATH: install it, e.g. `apt-get install git`")
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError as error:
        lines.append(
            "Python has no {} module: install it, e.g. `apt-get install python{}.{}-venv`".format(
                error.name, *sys.version_info[:2]
            )
        )
    return lines


if __name__ == "__main__":
    found = missing(for_environment=True)
    for line in found:
        sys.stderr.write("flashbench: {}\n".format(line))
    sys.exit(4 if found else 0)
