"""Which modules of an asv suite can hold the benchmarks of a pattern: importing all takes longer
than measuring one."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# What asv_runner's own benchmark types look for; plugins may add others.
_BENCHMARK = re.compile(r"[A-Za-z]+_.+|[A-Z].*")


@dataclass
class _Module:
    """names: of functions, and of classes' methods; heirs: classes that may inherit some; dynamic:
    it may make benchmarks in other ways."""

    name: str
    names: list[str] = field(default_factory=list)
    heirs: list[str] = field(default_factory=list)
    dynamic: bool = False


def modules(suite: Path) -> list[str]:
    """The dotted names of the suite's modules, as asv finds them; "" is the suite itself."""
    return list(_walk(suite, ""))


def with_matches(suite: Path, pattern: str) -> list[str]:
    """The modules to import for a pattern: all, if none is seen to have a match."""
    wanted = re.compile(pattern)
    found = [_read(suite, name) for name in modules(suite)]
    methods = {one.rpartition(".")[2] for module in found for one in module.names}

    def may_match(module: _Module) -> bool:
        prefix = f"{module.name}." if module.name else ""
        names = module.names + [f"{heir}.{one}" for heir in module.heirs for one in methods]
        # With parameters after the name, or before any of them.
        return module.dynamic or any(
            wanted.search(f"{prefix}{name}")
            or f"{prefix}{name}(" in wanted.pattern.replace("\\", "")
            for name in names
        )

    chosen = [module.name for module in found if may_match(module)]
    return chosen or [module.name for module in found]


def _walk(folder: Path, prefix: str) -> Iterator[str]:
    yield prefix.rstrip(".")
    for entry in sorted(folder.iterdir()):
        if entry.suffix == ".py" and entry.stem != "__init__" and entry.stem.isidentifier():
            yield f"{prefix}{entry.stem}"
        elif entry.is_dir() and (entry / "__init__.py").is_file():
            yield from _walk(entry, f"{prefix}{entry.name}.")


def _read(suite: Path, name: str) -> _Module:
    place = suite.joinpath(*name.split(".")) if name else suite
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    module = _Module(name)
    try:
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text)
    except FileNotFoundError:
        return module
    except (OSError, ValueError, SyntaxError):
        return _Module(name, dynamic=True)  # its import says what is wrong
    module.dynamic = "benchmark_name" in text or "setattr(" in text or "globals()" in text
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            module.names.append(node.name)
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and _BENCHMARK.match(inner.name):
                    module.names.append(f"{node.name}.{inner.name}")
            if node.bases or node.decorator_list:
                module.heirs.append(node.name)
        elif isinstance(node, ast.ImportFrom):
            names = [alias.asname or alias.name for alias in node.names]
            module.dynamic |= "*" in names
            module.names += names
            module.heirs += [one for one in names if one[:1].isupper()]
        elif not isinstance(node, ast.Import | ast.Expr | ast.Assign | ast.AnnAssign):
            module.dynamic = True  # a condition or a loop may define some
    return module
