"""`flashbench history` against golden files: stdout, stderr and exit code, character by character.

After a change that is meant: `UPDATE_GOLDEN=1 python -m pytest tests/history`, then read the diff.
"""

import json
import os
import shlex
from pathlib import Path

import pytest
from history.project import CASES, make_repository, measure

from flashbench.cli import main
from flashbench.history import commit_record

GOLDEN = Path(__file__).parent / "golden"
COMMITS = 80
BROKEN = range(48, 53)
HOSTILE = "<script>alert(1)</script> | \x1b[31mred ::error::x"
COMMANDS = {
    "text": "history",
    "markdown": "history --format markdown",
    "csv": "history --format csv",
    "json": "history --format json --case 'b1-h1-*'",
    "range": "history HEAD~20..",
    "baselines": "history --baselines --case ' sdpa' --exit-zero",
    "too_few": "history HEAD~75",
    "too_few_one": "history HEAD~75 --case 'b1-h1-*'",
    "none": "history HEAD~79",
    "bad_range": "history HEAD...main",
    "bad_revision": "history --machine box nowhere",
    "option_revision": "history -- --all",
    "bad_case": "history --case conv2d",
    "bad_machine": "history --machine other",
    "bad_results": "history --results nowhere",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """80 commits: one case gets 6 % slower at the 20th and 20 % faster among five broken ones."""
    root = tmp_path_factory.mktemp("project")
    subjects = [f"Change {index}" for index in range(COMMITS)]
    subjects[53] = HOSTILE
    commits = make_repository(root, subjects)
    places = [place for place in range(1, COMMITS) if place not in BROKEN]

    def level(index: int, case: str) -> float:
        place = places[index]
        if case == CASES[0]:
            return 0.5 * (1.06 if place >= 20 else 1.0) * (0.8 if place >= 50 else 1.0)
        return 0.7 * (1.05 if place >= 68 else 1.0)

    results = root / ".asv" / "results"
    measure(results, [commits[place] for place in places], level)
    for place in BROKEN:
        path = commit_record.path_of(results, "box", commits[place], "flashbench-py3.11")
        path.parent.mkdir(parents=True, exist_ok=True)
        why = {"status": "missing header", "failure": "missing header: a.h: No such file"}
        build = {"key": "", "status": "missing header", "source_hash": "", "toolchain": {}}
        kept = {"commit": commits[place], "environment": "flashbench-py3.11", "build": build}
        path.write_text(json.dumps(kept | why))
    return root


@pytest.mark.parametrize("name", COMMANDS)
def test_golden(
    project: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command's output and exit code equal the golden file."""
    monkeypatch.chdir(project)
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(COMMANDS[name]))
    printed = capsys.readouterr()
    found = (
        f"$ flashbench {COMMANDS[name]}\nexit code {int(ended.value.code or 0)}\n"
        f"--- stdout\n{printed.out}--- stderr\n{printed.err}"
    ).replace(str(project), "PROJECT")
    golden = GOLDEN / f"history_{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")


def test_no_golden_file_is_left_over() -> None:
    """Every golden file belongs to a command."""
    assert {path.stem for path in GOLDEN.glob("*.txt")} == {f"history_{name}" for name in COMMANDS}
