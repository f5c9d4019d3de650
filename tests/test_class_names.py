"""One word names one thing."""

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).absolute().parent.parent / "flashbench"


def test_no_two_modules_name_a_class_alike() -> None:
    """A reader who meets a public class by its name knows which one it is."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.relative_to(PACKAGE).as_posix())
    assert len(found) > 100  # it looks at the package
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
