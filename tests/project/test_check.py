"""What a built revision does when it is imported and called is found out, and harms nobody."""

import os
import signal
import time
from pathlib import Path

import pytest

from flashbench.errors import NotMeasuredError
from flashbench.project import check
from flashbench.project.check import Checker

pytestmark = pytest.mark.slow

RIGHT = "from torch.nn.functional import scaled_dot_product_attention as attention\n"
# Writes what looks like answers wherever it can.
FORGE = """
import contextlib, os
for place in range(3, 40):
    with contextlib.suppress(OSError):
        os.write(place, b'[1]\\n{"wrong": 5}\\n')
"""
KILL = "import os, signal, time; os.kill(os.getppid(), signal.SIGKILL); time.sleep(9)\n"
CALLED = "def attention(q, k, v, is_causal=False, enable_gqa=False):\n    {}\n"


@pytest.fixture(scope="module")
def checker():  # type: ignore[no-untyped-def]
    """One server for all tests, with little patience."""
    with Checker(timeout=2) as checker:
        yield checker


def site(root: Path, text: str) -> Path:
    (root / "site").mkdir()
    (root / "site" / "kernel.py").write_text(text)
    return root / "site"


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        (RIGHT, "built", ""),
        ("import absent_module\n", "import error", "absent_module"),
        ("import time; time.sleep(100)\n", "timeout", "loading took longer than 2 s"),
        ("import os; os._exit(7)\n", "import error", "exit code 7"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)\n", "import error", "SIGSEGV"),
        ("import os\nfor n in range(3, 20):\n  os.path.exists(str(n))\n" + RIGHT, "built", ""),
        ("raise SystemExit(3)\n", "import error", "SystemExit"),
        ("raise ImportError('\\x1b' * 10**6)\n", "import error", "ImportError: \x1b\x1b"),
        (KILL, "import error", "loading ended the process that checks it: it ended with SIGKILL"),
        (FORGE + RIGHT, "built", ""),
    ],
)
def test_imports_are_told_apart(
    checker, tmp_path: Path, text: str, status: str, words: str
) -> None:  # type: ignore[no-untyped-def]
    """A module that imports, raises, hangs, ends or crashes its process has its own status."""
    place = site(tmp_path, text)
    found, reason = checker.loads(place, "kernel:attention", tmp_path / "log")
    assert found == status
    assert words in reason
    assert str(tmp_path) not in reason


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        (RIGHT, "built", ""),
        (CALLED.format("return q * 2"), "wrong result", "exceeds the bound"),
        (CALLED.format("raise NotImplementedError"), "built", ""),
        (CALLED.format("raise RuntimeError('of all things')"), "wrong result", "of all things"),
        (CALLED.format("import os; os.abort()"), "wrong result", "SIGABRT"),
        (CALLED.format("import time; time.sleep(100)"), "timeout", "a call took longer than 2 s"),
    ],
)
def test_results_are_told_apart(
    checker, tmp_path: Path, text: str, status: str, words: str
) -> None:  # type: ignore[no-untyped-def]
    """A callable that is right, refuses, is wrong, raises, crashes or hangs has its own status."""
    place = site(tmp_path, text)
    found, reason = checker.computes(place, "kernel:attention", tmp_path / "log")
    assert found == status, reason
    assert words in reason


def test_processes_of_a_revision_end_with_it(checker, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """What a module starts when it is imported does not outlive the check."""
    text = "import subprocess\nrunning = subprocess.Popen(['sleep', '100'])\n"
    text += f"open({str(tmp_path / 'pid')!r}, 'w').write(str(running.pid))\n" + RIGHT
    assert checker.loads(site(tmp_path, text), "kernel:attention", tmp_path / "log")[0] == "built"
    started = int((tmp_path / "pid").read_text())
    # A signal takes effect a moment after it was sent; pytest's time limit ends a wait in vain.
    while Path(f"/proc/{started}").exists() and not is_zombie(started):
        time.sleep(0.05)


def is_zombie(process: int) -> bool:
    """Dead, and waited for by nobody: in a container without an init."""
    return "State:\tZ" in Path(f"/proc/{process}/status").read_text()


def test_end_of_the_server_is_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that was killed is replaced, and the revision checked; one that never starts is one
    line."""
    place = site(tmp_path, "x = 1\nattention = len\n")
    with Checker() as checker:
        for _ in range(2):
            assert checker.loads(place, "kernel:attention", tmp_path / "log") == ("built", "")
            assert checker._server is not None
            os.kill(checker._server.pid, signal.SIGKILL)
    monkeypatch.setattr(check, "_BOOTSTRAP", "raise SystemExit(1)")
    with Checker() as checker, pytest.raises(NotMeasuredError, match="does not start"):
        checker.loads(place, "kernel:attention", tmp_path / "log")


def test_nothing_outlives_its_check(checker, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """A process that leaves the session of an import ends with it, and what is printed without end
    fills no disk."""
    leave = (
        "import os, sys, time\nfrom pathlib import Path\npid = Path('pid')\n"
        "if not os.fork():\n    os.setsid()\n    pid.write_text(str(os.getpid()))\n"
        "    time.sleep(100)\nwhile not pid.exists(): time.sleep(0.01)\n"
        "for _ in range(100_000): os.write(1, b'x' * 100)\n"
    )
    place = site(tmp_path, leave + RIGHT)
    assert checker.loads(place, "kernel:attention", tmp_path / "log") == ("built", "")
    assert not Path("/proc", (place / "pid").read_text()).exists()
    assert (tmp_path / "log").stat().st_size < 4_000_000


def test_named_cases_have_to_be_supported(checker, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """What is right on small cases may be wrong on a named one; there a refusal is no pass."""
    text = (
        "from torch.nn.functional import scaled_dot_product_attention as sdpa\n"
        "def attention(q, k, v, is_causal=False, enable_gqa=False):\n"
        "    if q.shape[-1] == 8:\n        raise NotImplementedError('head dim 8')\n"
        "    return sdpa(q, k, v, is_causal=is_causal) * (2 if q.shape[-1] == 128 else 1)\n"
    )
    place, log = site(tmp_path, text), tmp_path / "log"

    def result(*cases: str) -> tuple[str, str]:
        return checker.computes(place, "kernel:attention", log, cases)

    assert result() == result("b1-h2-q8-d64-fp32-full-cpu") == ("built", "")
    status, reason = result("b1-h2-q8-d64-fp32-full-cpu", "b1-h2-q8-d128-fp32-full-cpu")
    assert status == "wrong result"
    assert reason.startswith("b1-h2-q8-d128-fp32-full-cpu: max error")
    status, reason = result("b1-h2-q8-d8-fp32-full-cpu")
    assert (status, "head dim 8" in reason) == ("wrong result", True)
