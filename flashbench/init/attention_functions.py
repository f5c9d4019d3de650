"""Find functions that may be an attention: with q, k and v among their parameters."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from flashbench.preflight.source.python_modules import built, packages_of
from flashbench.preflight.source.tree import SourceTree

_QKV = ({"q", "query", "queries", "qs"}, {"k", "key", "keys", "ks"}, {"v", "value", "values", "vs"})
_NAMED = re.compile(r"atten|attn|sdpa|flash|mha", re.IGNORECASE)
_PLAIN = re.compile(
    r"naive|normal|vanilla|standard|baseline|slow|manual|(^|_)(ref|reference|torch)(_|$)",
    re.IGNORECASE,
)
_BACKWARD = re.compile(r"backward|bwd|(^|_)grad", re.IGNORECASE)
# Decorators of functions that run on a device: Python cannot call them.
_ON_DEVICE = re.compile(r"(triton|gluon|cute|cuda|numba\.cuda|T)\.")
_TEST_OR_EXAMPLE = re.compile(
    r"(^|/)(tests?|bench(mark)?s?|docs?|examples?|scripts?|third_party|\.[^/]*)/|(^|/)(test_[^/]*|"
    r"[^/]*_test|conftest|setup|bench[^/]*|ref(erence)?[^/]*)\.py$",
    re.IGNORECASE,
)
# A definition in C or C++: its type, name and parameters.
_DEFINED = re.compile(
    r"^[ \t]*([A-Za-z_][\w:<>, \t*&]{0,200}?)\b(\w+)\s*\(([^(){};]*)\)\s*\{", re.MULTILINE
)
_TEMPLATE = re.compile(r"<[^<>]*>")
_NUMPY = re.compile(r"^\s*(?:import|from) numpy\b|pybind11/numpy\.h|nanobind/ndarray\.h", re.M)
_TORCH = re.compile(r"^\s*(?:import|from) torch\b|torch/", re.M)
_BOUND = re.compile(r"\bm\w*\.def\(\s*\"(\w+)\"\s*,\s*&?\s*(?:\w+::)*(\w+)")


@dataclass(frozen=True)
class Parameter:
    """type: as in C; "" in Python. required: by a call; False in Python if it has a default."""

    name: str
    type: str = ""
    required: bool = True

    @property
    def is_pointer(self) -> bool:
        return "*" in self.type


@dataclass(frozen=True)
class Function:
    """A function that may be the one to measure. parameters: q, k and v first, unless of C. module,
    path: its dotted module and the import root; a C function, loaded by ctypes, has no module.
    numpy: whether it takes NumPy arrays."""

    file: str
    line: int
    name: str
    parameters: tuple[Parameter, ...]
    module: str = ""
    path: str = "."
    numpy: bool = False

    @property
    def spec(self) -> str:
        """What --callable names it by."""
        return f"{self.module or self.file}:{self.name}"

    @property
    def label(self) -> str:
        words = ", ".join(one.name for one in self.parameters)
        return f"{self.module + ':' if self.module else ''}{self.name}({words})"

    @property
    def is_test_or_example(self) -> bool:
        return bool(_TEST_OR_EXAMPLE.search(self.file))

    @property
    def rank(self) -> tuple[int, ...]:
        """Sorts likelier functions first: outside test and example folders, forward, in Python,
        not a reference, with a typical name, public, near the root."""
        return (
            self.is_test_or_example,
            bool(_BACKWARD.search(self.name)),
            not self.module,
            bool(_PLAIN.search(self.name)),
            not _NAMED.search(self.name),
            self.name.startswith("_"),
            len(PurePosixPath(self.file).parts),
        )


def functions(tree: SourceTree) -> list[Function]:
    """The best first."""
    found = [*_python(tree), *_native(tree)]
    return sorted(found, key=lambda one: (one.rank, one.file, one.line))


def _place_of_qkv(parameters: list[Parameter]) -> int:
    """The index of q if k and v follow it; -1 without."""
    names = [one.name.lower().removesuffix("_ptr").rstrip("_") for one in parameters]
    threes = zip(names, names[1:], names[2:], strict=False)
    fits = (all(name in some for name, some in zip(three, _QKV, strict=True)) for three in threes)
    return next((place for place, fit in enumerate(fits) if fit), -1)


def _python(tree: SourceTree) -> Iterator[Function]:
    for file in tree.files:
        if not file.endswith(".py") or "def " not in (text := tree.read(file).text):
            continue
        try:
            module = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        for node in module.body:
            if isinstance(node, ast.FunctionDef):
                parameters = list(_of_python(node.args))
                on_device = any(_ON_DEVICE.match(ast.unparse(one)) for one in node.decorator_list)
                if _place_of_qkv(parameters) == 0 and not on_device:
                    path, dotted = _importable(tree, file)
                    place = file, node.lineno, node.name, tuple(parameters)
                    yield Function(*place, dotted, path, _of_numpy(text))


def _of_python(arguments: ast.arguments) -> Iterator[Parameter]:
    words = arguments.posonlyargs + arguments.args
    without = len(words) - len(arguments.defaults)
    for place, one in enumerate(words):
        yield Parameter(one.arg, required=place < without)
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield Parameter(one.arg, required=default is None)


def _of_numpy(text: str) -> bool:
    return bool(_NUMPY.search(text) and not _TORCH.search(text))


def _importable(tree: SourceTree, file: str) -> tuple[str, str]:
    """The import root of a Python file, and its dotted module."""
    parts = list(PurePosixPath(file).with_suffix("").parts)
    top = len(parts) - 1
    while top and "/".join([*parts[:top], "__init__.py"]) in tree.files:
        top -= 1
    module = ".".join(parts[top:]).removesuffix(".__init__")
    return "/".join(parts[:top]) or ".", module


def _native(tree: SourceTree) -> Iterator[Function]:
    """Functions of C that take pointers, and those of C++ that an extension module binds."""
    modules = extension_modules(tree)
    for file in tree.units:
        source = tree.read(file)
        bound = {match[2]: match[1] for match in _BOUND.finditer(source.text)}
        for match in _DEFINED.finditer(source.code):
            listed = _TEMPLATE.sub("", _TEMPLATE.sub("", match[3])).split(",")
            parameters = [_parameter(text, source.text) for text in listed if text.strip()]
            first = _place_of_qkv(parameters)
            if first < 0 or "static" in match[1]:
                continue
            place = file, source.line_of(match.start(2))
            if first == 0 and match[2] in bound and modules:
                name, numpy = bound[match[2]], _of_numpy(source.text)
                yield Function(*place, name, tuple(parameters), modules[0], numpy=numpy)
            elif parameters[0].is_pointer and not file.endswith(".cu"):
                yield Function(*place, match[2], tuple(parameters))


def extension_modules(tree: SourceTree) -> list[str]:
    """Modules that the build makes, each in the package that imports it."""
    packages = {one.name: one.package for one in packages_of(tree).imports()}
    return [
        f"{packages[name]}.{name}" if "." not in name and packages.get(name) else name
        for name in built(tree).modules
    ]


def _parameter(text: str, source: str) -> Parameter:
    """A parameter of C++, whose default may stand in its binding."""
    declared, equals, _ = text.partition("=")
    words = declared.replace("*", " * ").replace("&", " & ").split()
    name = words[-1] if words else ""
    bound = re.search(rf'"{re.escape(name)}"(_a|\s*\))\s*=', source)
    return Parameter(name, " ".join(words[:-1]), not (equals or bound))
