"""Projects that a build backend of pyproject.toml compiles: one command builds them all. Those that
setuptools compiles, by a setup.py, need one of their own."""

import re
from collections.abc import Iterable
from typing import Any

# Where the command leaves the packages, relative to pyproject.toml.
FOLDER = "fb"
_ALONE = ("--no-index", "--no-deps", "--no-build-isolation")
COMMAND = ("python", "-m", "pip", "install", *_ALONE, "--target", FOLDER, ".")
# Backends that compile nothing, and setuptools, which does so by a setup.py.
_OTHERS = ("setuptools", "hatchling", "flit", "poetry", "pdm", "uv_build")
_EXTENSION = re.compile(r"\b(ext_modules|(Cpp|CUDA|Pybind11)?Extension|cythonize)\b")
_COMPILED = (".c", ".cc", ".cpp", ".cxx", ".cu", ".pyx", ".rs", ".f90")


def compiles(document: dict[str, Any], files: Iterable[str]) -> bool:
    """Whether the backend that a pyproject.toml names has something among the files to compile."""
    table = document.get("build-system")
    name = table.get("build-backend") if isinstance(table, dict) else None
    known = isinstance(name, str) and not name.startswith(_OTHERS)
    return known and any(file.endswith(_COMPILED) for file in files)


def setup_compiles(text: str) -> bool:
    """Whether a setup.py, by its text, has extensions to compile."""
    return bool(_EXTENSION.search(text))
