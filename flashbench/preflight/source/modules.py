"""The name that bindings define is the name that the build and the imports use."""

import re
from collections.abc import Iterator

from flashbench.preflight.finding import Finding
from flashbench.preflight.source.tree import SourceTree

_DEFINES = re.compile(
    r"\b(?:PYBIND11_MODULE|NB_MODULE)\s*\(\s*(\w+)|\bPyInit_(\w+)\s*\(\s*(?:void)?\s*\)"
)
_EXTENSION = re.compile(
    r"(?:CUDA|Cpp|CppExtension|Pybind11)?Extension\(\s*(?:name\s*=\s*)?[\"']([\w.]+)[\"']"
)
_CMAKE = re.compile(r"(?:pybind11_add_module|nanobind_add_module|Python_add_library)\s*\(\s*(\w+)")
_OUTPUT = re.compile(r"OUTPUT_NAME\s+\"?(\w+)")


def wrong_module_name(tree: SourceTree) -> Iterator[Finding]:
    """`PYBIND11_MODULE(a, m)` in a project whose build only makes libraries of other names."""
    built: dict[str, str] = {}
    for file in tree.build_files:
        text = tree.read(file).text
        for match in (*_EXTENSION.finditer(text), *_CMAKE.finditer(text), *_OUTPUT.finditer(text)):
            built.setdefault(
                match[1].rpartition(".")[2], f"{file}:{text.count(chr(10), 0, match.start()) + 1}"
            )
    if not built:
        return
    for unit in tree.units:
        source = tree.read(unit)
        for match in _DEFINES.finditer(source.code):
            name = match[1] or match[2]
            if name in built or "TORCH_EXTENSION_NAME" in name or name.isupper():
                continue
            other, where = next(iter(built.items()))
            yield Finding(
                f"{unit}:{source.line_of(match.start())}",
                f"defines the module {name}, but {where} builds {', '.join(sorted(built))}",
                f"write {other} in place of {name}, or TORCH_EXTENSION_NAME",
            )
