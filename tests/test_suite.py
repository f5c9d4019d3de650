"""The suite itself: no test is left out, none hides another, none is skipped without need."""

import ast
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import skip_reasons

HERE = Path(__file__).parent
ROOT = HERE.parent

# The files that pytest takes with the project's settings; unopened, which saves importing them.
TAKEN = """
import pytest

class Unopened:
    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path):
        if (yield):
            print("taken", file_path)
        return []

pytest.main(["--collect-only"], plugins=[Unopened()])
"""


def written() -> set[Path]:
    """Every test_*.py that git knows, or would."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True)
    paths = {ROOT / name for name in done.stdout.split("\0") if name}
    return {path for path in paths if path.match("test_*.py") and path.exists()}


def bodies(node: ast.Module | ast.ClassDef) -> Iterator[list[str]]:
    """The names of the functions and classes in a module, and in each of its classes."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = [statement for statement in node.body if isinstance(statement, kinds)]
    yield [statement.name for statement in found]
    for statement in found:
        if isinstance(statement, ast.ClassDef):
            yield from bodies(statement)


def test_every_file_is_collected() -> None:
    """pytest takes each test_*.py of the tree, wherever it lies and whatever its folder's name."""
    command = [sys.executable, "-c", TAKEN]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    taken = {Path(line.removeprefix("taken ")) for line in lines if line.startswith("taken ")}
    assert taken == written()


def test_no_test_hides_another() -> None:
    """A name is defined once in a module or class, and every file has a test."""
    for path in written():
        found = list(bodies(ast.parse(path.read_text())))
        for names in found:
            assert [name for name, count in Counter(names).items() if count > 1] == [], path
        assert any(name.startswith("test_") for names in found for name in names), path


SKIPS = """
import pytest

@pytest.mark.skipif(True, reason="no asv: pip install flashbench[history]")
def test_not_so(): ...

def test_unlisted():
    pytest.skip("no time")

@pytest.mark.parametrize("nothing", [])
def test_of_nothing(nothing): ...

@pytest.mark.skip(reason="for this reason")
def test_good_reason(): ...

@pytest.mark.xfail
def test_known():
    raise AssertionError
"""


def test_a_skip_needs_a_reason_that_holds(tmp_path: Path) -> None:
    """A test or file skipped for an unlisted reason, or one that does not hold here, fails."""
    (tmp_path / "test_skips.py").write_text(SKIPS)
    (tmp_path / "test_whole_file.py").write_text(
        "import pytest\npytest.importorskip('nowhere', reason='no nowhere')\n"
    )
    reasons = "import skip_reasons\nskip_reasons.REASONS['for this'] = lambda: True\n"
    (tmp_path / "listed.py").write_text(reasons)
    command = [sys.executable, "-m", "pytest", "-rfE", "-p", "conftest", "-p", "listed", "-c"]
    command += [os.devnull, "--rootdir", str(tmp_path), "--continue-on-collection-errors", "."]
    environment = os.environ | {"PYTHONPATH": f"{HERE}{os.pathsep}{tmp_path}"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "1 failed, 1 skipped, 1 xfailed, 3 errors" in done.stdout.splitlines()[-1]
    assert "skipped (no asv: pip install flashbench[history]), which is not so" in done.stdout
    assert "skipped (no time), which tests/skip_reasons.py does not list" in done.stdout
    assert "skipped (got empty parameter set" in done.stdout
    assert "skipped (no nowhere), which tests/skip_reasons.py does not list" in done.stdout


def test_every_listed_reason_is_used() -> None:
    """A reason that no test gives is not kept."""
    sources = [path for path in HERE.rglob("*.py") if path.name != "skip_reasons.py"]
    text = "".join(path.read_text() for path in sources)
    assert [reason for reason in skip_reasons.REASONS if reason not in text] == []
