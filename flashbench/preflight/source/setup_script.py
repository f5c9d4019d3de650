"""What a setup.py compiles: its lists of sources, evaluated without running it.

`ANY` replaces the part of a text that is known only when the script runs. Every value a name may
hold counts, whatever the order of statements: a list longer than the build's hides a defect, a
shorter one would report a healthy project.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product

from flashbench.preflight.source.tree import SourceTree

ANY = "\0"
STAR = "\1"  # any text without a slash
_FILE = "setup.py"  # the script's own path, from its folder
_MOST = 2000  # texts per expression
_DEEPEST = 60  # nested expressions
_JOINS = ("os.path.join", "osp.join", "path.join", "join", "Path", "pathlib.Path", "PurePath")
_SAME = {"str", "list", "tuple", "set", "sorted", "reversed", "map", "filter", "unique"} | {
    f"{module}.{name}"
    for module in ("os.path", "osp", "path")
    for name in ("abspath", "realpath", "normpath", "relpath", "expanduser")
}
_SAME_METHODS = {"as_posix", "resolve", "absolute", "copy", "keys", "expanduser"}
_GLOBS = {"glob", "rglob", "iglob"}
_LISTS = {"listdir", "walk", "iterdir", "scandir"}
_OF_OTHERS = {"get_include", "get_python_inc", "include_paths"}  # no folders of the project
_GROWS = {"append", "extend", "insert", "add", "update"}


@dataclass(frozen=True, slots=True)
class Text:
    """One text that an expression may have. sure: no other is possible in its place."""

    text: str
    line: int
    sure: bool = True


@dataclass
class SetupScript:
    """A setup.py, parsed; raises what is in NOT_PYTHON. file: its path in texts made from
    `__file__`."""

    text: str
    file: str = _FILE
    _stored: dict[str, list[ast.expr]] = field(default_factory=lambda: defaultdict(list))
    _grown: dict[str, list[ast.expr]] = field(default_factory=lambda: defaultdict(list))
    _functions: dict[str, list[ast.FunctionDef]] = field(default_factory=lambda: defaultdict(list))
    _sources: list[ast.expr] = field(default_factory=list)
    _names: list[ast.expr] = field(default_factory=list)
    _folders: list[ast.expr] = field(default_factory=list)
    _busy: set[str] = field(default_factory=set)
    _known: dict[str, tuple[Text, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = nodes_of(self.text)
        functions = [node for node in self.nodes if isinstance(node, ast.FunctionDef)]
        parameters = {node.name: [one.arg for one in node.args.args] for node in functions}
        for function in functions:
            self._functions[function.name].append(function)
        for node in self.nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._store(target, node.value)
            elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
                self._store(node.target, node.value)
            elif isinstance(node, ast.AugAssign):
                self._grow(node.target, node.value)
            elif isinstance(node, ast.For | ast.comprehension):
                self._store(node.target, node.iter)
            elif isinstance(node, ast.Call):
                self._call(node, parameters)

    def sources(self) -> list[Text]:
        """Sources given to extensions."""
        return [text for entry in self._sources for text in self._value(entry)]

    def folders(self) -> list[Text]:
        """Include directories given to extensions."""
        return [text for entry in self._folders for text in self._value(entry)]

    def modules(self) -> list[Text]:
        """Names given to extensions."""
        return [text for entry in self._names for text in self._value(entry)]

    def values(self, node: ast.expr) -> tuple[Text, ...]:
        """Texts that an expression of the script may have."""
        return self._value(node)

    def functions(self, name: str) -> list[ast.FunctionDef]:
        """The functions of the script with this name."""
        return self._functions.get(name, [])

    def functions_around(self, line: int) -> list[ast.FunctionDef]:
        """The functions of the script that a line is in."""
        functions = (one for same in self._functions.values() for one in same)
        return [one for one in functions if one.lineno <= line <= (one.end_lineno or 0)]

    def _call(self, node: ast.Call, parameters: dict[str, list[str]]) -> None:
        self._sources += [one.value for one in node.keywords if one.arg == "sources"]
        self._folders += [one.value for one in node.keywords if one.arg == "include_dirs"]
        called = dotted(node.func)
        makes = called.lower().endswith("extension") and not called.endswith("build_extension")
        if makes:
            named = [one.value for one in node.keywords if one.arg == "name"]
            self._names += named or node.args[:1]
        takes = makes or called.rpartition(".")[2] == "load"
        if takes and len(node.args) > 1:
            self._sources.append(node.args[1])
        if called in parameters:
            for name, given in zip(parameters[called], node.args, strict=False):
                self._stored[name].append(given)
            for keyword in node.keywords:
                if keyword.arg in parameters[called]:
                    self._stored[keyword.arg].append(keyword.value)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _GROWS and node.args:
            self._grow(node.func.value, node.args[-1])

    def _store(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._stored[target.id].append(value)
        elif isinstance(target, ast.Tuple | ast.List):
            for place, one in enumerate(target.elts):
                same = isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts)
                part = value.elts[place] if same and isinstance(value, ast.Tuple) else None
                # A name without a value is unknown, and has this line.
                self._store(one, part or ast.Name("", lineno=one.lineno, col_offset=0))
        elif isinstance(target, ast.Attribute) and target.attr == "sources":
            self._sources.append(value)
        elif isinstance(target, ast.Subscript):
            if isinstance(target.slice, ast.Constant) and target.slice.value == "sources":
                self._sources.append(value)
            else:
                self._grow(target.value, value)

    def _grow(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._grown[target.id].append(value)
        elif isinstance(target, ast.Attribute) and target.attr == "sources":
            self._sources.append(value)

    def _value(self, node: ast.expr, depth: int = 0) -> tuple[Text, ...]:
        """Find the text of an expression, or the texts of a list."""
        found = tuple(self._texts(node, depth + 1)) if depth < _DEEPEST else (_any(node),)
        return found if len(found) <= _MOST else (_any(node),)

    def _texts(self, node: ast.expr, depth: int) -> Iterable[Text]:
        match node:
            case ast.Constant(value=str(text)):
                return [Text(text, node.lineno)]
            case ast.Constant(value=None):
                return []
            case ast.List(elts) | ast.Tuple(elts) | ast.Set(elts):
                return [text for one in elts for text in self._value(one, depth)]
            case ast.Starred(inner) | ast.Await(inner):
                return self._value(inner, depth)
            case ast.ListComp(one, loops) | ast.GeneratorExp(one, loops) | ast.SetComp(one, loops):
                found = self._value(one, depth)
                return _unsure(found) if any(loop.ifs for loop in loops) else found
            case ast.IfExp(_, first, second):
                return _unsure([*self._value(first, depth), *self._value(second, depth)])
            case ast.BoolOp(_, values):
                return _unsure([one for value in values for one in self._value(value, depth)])
            case ast.Dict(_, values):
                return [text for one in values for text in self._value(one, depth)]
            case ast.JoinedStr(values):
                return self._joined(values, "", depth)
            case ast.FormattedValue(inner):
                return self._value(inner, depth)
            case ast.BinOp(left, ast.Div(), right):
                return self._joined([left, right], "/", depth)
            case ast.BinOp(left, ast.Add(), right):
                if self._is_list(left) or self._is_list(right):
                    return [*self._value(left, depth), *self._value(right, depth)]
                return self._joined([left, right], "", depth)
            case ast.BinOp(left, ast.Mod(), _):
                return _each(self._value(left, depth), lambda text: re.sub(r"%\w", ANY, text))
            case ast.Call():
                return self._called(node, depth)
            case ast.Subscript(value, _):
                return _unsure(self._value(value, depth))
            case ast.Attribute(value, "parent"):
                return _folders(self._value(value, depth))
            case ast.Attribute(value, "parents"):
                return [_any(value)]
            case ast.Name("__file__"):
                return [Text(self.file, node.lineno)]
            case ast.Name(name):
                return self._named(name, node, depth)
        return [_any(node)]

    def _named(self, name: str, node: ast.expr, depth: int) -> Iterable[Text]:
        if name not in self._stored or name in self._busy:
            return [] if name in self._busy else [_any(node)]
        if name not in self._known:
            self._busy.add(name)
            try:
                stored, grown = self._stored[name], self._grown[name]
                texts = [text for one in stored for text in self._value(one, depth)]
                if len(stored) > 1:
                    texts = list(_unsure(texts))
                texts += [text for one in grown for text in self._value(one, depth)]
            finally:
                self._busy.discard(name)
            self._known[name] = tuple(texts)
        return self._known[name]

    def _called(self, node: ast.Call, depth: int) -> Iterable[Text]:
        called = dotted(node.func)
        last = called.rpartition(".")[2]
        of = node.func.value if isinstance(node.func, ast.Attribute) else None
        if last == "dirname" and node.args:
            return _folders(self._value(node.args[0], depth))
        if last in ("getcwd", "cwd"):
            return [Text(".", node.lineno)]
        if last in _OF_OTHERS:
            return []
        if last in _LISTS:
            place = node.args[0] if last in ("listdir", "walk", "scandir") and node.args else of
            below = self._value(place, depth) if place is not None else (_any(node),)
            return _each(below, lambda text: f"{text}/{ANY}")
        if last in _GLOBS:
            names = self._value(node.args[0], depth) if node.args else (_any(node),)
            path = of is not None and called not in ("glob.glob", "glob.iglob")
            folders = self._value(of, depth) if path and of is not None else (Text("", 0),)
            joint = f"/{ANY}" if last == "rglob" else "/"
            return [
                Text(f"{one.text}{joint}{_wild(name.text)}".lstrip("/"), node.lineno, False)
                for one in folders
                for name in names
            ]
        if called in _JOINS or last == "joinpath":
            first = [of] if last == "joinpath" and of is not None else []
            return self._joined([*first, *node.args], "/", depth)
        if last == "with_name" and of is not None and node.args:
            parent = ast.Attribute(of, "parent", lineno=node.lineno, col_offset=0)
            return self._joined([parent, node.args[0]], "/", depth)
        if called in _SAME and node.args:
            return self._value(
                node.args[-1] if called in ("map", "filter") else node.args[0], depth
            )
        if last in _SAME_METHODS and of is not None:
            return self._value(of, depth)
        if last == "format" and of is not None:
            return _each(self._value(of, depth), lambda text: re.sub(r"\{[^{}]*\}", ANY, text))
        if returned := self._returned(called):
            return _unsure([text for one in returned for text in self._value(one, depth)])
        return [_any(node)]

    def _joined(self, nodes: list[ast.expr], joint: str, depth: int) -> Iterable[Text]:
        parts = [self._value(one, depth) for one in nodes]
        if any(not one for one in parts):
            return []
        count = 1
        for one in parts:
            count *= len(one)
        if count > _MOST:
            return [_any(nodes[-1])]
        # Several names in one text need not hold these values at the same time.
        sure = sum(len(one) > 1 for one in parts) < 2
        return [
            Text(
                joint.join(one.text for one in chosen).removeprefix("./"),
                max(one.line for one in chosen),
                sure and all(one.sure for one in chosen),
            )
            for chosen in product(*parts)
        ]

    def _returned(self, name: str) -> list[ast.expr]:
        """What functions of this name return."""
        nodes = (node for function in self._functions.get(name, ()) for node in ast.walk(function))
        return [one.value for one in nodes if isinstance(one, ast.Return) and one.value is not None]

    def _is_list(self, node: ast.expr, depth: int = 0) -> bool:
        match node:
            case ast.List() | ast.ListComp() | ast.Tuple():
                return True
            case ast.Call():
                last = dotted(node.func).rpartition(".")[2]
                return last in _GLOBS | {"list", "sorted", "listdir"} or (
                    depth < _DEEPEST
                    and any(self._is_list(one, depth + 1) for one in self._returned(last))
                )
            case ast.BinOp(left, ast.Add(), right) if depth < _DEEPEST:
                return self._is_list(left, depth + 1) or self._is_list(right, depth + 1)
            case ast.Name(name) if depth < _DEEPEST:
                return name in self._grown or any(
                    self._is_list(one, depth + 10) for one in self._stored.get(name, [])
                )
        return False


# What Python raises for text that is no program, or is nested too deeply.
NOT_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)


@lru_cache(maxsize=32)  # of files that are looked at together
def nodes_of(text: str) -> tuple[ast.AST, ...]:
    """All nodes of a program, its module first. Raises what is in NOT_PYTHON."""
    return tuple(ast.walk(ast.parse(text)))


@lru_cache(maxsize=256)
def script_of(tree: SourceTree, file: str) -> SetupScript:
    """Parse a setup.py; raises what is in NOT_PYTHON."""
    return SetupScript(tree.read(file).text)


def why_unreadable(tree: SourceTree, file: str) -> tuple[int, str] | None:
    """Return the line and the reason why a script does not parse; None if it does."""
    try:
        ast.parse(tree.read(file).text)
    except SyntaxError as error:
        return error.lineno or 1, error.msg
    except (ValueError, RecursionError, MemoryError) as error:
        return 1, str(error) or type(error).__name__
    return None


def _folders(texts: Iterable[Text]) -> list[Text]:
    """The folders of paths; that of the script is "."."""
    return [Text(one.text.rpartition("/")[0] or ".", one.line, one.sure) for one in texts]


def _any(node: ast.expr) -> Text:
    return Text(ANY, getattr(node, "lineno", 0), False)


def _unsure(texts: Iterable[Text]) -> Iterator[Text]:
    return (Text(one.text, one.line, False) for one in texts)


def _each(texts: Iterable[Text], change: Callable[[str], str]) -> list[Text]:
    return [Text(change(one.text), one.line, False) for one in texts]


def _wild(pattern: str) -> str:
    """Replace the wildcards of a glob pattern by `ANY` and `STAR`."""
    return re.sub(r"\*|\?|\[[^\]]*\]", STAR, pattern.replace("**", ANY))


def dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(value, name):
            return f"{dotted(value)}.{name}"
    return ""


def is_optional(text: str, line: int, also: tuple[type[ast.stmt], ...] = (ast.With,)) -> bool:
    """Whether what a line does may fail by design: in `try`, under a condition, or in a block of
    the kinds in `also`."""
    blocks = _blocks(text)
    return blocks is None or any(
        begin <= line <= end and issubclass(kind, (ast.Try, ast.If, *also))
        for kind, begin, end in blocks
    )


@lru_cache(maxsize=4096)
def _blocks(text: str) -> tuple[tuple[type[ast.AST], int, int], ...] | None:
    """Blocks of a module with their first and last lines; None if it does not parse."""
    try:
        nodes = nodes_of(text)
    except NOT_PYTHON:
        return None
    kinds = (ast.Try, ast.With, ast.If)
    blocks = [node for node in nodes if isinstance(node, kinds)]
    return tuple((type(node), node.lineno, node.end_lineno or 0) for node in blocks)
