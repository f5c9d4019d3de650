"""CPU kernels and threads: the same bits from any number, for several callers, after fork."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from kernels.cpu_truth import ours, random_inputs

from flashbench.extension import load
from flashbench.operations.attention.operation import Causal

_C = load()


# Runs code in forks of one process that has imported torch and done nothing with it: it has no
# threads, and no library of ours. A line of JSON in and out each.
TORCH = """
import json, os, sys, tempfile, traceback, torch
for line in sys.stdin:
    code, environment = json.loads(line)
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as wrong:
        pid = os.fork()
        if not pid:
            os.environ |= environment
            os.dup2(said.fileno(), 1), os.dup2(wrong.fileno(), 2)
            ended = 1
            try:
                exec(code, {})
                ended = 0
            except SystemExit as end:
                ended = end.code
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush(), sys.stderr.flush()
                os._exit(ended)
        ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        said.seek(0), wrong.seek(0)
        print(json.dumps([ended, said.read(), wrong.read()]), flush=True)
"""
Python = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def python() -> Iterator[Python]:
    """Runs code as if in a process of its own, with variables in the environment."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", TORCH]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as torch_is_here:
        asked, answers = torch_is_here.stdin, torch_is_here.stdout
        assert asked
        assert answers

        def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
            asked.write(json.dumps([code, environment]) + "\n")
            asked.flush()
            return subprocess.CompletedProcess([], *json.loads(answers.readline()))

        yield run
        asked.close()


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(
    "lengths", [(1, 700), (100, 300), (640, 128), (500, 500), (3, 2100), (3000, 3)], ids=str
)
def test_threads_change_no_bit(lengths: tuple[int, int], mask: Causal, isa: str) -> None:
    """1, 2, 3 and 8 threads, and repeated calls, give the same bits."""
    inputs = random_inputs((2, 6, 2, *lengths, 72), torch.float32)
    torch.set_num_threads(1)
    alone = ours(*inputs, mask)
    for count in (2, 3, 8, 2, 1):
        torch.set_num_threads(count)
        assert torch.equal(ours(*inputs, mask), alone)


def test_no_threads_beside_those_of_torch(python: Python) -> None:
    """After an operation of torch on three threads, attention on three starts none."""
    code = """
import os, torch
from flashbench import attention
torch.set_num_threads(3)
x = torch.randn(1, 8, 200, 64)
torch.nn.functional.scaled_dot_product_attention(x, x, x)
before = len(os.listdir("/proc/self/task"))
attention(x, x, x)
print(before, len(os.listdir("/proc/self/task")))
"""
    before, after = python(code).stdout.split()
    assert int(before) >= 3
    assert after == before


def test_several_callers_at_once(isa: str) -> None:
    """Python threads that call at the same time each get their own result."""
    cases = [random_inputs((1, 3, 3, 90 + i, 200, 64), torch.float32, seed=i) for i in range(4)]
    alone = [ours(*case, True) for case in cases]

    def call(i: int) -> bool:
        return torch.equal(ours(*cases[i % 4], True), alone[i % 4])

    with ThreadPoolExecutor(max_workers=4) as pool:
        assert all(pool.map(call, range(200)))


def test_works_after_fork(python: Python) -> None:
    """A child and a grandchild compute with threads of their own, then all exit cleanly."""
    code = """
import os, sys, torch
from flashbench import attention
torch.set_num_threads(3)
x = torch.randn(1, 8, 200, 64)
def compute():
    return attention(x, x, x).numpy().tobytes()  # torch's own threads do not survive fork()
before = compute()
def child(depth):
    pid = os.fork()
    if pid == 0:
        good = all(compute() == before for _ in range(20))
        if depth and child(depth - 1):
            good = False
        os._exit(0 if good else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
sys.exit(child(1))
"""
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_works_after_a_fork_that_cost_torch_its_threads(python: Python) -> None:
    """A child computes whose parent had used torch's threads and not yet the kernels."""
    code = """
import os, signal, torch
from flashbench import attention
x = torch.randn(1, 8, 200, 64)
torch.set_num_threads(2)
torch.randn(4000, 600).softmax(-1)
pid = os.fork()
if pid == 0:
    signal.alarm(30)
    attention(x, x, x)
    os._exit(0)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_environment_chooses_the_instruction_set(python: Python) -> None:
    """FLASHBENCH_CPU_ISA overrides the choice; otherwise the fastest usable one is taken."""
    code = "from flashbench.extension import load; print(load().selected_isa())"
    for name in _C.usable_isas():
        assert python(code, FLASHBENCH_CPU_ISA=name).stdout.strip() == name
    usable = [name for name in _C.usable_isas() if name != "avx512bf16" or not is_intel()]
    assert python(code, FLASHBENCH_CPU_ISA="").stdout.strip() == usable[-1]


def is_intel() -> bool:
    """Whether this CPU multiplies fp32 faster than pairs of bf16, by vdpbf16ps."""
    known = Path("/proc/cpuinfo")
    return known.exists() and "GenuineIntel" in known.read_text()


NO_TILES = """
import ctypes

class Stack(ctypes.Structure):
    _fields_ = [("place", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]

place = ctypes.create_string_buffer(4096)
stack = Stack(ctypes.addressof(place), 0, 4096)  # Linux grants no tiles to one so small
assert ctypes.CDLL(None).sigaltstack(ctypes.byref(stack), None) == 0
from flashbench.extension import load
print(load().selected_isa(), *load().usable_isas())
"""


@pytest.mark.skipif("amx" not in _C.usable_isas(), reason="this CPU has no AMX")
def test_without_amx_bf16_is_multiplied_as_what_is_faster(python: Python) -> None:
    """A process that is refused the tile registers multiplies bf16 as fp32 on an Intel CPU."""
    chosen, *usable = python(NO_TILES, FLASHBENCH_CPU_ISA="").stdout.split()
    assert "amx" not in usable
    assert "avx512bf16" in usable
    assert chosen == ("avx512" if is_intel() else "avx512bf16")


def test_an_unusable_instruction_set_is_refused(python: Python) -> None:
    """A wrong name is an error that says where it came from and what there is."""
    usable = " ".join(_C.usable_isas())
    with pytest.raises(ValueError, match=f"select_isa: .*mmx.* choose one of {usable}"):
        _C.select_isa("mmx")
    code = """
import torch
from flashbench import attention
x = torch.zeros(1, 1, 1, 32)
try:
    attention(x, x, x)
except ValueError as error:
    print(error)
"""
    message = python(code, FLASHBENCH_CPU_ISA="mmx").stdout
    assert message.startswith('FLASHBENCH_CPU_ISA: no usable instruction set "mmx"')
    assert usable in message
