"""The checker learns what a built revision does when imported and called, and survives it."""

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from flashbench.errors import NotMeasuredError
from flashbench.project_cases import ProjectCases
from flashbench.revisions import check
from flashbench.revisions.check import Checker
from flashbench.revisions.computed import ATTENTION_BY_DEFAULT

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


@pytest.fixture
def bare_checker(without_torch: None):  # type: ignore[no-untyped-def]
    """One for tests that end its servers."""
    with Checker(timeout=2) as checker:
        yield checker


def import_root(root: Path, text: str) -> Path:
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
        (FORGE + RIGHT, "built", ""),
    ],
)
def test_imports_are_told_apart(
    checker, tmp_path: Path, text: str, status: str, words: str
) -> None:  # type: ignore[no-untyped-def]
    """A module that imports, raises, hangs, ends or crashes its process has its own status."""
    place = import_root(tmp_path, text)
    found, reason, _ = checker.loads(place, "kernel:attention", tmp_path / "log")
    assert found == status
    assert words in reason
    assert str(tmp_path) not in reason


def test_import_that_kills_its_server(bare_checker, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """It is reported as what the import did."""
    place = import_root(tmp_path, KILL)
    found = bare_checker.loads(place, "kernel:attention", tmp_path / "log")
    told = "loading ended the process that checks it: it ended with SIGKILL"
    assert found == ("import error", told, ())


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        (RIGHT, "built", ""),
        (CALLED.format("return q * 2"), "wrong result", "exceeds the bound"),
        (CALLED.format("raise NotImplementedError('no')"), "unchecked", "fp32-full-cpu is refused"),
        (CALLED.format("raise RuntimeError('of all things')"), "unchecked", "of all things"),
        (CALLED.format("return attn_cuda(q, k, v)"), "wrong result", "raises NameError: name 'att"),
        (CALLED.format("import os; os.abort()"), "wrong result", "SIGABRT"),
        (CALLED.format("import time; time.sleep(100)"), "timeout", "a call took longer than 2 s"),
    ],
)
def test_results_are_told_apart(
    checker, tmp_path: Path, text: str, status: str, words: str
) -> None:  # type: ignore[no-untyped-def]
    """A callable that is right, refuses, is wrong, raises, crashes or hangs has its own status."""
    place = import_root(tmp_path, text)
    found, reason, checked = checker.computes(place, "kernel:attention", tmp_path / "log")
    assert found == status, reason
    assert words in reason
    assert bool(checked) == (status == "built")


def test_processes_of_a_revision_end_with_it(checker, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """What a module starts when it is imported does not outlive the check."""
    text = "import subprocess\nrunning = subprocess.Popen(['sleep', '100'])\n"
    text += f"open({str(tmp_path / 'pid')!r}, 'w').write(str(running.pid))\n" + RIGHT
    assert (
        checker.loads(import_root(tmp_path, text), "kernel:attention", tmp_path / "log")[0]
        == "built"
    )
    started = int((tmp_path / "pid").read_text())
    # A signal takes effect a moment after it was sent; pytest's time limit ends a wait in vain.
    while Path(f"/proc/{started}").exists() and not is_zombie(started):
        time.sleep(0.05)


def is_zombie(process: int) -> bool:
    """Dead but not reaped: in a container without an init."""
    return "State:\tZ" in Path(f"/proc/{process}/status").read_text()


def test_end_of_the_server_is_survived(
    bare_checker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # type: ignore[no-untyped-def]
    """A server that was killed is replaced, and the revision checked; one that never starts is one
    line."""
    place = import_root(tmp_path, "x = 1\nattention = len\n")
    for _ in range(2):
        assert bare_checker.loads(place, "kernel:attention", tmp_path / "log") == ("built", "", ())
        assert bare_checker._forks._server is not None
        os.kill(bare_checker._forks._server.pid, signal.SIGKILL)
    monkeypatch.setattr(check, "SERVER", "raise SystemExit(1)")
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
    place = import_root(tmp_path, leave + RIGHT)
    assert checker.loads(place, "kernel:attention", tmp_path / "log") == ("built", "", ())
    assert not Path("/proc", (place / "pid").read_text()).exists()
    assert (tmp_path / "log").stat().st_size < 4_000_000


def test_nothing_outlives_a_check_that_kills_its_server(bare_checker, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """What leaves the session of an import that kills its server, and that one's keeper, ends."""
    kills = (
        "import os, signal, time\nfrom pathlib import Path\nhere = Path(__file__).parent\n"
        "server = os.getppid()\n"
        "above = int(Path(f'/proc/{server}/stat').read_text().rpartition(')')[2].split()[1])\n"
        "child = os.fork()\n"
        "if not child:\n    os.setsid()\n    (here / f'left-{os.getpid()}').touch()\n"
        "    time.sleep(1000)\n"
        "while not (here / f'left-{child}').exists(): time.sleep(0.001)\n"
        "for process in (above, server): os.kill(process, signal.SIGKILL)\n"
        "time.sleep(1000)\n"
    )
    place = import_root(tmp_path, kills)
    status, reason, _ = bare_checker.loads(place, "kernel:attention", tmp_path / "log")
    assert (status, "ended the process that checks it" in reason) == ("import error", True)
    started = [path.name.removeprefix("left-") for path in place.glob("left-*")]
    assert len(started) == 2  # it is tried again with another server
    assert not [one for one in started if Path("/proc", one).exists() and not is_zombie(int(one))]


def test_named_cases_have_to_be_supported(checker, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """A kernel correct on small cases may be wrong on a named one; there a refusal is not a
    pass."""
    text = (
        "from torch.nn.functional import scaled_dot_product_attention as sdpa\n"
        "def attention(q, k, v, is_causal=False, enable_gqa=False):\n"
        "    if q.shape[-1] == 8:\n        raise NotImplementedError('head dim 8')\n"
        "    return sdpa(q, k, v, is_causal=is_causal) * (2 if q.shape[-1] == 128 else 1)\n"
    )
    place, log = import_root(tmp_path, text), tmp_path / "log"

    def result(*cases: str) -> tuple[str, str]:
        return checker.computes(place, "kernel:attention", log, cases)[:2]

    assert result() == result("b1-h2-q8-d64-fp32-full-cpu") == ("built", "")
    status, reason = result("b1-h2-q8-d64-fp32-full-cpu", "b1-h2-q8-d128-fp32-full-cpu")
    assert status == "wrong result"
    assert reason.startswith("b1-h2-q8-d128-fp32-full-cpu: max error")
    status, reason = result("b1-h2-q8-d8-fp32-full-cpu")
    assert status == "unchecked"
    assert reason == "b1-h2-q8-d8-fp32-full-cpu is refused: NotImplementedError: head dim 8"


def test_a_call_that_exits_refuses_its_case(checker, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """`exit(1)` for what a kernel does not take ends the process, not the check: the other cases
    are right, and these are refused with the kernel's last words."""
    text = (
        "import ctypes, sys\n"
        "from torch.nn.functional import scaled_dot_product_attention as sdpa\n"
        "def attention(q, k, v, is_causal=False, enable_gqa=False):\n"
        "    if q.element_size() != 4:\n"
        "        print('kernel: float32 alone', flush=True)\n"
        "        ctypes.CDLL(None).exit(1)\n"
        "    return sdpa(q, k, v, is_causal=is_causal)\n"
    )
    place, log = import_root(tmp_path, text), tmp_path / "log"
    # Each call that exits costs a check from the start: one dtype of the two refused.
    fewer = replace(ATTENTION_BY_DEFAULT, cases=ProjectCases(dtype=("fp32", "fp16")))
    found = checker.computes(place, "kernel:attention", log, operation=fewer)
    assert found.status == "built", found.reason
    right, _, refused = found.checked.partition("; refused: ")
    assert right == "b1-h2-q64-d64-fp32-{full,causal}-cpu"
    assert refused == "b1-h2-q64-d64-fp16-{full,causal}-cpu"
    named = checker.computes(place, "kernel:attention", log, ["b1-h1-q8-d8-fp16-full-cpu"])
    assert named.status == "unchecked"
    assert "the call ended with exit code 1: kernel: float32 alone" in named.reason


ONLY = (
    "from torch.nn.functional import scaled_dot_product_attention as sdpa\n"
    "def attention(q, k, v, is_causal=False, enable_gqa=False):\n"
    "    if {}:\n        raise NotImplementedError('head dim 128 only\\nsecond line')\n"
    "    return {}sdpa(q, k, v, is_causal=is_causal)\n"
)
EVERY_CPU = "b1-h2-q128-d128-{fp32,fp16,bf16}-{full,causal}-cpu"


@pytest.mark.parametrize(
    ("refuses", "factor", "status", "words"),
    [
        (
            "q.shape[-1] != 128",
            "",
            "built",
            f"{EVERY_CPU}; refused: b1-h2-q64-d64-{{fp32,fp16,bf16}}-{{full,causal}}-cpu",
        ),
        ("q.shape[-1] != 128", "0 * ", "wrong result", "b1-h2-q128-d128-fp32-full-cpu: max error"),
        (
            "q.shape[-1] != 128 or q.element_size() != 2 or is_causal",
            "",
            "built",
            "b1-h2-q128-d128-{fp16,bf16}-full-cpu; "
            "refused: b1-h2-q64-d64-{fp32,fp16,bf16}-{full,causal}-cpu",
        ),
        (
            "q.shape[-1] != 80",
            "0 * ",
            "unchecked",
            "b1-h2-q64-d64-fp32-full-cpu is refused, as 5 more cases are: NotImplementedError: "
            "head dim 128 only",
        ),
        ("not q.is_cuda and 1 / 0", "", "wrong result", "ZeroDivisionError"),
    ],
)
def test_refusals_are_no_results(
    checker, tmp_path: Path, refuses: str, factor: str, status: str, words: str
) -> None:  # type: ignore[no-untyped-def]
    """A kernel of one head dim, dtype or mask is checked where it takes a case, and what was
    checked is said; one that takes none is unchecked, whatever it would return."""
    place = import_root(tmp_path, ONLY.format(refuses, factor))
    found, reason, checked = checker.computes(place, "kernel:attention", tmp_path / "log")
    assert found == status, reason
    assert words == checked if status == "built" else words in reason


def test_code_for_a_gpu_is_unchecked_on_a_cpu(checker, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Where there is no GPU, what only runs on one is neither right nor wrong."""
    text = CALLED.format("raise RuntimeError('q must be a CUDA tensor')")
    found, reason, _ = checker.computes(
        import_root(tmp_path, text), "kernel:attention", tmp_path / "log"
    )
    assert found == "unchecked"
    assert reason.endswith("RuntimeError: q must be a CUDA tensor")


@pytest.mark.parametrize(
    "text",
    [
        "return attn_cuda(q, k, v)",
        "return q.attend_cuda(k, v)",
        "import attend_cuda",
        "from os import attend_cuda",
        "return {}['cuda']",
        "raise IndexError('no cuda kernel')",
        "raise SyntaxError('cuda')",
        "return cuda; cuda = 1",
        "return q if is_causal is None else attn_cuda(q, k, v, cuda=1)",
    ],
)
def test_a_bug_that_names_cuda_is_no_refusal(checker, tmp_path: Path, text: str) -> None:  # type: ignore[no-untyped-def]
    """What code raises that works nowhere is a failure of the commit, which bisect can find."""
    place = import_root(tmp_path, CALLED.format(text))
    found, reason, _ = checker.computes(place, "kernel:attention", tmp_path / "log")
    assert found == "wrong result"
    assert reason.startswith("b1-h2-q64-d64-fp32-full-cpu: raises ")
    assert "cuda" in reason


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError('head dim must be 128')",
        "ValueError('head dim')",
        "AssertionError('need GPU')",
        "TypeError('expected dtype fp16')",
        "KeyError(q.shape[-1])",
        "NotImplementedError",
    ],
)
@pytest.mark.parametrize("factor", ["", "0 * "])
def test_what_raises_is_tried_further(checker, tmp_path: Path, error: str, factor: str) -> None:  # type: ignore[no-untyped-def]
    """A kernel of head dim 128 in fp16, in whatever words it refuses the rest, is right there, or
    wrong there; what raised is named."""
    guard = "if q.shape[-1] != 128 or q.element_size() != 2:\n        "
    text = ONLY.format("False", factor).replace("if False:\n        ", guard, 1)
    text = text.replace(
        "raise NotImplementedError('head dim 128 only\\nsecond line')", f"raise {error}"
    )
    assert f"raise {error}\n" in text
    place = import_root(tmp_path, text)
    found, reason, checked = checker.computes(place, "kernel:attention", tmp_path / "log")
    if factor:
        assert found == "wrong result"
        assert reason.startswith("b1-h2-q128-d128-fp16-full-cpu: max error")
    else:
        assert (found, reason) == ("built", "")
        assert checked.replace("{fp16,bf16,fp32}", "{fp32,fp16,bf16}") == (
            "b1-h2-q128-d128-{fp16,bf16}-{full,causal}-cpu; "
            "refused: b1-h2-q64-d64-{fp32,fp16,bf16}-{full,causal}-cpu"
        )


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ("raise ValueError('head dim')", "unchecked", "as 5 more cases are: ValueError: head dim"),
        ("assert q.is_cuda, 'need GPU'", "unchecked", "AssertionError: need GPU"),
        ("raise TypeError('expected half')", "unchecked", "TypeError: expected half"),
        ("raise TypeError('1 argument')", "wrong result", "raises TypeError: 1 argument"),
        ("raise KeyError(1)", "wrong result", "raises KeyError: 1"),
    ],
)
def test_what_raises_everywhere(
    checker, tmp_path: Path, text: str, status: str, words: str
) -> None:  # type: ignore[no-untyped-def]
    """With nothing computed, words of refusal leave a kernel unchecked and anything else fails."""
    place = import_root(tmp_path, CALLED.format(text))
    found, reason, _ = checker.computes(place, "kernel:attention", tmp_path / "log")
    assert found == status, reason
    assert words in reason


def test_a_bug_in_one_mask_is_no_refusal(checker, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """A name that causal code lacks is wrong, though all full cases are right."""
    text = RIGHT.replace("attention\n", "sdpa\n")
    text += CALLED.format("return attn_cuda(q) if is_causal else sdpa(q, k, v)")
    found, reason, _ = checker.computes(
        import_root(tmp_path, text), "kernel:attention", tmp_path / "log"
    )
    assert found == "wrong result"
    assert "-causal-cpu: raises NameError" in reason


def test_machine_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no fault of the revision, and the error has the command."""
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
    import_root = tmp_path / "site"
    import_root.mkdir()
    (import_root / "kernel.py").write_text("def f(q, k, v): return q\n")
    (import_root / "needs.py").write_text("import torch\n\ndef f(q, k, v): return torch.relu(q)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Checker() as checker:
        assert checker.loads(import_root, "kernel:f", tmp_path / "log") == ("built", "", ())
        with pytest.raises(NotMeasuredError, match="python -m pip install torch"):
            checker.loads(import_root, "needs:f", tmp_path / "log")
