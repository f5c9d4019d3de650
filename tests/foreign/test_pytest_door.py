"""The pytest plugin in real runs of pytest, each in a process of its own."""

import json
import os
import subprocess
import sys

import pytest
from foreign.door import ROOT, run_pytest


def _marked(arguments, body="benchmark(attention)"):
    return (
        f"@pytest.mark.attention('1,2,48,32', device='cpu', samples=4, {arguments})\n"
        f"def test_it(attention, benchmark):\n    {body}\n"
    )


def test_one_line_of_candidates(tmp_path):
    """Each dtype, mask and candidate is a test; the file names case, candidate and metric."""
    marked = _marked(
        "dtype=['fp32', 'bf16'], causal=[False, True], candidates=['sdpa', 'good=kernels:good']"
    )
    code, said, written = run_pytest(tmp_path, marked, "--strict-markers")
    assert code == 0, said
    found = [benchmark["extra_info"]["flashbench"] for benchmark in written["benchmarks"]]
    assert {(one["case"], one["candidate"]) for one in found} == {
        (f"b1-h2-q48-d32-{dtype}-{mask}-cpu", candidate)
        for dtype in ("fp32", "bf16")
        for mask in ("full", "causal")
        for candidate in ("sdpa", "good")
    }
    assert {one["metric"] for one in found} == {"wall"}
    assert all(len(b["stats"]["data"]) == 4 for b in written["benchmarks"])
    assert "test_it[b1-h2-q48-d32-bf16-causal-good]" in said


def test_the_times_are_those_of_our_clock(tmp_path):
    """What pytest-benchmark writes is, digit for digit, what the clock measured."""
    body = (
        "from flashbench.measure import clock_cpu\n"
        "    taken = []\n"
        "    block = clock_cpu._WallSampler.block\n"
        "    def keep(self, samples):\n"
        "        taken.extend(found := block(self, samples))\n"
        "        return found\n"
        "    clock_cpu._WallSampler.block = keep\n"
        "    benchmark(attention)\n"
        "    benchmark.extra_info['taken'] = taken"
    )
    code, said, written = run_pytest(tmp_path, _marked("candidates='good=kernels:good'", body))
    assert code == 0, said
    (benchmark,) = written["benchmarks"]
    assert benchmark["stats"]["data"] == benchmark["extra_info"]["taken"]


@pytest.mark.parametrize(
    ("candidate", "said"),
    [
        ("wrong", "wrong result: max error"),
        ("cached", "wrong result: gave its earlier output again"),
        ("breaks", "RuntimeError: out of luck"),
    ],
)
def test_a_wrong_candidate_fails_untimed(candidate, said, tmp_path):
    """Who is wrong, cheats or breaks fails the test, and no time of it is written."""
    code, output, written = run_pytest(
        tmp_path, _marked(f"candidates=['sdpa', '{candidate}=kernels:{candidate}']")
    )
    assert code == 1
    assert said in output
    assert [b["extra_info"]["flashbench"]["candidate"] for b in written["benchmarks"]] == ["sdpa"]


def test_what_is_not_supported_is_skipped(tmp_path):
    """NotImplementedError is no failure."""
    code, output, _ = run_pytest(tmp_path, _marked("candidates='refuses=kernels:refuses'"), "-rs")
    assert code == 0
    assert "not supported: NotImplementedError: fp8 only" in output


def test_a_function_of_the_tests_own(tmp_path):
    """Without candidates the test hands over the function, which is checked and timed alike."""
    body = "benchmark({}, attention.q, attention.k, attention.v, **attention.keywords)"
    right = _marked("causal=True", body.format("kernels.good"))
    wrong = _marked("causal=True", body.format("kernels.wrong")).replace("test_it", "test_bad")
    code, output, written = run_pytest(tmp_path, right + wrong)
    assert code == 1
    assert "1 failed, 1 passed" in output
    assert "wrong result" in output
    (benchmark,) = written["benchmarks"]
    assert benchmark["extra_info"]["flashbench"]["candidate"] == "good"


def test_marks_of_pytest_benchmark_stay(tmp_path):
    """A group given to pytest-benchmark's own marker is kept."""
    marked = "@pytest.mark.benchmark(group='heads')\n" + _marked("candidates='sdpa'")
    code, output, written = run_pytest(tmp_path, marked)
    assert code == 0, output
    assert written["benchmarks"][0]["group"] == "heads"


def test_checked_when_nothing_is_timed(tmp_path):
    """With benchmarks switched off wrong results are found all the same."""
    marked = _marked("candidates=['good=kernels:good', 'wrong=kernels:wrong']")
    code, output, _ = run_pytest(tmp_path, marked, "--benchmark-disable")
    assert code == 1
    assert "1 failed, 1 passed" in output
    assert "wrong result" in output


def test_without_pytest_benchmark(tmp_path):
    """The fixture `attention` needs no pytest-benchmark."""
    test = (
        "@pytest.mark.attention('1,2,48,32', device='cpu', candidates='good=kernels:good')\n"
        "def test_it(attention):\n    assert attention().shape == attention.q.shape\n"
    )
    code, output, _ = run_pytest(tmp_path, test, "-p", "no:benchmark")
    assert code == 0, output


def test_misuse_is_one_line(tmp_path):
    """What is wrong with a marker is said in its words, without a traceback of ours."""
    misused = {
        _marked("colour='red'"): "has no 'colour'; it has dtype, causal",
        _marked("dtype='fp8'"): "dtype 'fp8' is not one of fp32, fp16, bf16",
        _marked("device='tpu'").replace("device='cpu', ", ""): "device 'tpu' is not one of auto",
        _marked("candidates='mine'"): "write name=module:function",
        _marked("candidates='x=nowhere:f'"): "nowhere cannot be imported",
        _marked("candidates='sdpa', metric='gpu_warm'"): "no gpu_warm on cpu; it has wall",
        _marked("candidates=None"): "names no `candidates`",
        "@pytest.mark.attention()\ndef test_it(benchmark): pass\n": "needs its fixture",
        "def test_it(attention): pass\n": "needs its marker",
    }
    for index, test in enumerate(misused):
        (tmp_path / f"test_{index}.py").write_text(f"import pytest\n{test}")
    code, output, _ = run_pytest(tmp_path, "", "--continue-on-collection-errors")
    assert code == 1
    for said in misused.values():
        assert said in output
    assert "Traceback" not in output
    assert "pytest_door" not in output


def test_pytest_starts_without_torch(tmp_path):
    """The plugin alone imports neither torch nor pytest-benchmark."""
    test = (
        "def test_it():\n"
        "    import sys\n"
        "    assert 'flashbench.pytest_door' in sys.modules\n"
        "    assert not {'torch', 'pytest_benchmark.fixture'} & sys.modules.keys()\n"
    )
    code, output, _ = run_pytest(tmp_path, test, "-p", "no:benchmark", kernels="")
    assert code == 0, output


def test_folders_of_files_go_through_the_gate(tmp_path):
    """`compare a b` of pytest's files, a process each, is over SDPA and finds the slower kernel."""
    marked = _marked("candidates=['sdpa', 'good=kernels:good']")
    _, said, written = run_pytest(tmp_path, marked)
    assert written, said
    for side, factor in (("a", 1), ("b", 3)):  # the kernel takes three times as long in B
        content = json.loads(json.dumps(written))
        for benchmark in content["benchmarks"]:
            if benchmark["extra_info"]["flashbench"]["candidate"] == "good":
                stats = benchmark["stats"]
                stats["data"] = [factor * seconds for seconds in stats["data"]]
        (tmp_path / side).mkdir()
        for launch in range(5):
            (tmp_path / side / f"{launch}.json").write_text(json.dumps(content))
    done = subprocess.run(
        [sys.executable, "-m", "flashbench", "compare", "a", "b"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "machine = SDPA in A / in B" in done.stdout
    assert "0.333 [0.333, 0.333]" in done.stdout
    assert "SLOWER 1" in done.stdout
