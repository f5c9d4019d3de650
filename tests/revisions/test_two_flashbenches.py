"""A commit of flashbench is loaded beside the flashbench that measures, whatever its imports."""

import sys
from pathlib import Path

import pytest

import flashbench
from flashbench.candidates import OUR_CALLABLE
from flashbench.errors import NotMeasuredError
from flashbench.revisions.load import load_callable


def install(import_root: Path, **modules: str) -> Path:
    """An import root directory with a package flashbench of these modules."""
    (import_root / "flashbench").mkdir(parents=True)
    for name, text in modules.items():
        (import_root / "flashbench" / f"{name}.py").write_text(text)
    return import_root


def test_two_commits_beside_ours(tmp_path: Path) -> None:
    """Absolute and relative imports find the commit's own modules, and ours stay ours."""
    one = install(
        tmp_path / "one",
        __init__="from flashbench.scale import SCALE\ndef attention(q, k, v): return SCALE\n",
        scale="SCALE = 1",
    )
    two = install(
        tmp_path / "two",
        __init__="def __getattr__(name):\n from .attention import attention\n return attention\n",
        attention="from .scale import SCALE\ndef attention(q, k, v): return SCALE\n",
        scale="SCALE = 2",
    )
    ours = {name: module for name, module in sys.modules.items() if "flashbench" in name}
    path = list(sys.path)
    loaded = [load_callable(import_root, OUR_CALLABLE).call for import_root in (one, two)]
    assert [attention(0, 0, 0) for attention in loaded] == [1, 2]
    assert {n: m for n, m in sys.modules.items() if "flashbench" in n} == ours
    assert sys.modules["flashbench"] is flashbench
    assert sys.path == path


def test_function_hidden_by_its_module(tmp_path: Path) -> None:
    """A commit whose submodule hides the function of its name is called all the same."""
    import_root = install(
        tmp_path,
        __init__="import flashbench.attention",
        attention="def attention(q, k, v): return 5\n",
    )
    assert load_callable(import_root, OUR_CALLABLE).call(0, 0, 0) == 5


@pytest.mark.parametrize(
    ("modules", "words"),
    [
        ({"__init__": "import absent_module"}, "No module named 'absent_module'"),
        ({"__init__": "raise SystemExit(3)"}, "SystemExit: 3"),
        ({"__init__": ""}, "no function flashbench.attention"),
        ({"__init__": "attention = 1"}, "no function flashbench.attention"),
    ],
)
def test_what_cannot_be_called_is_told(tmp_path: Path, modules, words: str) -> None:
    """A package that does not import, or lacks the function, is one line; ours is untouched."""
    with pytest.raises(NotMeasuredError, match=words):
        load_callable(install(tmp_path, **modules), OUR_CALLABLE)
    assert sys.modules["flashbench"] is flashbench


def test_another_flashbench_is_not_taken_for_the_commit(tmp_path: Path) -> None:
    """A commit without a package is reported even if a flashbench is importable elsewhere."""
    with pytest.raises(NotMeasuredError, match="No module named 'flashbench'"):
        load_callable(tmp_path, OUR_CALLABLE)
