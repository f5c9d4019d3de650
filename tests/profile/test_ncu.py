"""Running ncu: which program, which command, and the message if it cannot count."""

from collections.abc import Callable
from pathlib import Path

import pytest
from stored_profiles import STORED

from flashbench.errors import NotMeasuredError
from flashbench.profile import counters, ncu

Script = Callable[[str], str]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Makes a program called ncu of a shell script; $2 ... are its arguments."""

    def make(body: str) -> str:
        path = tmp_path / "bin" / "ncu"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        monkeypatch.setenv("FLASHBENCH_NCU", str(path))
        return str(path)

    return make


def test_no_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the program the message says so, and how to have it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("FLASHBENCH_NCU", raising=False)
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter(()))
    with pytest.raises(ncu.CountersUnavailableError, match="there is no ncu here: install"):
        ncu.find()
    monkeypatch.setenv("FLASHBENCH_NCU", "/no/such/ncu")
    with pytest.raises(ncu.CountersUnavailableError, match=r"FLASHBENCH_NCU.*'/no/such/ncu'"):
        ncu.find()


def test_the_program_that_is_named_is_taken(script: Script) -> None:
    """$FLASHBENCH_NCU goes before the PATH."""
    path = script('echo "Version 2025.3.1.0 (build 1)"')
    assert ncu.find() == path
    assert ncu.version(path) == "2025.3.1.0"


def test_command() -> None:
    """One call between the marks, clocks left alone, caches as asked."""
    warm = ncu.command("ncu", Path("r.ncu-rep"), ["python", "x"], ["a.sum", "b.avg"], cold=False)
    assert warm[-2:] == ["python", "x"]
    options = dict(zip(warm[1:-3:2], warm[2:-3:2], strict=True))
    assert options["--profile-from-start"] == "off"
    assert options["--clock-control"] == "none"
    assert options["--cache-control"] == "none"
    assert options["--metrics"] == "a.sum,b.avg"
    cold = ncu.command("ncu", Path("r.ncu-rep"), ["python"], [], cold=True)
    assert cold[cold.index("--cache-control") + 1] == "all"


def test_counters_that_this_ncu_lacks_are_not_asked_for(script: Script) -> None:
    """Versions before 2023 refuse the whole list for one name that they do not know; the list is
    what 2022.3 says of Hopper."""
    path = script(f"cat {STORED}/query-2022.3-gh100.txt")
    missing = set(counters.wanted(())) - set(ncu.offered(path))
    assert missing == {
        "sm__inst_executed_pipe_fp16.sum",
        "sm__inst_executed_pipe_tma.sum",
        "smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio",
    }
    assert ncu.offered(script("exit 1")) == counters.wanted(())


@pytest.mark.parametrize(
    ("body", "error", "said"),
    [
        (
            'echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA '
            'GPU Performance Counters on the target device 0."; exit 1',
            ncu.CountersUnavailableError,
            "may not read the GPU's counters",
        ),
        ('echo "mine: no such thing" >&2; exit 1', NotMeasuredError, "ncu: mine: no such thing"),
        ('echo "==ERROR== Failed to find metric x"; exit 1', NotMeasuredError, "find metric x"),
        ("exit 0", NotMeasuredError, "exit status 0"),
        ("sleep 20", NotMeasuredError, "no end within 0.2 s"),
    ],
)
def test_why_there_are_no_counters(
    script: Script, tmp_path: Path, body: str, error: type[NotMeasuredError], said: str
) -> None:
    """Missing permission, a failing target, a bad metric, no report and a hang are
    distinguished."""
    path, report = script(body), tmp_path / "r.ncu-rep"
    timeout = 0.2 if "sleep" in body else 9
    with pytest.raises(error, match=said):
        ncu.collect(path, report, ["true"], ["a.sum"], timeout, cold=False)


def test_report_and_csv(script: Script, tmp_path: Path) -> None:
    """The raw report stays at the requested path, and its CSV has base units."""
    report = tmp_path / "r.ncu-rep"
    path = script(f'case "$*" in *--import*) echo "CSV $LC_ALL $*";; *) echo raw > {report};; esac')
    said = ncu.collect(path, report, ["true"], ["a.sum"], 9, cold=False)
    assert said.startswith("CSV C ")
    assert "--page raw" in said
    assert "--print-units base" in said
    assert report.read_text() == "raw\n"
