"""One word names one thing."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
PACKAGE = ROOT / "flashbench"


def defined(module: ast.Module) -> Iterator[str]:
    """Public classes, aliases and constants of a module."""
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            names = [node.name]
        else:
            targets = getattr(node, "targets", [getattr(node, "target", node)])
            names = [one.id for to in targets for one in ast.walk(to) if isinstance(one, ast.Name)]
            names = names if isinstance(node, ast.Assign | ast.AnnAssign) else []
        yield from (name for name in names if name[0].isupper())


def test_no_two_modules_name_a_type_alike() -> None:
    """A reader who meets a public class or alias by its name knows which one it is."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for name in defined(ast.parse(path.read_text())):
            if not name.isupper():
                found[name].append(path.relative_to(PACKAGE).as_posix())
    assert len(found) > 100  # it looks at the package
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_no_constant_is_imported_from_two_modules() -> None:
    """A constant that is read without its module's name (`runfile.FORMAT`) is one of its kind."""
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(
            path.read_text()
        )
        for folder in ("flashbench", "tests", "experiments", "scripts")
        for path in (ROOT / folder).rglob("*.py")
    }
    constants = {
        name: {one for one in defined(tree) if one.isupper()} for name, tree in modules.items()
    }
    origins: dict[str, set[str]] = defaultdict(set)
    for tree in modules.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in constants:
                for name in constants[node.module] & {
                    one.name for one in node.names if one.asname in (None, one.name)
                }:
                    origins[name].add(node.module)
    assert len(origins) > 50
    assert {name: places for name, places in origins.items() if len(places) > 1} == {}
