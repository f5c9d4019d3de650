"""Options are declared once."""

import ast
from collections import Counter
from pathlib import Path

CLI = Path(__file__).parents[2] / "flashbench/cli"
# profile's --against is a candidate, not the kind of baseline; compare's --plot has a --no-plot;
# bisect's hidden --resume takes no file.
_TWO_MEANINGS = {"--against", "--plot", "--resume"}


def test_every_flag_is_declared_once() -> None:
    """What commands share is a function in cli/options.py, so a flag means one thing."""
    declared: Counter[str] = Counter()
    for path in CLI.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "click.option":
                words = (_text(one).partition("/")[0] for one in node.args)
                declared.update(word for word in words if word.startswith("-"))
    assert {flag for flag, times in declared.items() if times > 1} == _TWO_MEANINGS


def _text(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ""
