"""What a built revision does when it is imported and called is found out, and harms nobody."""

import os
import signal
import time
from pathlib import Path

import pytest

from flashbench.errors import NotMeasuredError
from flashbench.project.check import Checker

pytestmark = pytest.mark.slow

RIGHT = "from torch.nn.functional import scaled_dot_product_attention as attention\n"
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


def test_end_of_the_server_is_told(tmp_path: Path) -> None:
    """A server that was killed is one line, and the next check has another one."""
    place = site(tmp_path, "x = 1\nattention = len\n")
    with Checker() as checker:
        assert checker.loads(place, "kernel:attention", tmp_path / "log") == ("built", "")
        assert checker._server is not None
        os.kill(checker._server.pid, signal.SIGKILL)
        with pytest.raises(NotMeasuredError, match="try again"):
            checker.loads(place, "kernel:attention", tmp_path / "log")
        assert checker.loads(place, "kernel:attention", tmp_path / "log") == ("built", "")
