"""The name that bindings define is the name that the build and the imports use."""

import re
from collections import defaultdict
from collections.abc import Iterator

from flashbench.preflight.finding import Finding
from flashbench.preflight.source.listings import listed
from flashbench.preflight.source.tree import SourceTree
from flashbench.preflight.source.units import resolve

_DEFINES = re.compile(
    r"\b(?:PYBIND11_MODULE|NB_MODULE)\s*\(\s*(\w+)|\bPyInit_(\w+)\s*\(\s*(?:void)?\s*\)"
)
_MAY_DEFINE = re.compile(r"_MODULE|PyInit_")
_EXTENSION = re.compile(
    r"(?:CUDA|Cpp|CppExtension|Pybind11)?Extension\(\s*(?:name\s*=\s*)?[\"']([\w.]+)[\"']"
)
_CMAKE = re.compile(r"(?:pybind11_add_module|nanobind_add_module|Python_add_library)\s*\(\s*(\w+)")
# Modules whose names the text does not tell, or that another call makes.
_UNTOLD = re.compile(
    r"\bOUTPUT_NAME\b|\badd_library\s*\(\s*\S+\s+(?!\s|(?:OBJECT|STATIC|INTERFACE|ALIAS)\b)|"
    r"add_module\s*\(\s*\$|Extension\(\*?\w+\s*[,)]"
)


def wrong_module_name(tree: SourceTree) -> Iterator[Finding]:
    """`PYBIND11_MODULE(a, m)` in a unit that a build file lists, which makes only modules of other
    names. A unit that no build file lists may be built by anything, a test's `load` too."""
    listing: dict[str, set[str]] = defaultdict(set)
    for file, name, _ in listed(tree):
        for unit in resolve(tree, file, name):
            listing[unit].add(file)
    for unit, files in sorted(listing.items()):
        source = tree.read(unit)
        for match in _DEFINES.finditer(source.code) if _MAY_DEFINE.search(source.code) else ():
            name = match[1] or match[2]
            macro = name.isupper() and len(name.strip("_")) > 1  # `_C` is a name
            if "TORCH_EXTENSION_NAME" in name or macro:
                continue
            if len(files) != 1 or not (built := _built(tree, *files)) or name in built:
                continue
            other, where = next(iter(built.items()))
            yield Finding(
                f"{unit}:{source.line_of(match.start())}",
                f"defines the module {name}, but {where} builds {', '.join(sorted(built))}",
                f"write {other} in place of {name}, or TORCH_EXTENSION_NAME",
            )


def _built(tree: SourceTree, file: str) -> dict[str, str]:
    """The modules that a build file makes, with the place of each; none where it does not tell."""
    text = tree.read(file).text
    if _UNTOLD.search(text):
        return {}
    return {
        match[1].rpartition(".")[2]: f"{file}:{text.count(chr(10), 0, match.start()) + 1}"
        for match in (*_EXTENSION.finditer(text), *_CMAKE.finditer(text))
    }
