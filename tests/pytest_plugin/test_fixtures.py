"""The pytest plugin in real runs of pytest, each in a process of its own (most are forks)."""

import json
from xml.etree import ElementTree

import forks
import pytest
from pytest_plugin.runs import run_pytest

pytestmark = pytest.mark.slow


def _marked(arguments, body="benchmark(attention)"):
    return (
        f"@pytest.mark.attention('1,2,48,32', device='cpu', samples=4, {arguments})\n"
        f"def test_it(attention, benchmark):\n    {body}\n"
    )


TAKEN = """from flashbench.measuring import clock_cpu
    taken = []
    block = clock_cpu._WallSampler.block
    def keep(self, samples):
        taken.extend(found := block(self, samples))
        return found
    monkeypatch.setattr(clock_cpu._WallSampler, "block", keep)
    benchmark(attention)
    benchmark.extra_info['taken'] = taken"""
OWN = "benchmark({}, attention.q, attention.k, attention.v, **attention.keywords)"
GROUPED = "@pytest.mark.benchmark(group='heads')\n"
FILES = {
    "grid": _marked(
        "dtype=['fp32', 'bf16'], causal=[False, True], candidates=['sdpa', 'good=kernels:good']"
    ),
    "taken": _marked("candidates='good=kernels:good'", TAKEN).replace(
        "benchmark):", "benchmark, monkeypatch):"
    ),
    "wrong": _marked("candidates=['sdpa', 'wrong=kernels:wrong']"),
    "cached": _marked("candidates=['sdpa', 'cached=kernels:cached']"),
    "breaks": _marked("candidates=['sdpa', 'breaks=kernels:breaks']"),
    "refuses": _marked("candidates='refuses=kernels:refuses'"),
    "own": _marked("causal=True", OWN.format("kernels.good"))
    + _marked("causal=True", OWN.format("kernels.wrong")).replace("test_it", "test_bad"),
    "grouped": GROUPED + _marked("candidates='sdpa'"),
    "norm": """
@pytest.mark.operation(
    "rms-norm", "rows=8,16,dim=32", device="cpu", samples=4,
    candidates=["torch:eager", "right=kernels:norm", "zeros=kernels:no_norm"],
)
def test_it(operation, benchmark):
    benchmark(operation)

@pytest.mark.operation("softmax", "rows=8,dim=32", device="cpu", samples=4)
def test_own(operation, benchmark):
    benchmark(kernels.softmax, *operation.inputs, **operation.keywords)
""",
    "pair": _marked("candidates=['sdpa', 'good=kernels:good']"),
}


_OF = "@pytest.mark.operation"


class Run:
    """FILES in one process of pytest, which spares importing torch for each."""

    def __init__(self, folder):
        for name, text in FILES.items():
            (folder / f"test_{name}.py").write_text(f"import pytest, kernels\n{text}")
        report = folder / "junit.xml"
        _, output, self.written = run_pytest(folder, "", "--strict-markers", f"--junitxml={report}")
        assert report.exists(), output
        self._cases = list(ElementTree.parse(report).iter("testcase"))  # noqa: S314

    def tests(self, name):
        """What became of each test of a file: {its name: passed, or the words of its failure}."""
        cases = [case for case in self._cases if case.get("classname") == f"test_{name}"]
        return {
            case.get("name"): " ".join(f"{x.tag}: {x.get('message')}" for x in case) or "passed"
            for case in cases
        }

    def benchmarks(self, name):
        """What pytest-benchmark wrote of a file's tests."""
        return [
            benchmark
            for benchmark in self.written["benchmarks"]
            if benchmark["fullname"].startswith(f"test_{name}.py::")
        ]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return Run(tmp_path_factory.mktemp("plugin"))


def test_one_line_of_candidates(run):
    """Each dtype, mask and candidate is a test; the file names case, candidate and metric."""
    tests, benchmarks = run.tests("grid"), run.benchmarks("grid")
    assert set(tests.values()) == {"passed"}
    found = [benchmark["extra_info"]["flashbench"] for benchmark in benchmarks]
    assert {(one["case"], one["candidate"]) for one in found} == {
        (f"b1-h2-q48-d32-{dtype}-{mask}-cpu", candidate)
        for dtype in ("fp32", "bf16")
        for mask in ("full", "causal")
        for candidate in ("sdpa", "good")
    }
    assert {one["metric"] for one in found} == {"wall"}
    assert all(len(b["stats"]["data"]) == 4 for b in benchmarks)
    assert "test_it[b1-h2-q48-d32-bf16-causal-good]" in tests


def test_another_operation(run):
    """Candidates and baseline of a norm are tests too, as is a function of the test's own."""
    tests = run.tests("norm")
    assert len(tests) == 2 * 3 + 1
    assert {name: said for name, said in tests.items() if said != "passed"}.keys() == {
        f"test_it[rms-norm-rows{rows}-dim32-fp32-zeros]" for rows in (8, 16)
    }
    found = {b["extra_info"]["flashbench"]["candidate"] for b in run.benchmarks("norm")}
    assert found == {"torch:eager", "right", "softmax"}


def test_the_times_are_those_of_our_clock(run):
    """What pytest-benchmark writes is, digit for digit, what the clock measured."""
    (benchmark,) = run.benchmarks("taken")
    assert benchmark["stats"]["data"] == benchmark["extra_info"]["taken"]


@pytest.mark.parametrize(
    ("candidate", "said"),
    [
        ("wrong", "wrong result: max error"),
        ("cached", "wrong result: returned its earlier output again"),
        ("breaks", "RuntimeError: out of luck"),
    ],
)
def test_a_wrong_candidate_fails_untimed(candidate, said, run):
    """Who is wrong, cheats or breaks fails the test, and no time of it is written."""
    sdpa, failed = run.tests(candidate).values()
    assert sdpa == "passed"
    assert failed.startswith("failure: ")
    assert said in failed
    assert [b["extra_info"]["flashbench"]["candidate"] for b in run.benchmarks(candidate)] == [
        "sdpa"
    ]


def test_what_is_not_supported_is_skipped(run):
    """NotImplementedError is no failure."""
    (said,) = run.tests("refuses").values()
    assert said.startswith("skipped: not supported: NotImplementedError: fp8 only")


def test_a_function_of_the_tests_own(run):
    """Without candidates the test hands over the function, which is checked and timed alike."""
    right, wrong = run.tests("own").values()
    assert right == "passed"
    assert wrong.startswith("failure: ")
    assert "wrong result" in wrong
    (benchmark,) = run.benchmarks("own")
    assert benchmark["extra_info"]["flashbench"]["candidate"] == "good"


def test_marks_of_pytest_benchmark_stay(run):
    """A group given to pytest-benchmark's own marker is kept."""
    assert list(run.tests("grouped").values()) == ["passed"]
    assert [benchmark["group"] for benchmark in run.benchmarks("grouped")] == ["heads"]


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
        "def test_it(operation): pass\n": "`operation` needs its marker",
        _OF + "()\ndef test_it(operation): pass\n": "names no operation",
        _OF + "('nope')\ndef test_it(operation): pass\n": "no operation is called 'nope'",
        _OF + "('softmax', causal=True)\ndef test_it(operation): pass\n": "has no 'causal'; it has",
        _OF + "('softmax', 'rows=1')\ndef test_it(operation): pass\n": "dim is missing",
    }
    for index, test in enumerate(misused):
        (tmp_path / f"test_{index}.py").write_text(f"import pytest\n{test}")
    code, output, _ = run_pytest(tmp_path, "", "--continue-on-collection-errors")
    assert code == 1
    for said in misused.values():
        assert said in output
    assert "Traceback" not in output
    assert "pytest_plugin" not in output


def test_pytest_starts_without_torch(tmp_path):
    """The plugin alone imports neither torch nor pytest-benchmark."""
    test = (
        "def test_it():\n"
        "    import sys\n"
        "    assert 'flashbench.pytest_plugin' in sys.modules\n"
        "    assert not {'torch', 'pytest_benchmark.fixture'} & sys.modules.keys()\n"
    )
    code, output, _ = run_pytest(tmp_path, test, "-p", "no:benchmark", kernels="", fork=False)
    assert code == 0, output


def test_folders_of_files_go_through_the_gate(tmp_path, run):
    """`compare a b` of pytest's files, a process each, is over SDPA and finds the slower kernel."""
    written = run.written | {"benchmarks": run.benchmarks("pair")}
    assert len(written["benchmarks"]) == 2
    for side, factor in (("a", 1), ("b", 3)):  # the kernel takes three times as long in B
        content = json.loads(json.dumps(written))
        for benchmark in content["benchmarks"]:
            if benchmark["extra_info"]["flashbench"]["candidate"] == "good":
                stats = benchmark["stats"]
                stats["data"] = [factor * seconds for seconds in stats["data"]]
        (tmp_path / side).mkdir()
        for launch in range(5):
            (tmp_path / side / f"{launch}.json").write_text(json.dumps(content))
    done = forks.run(["compare", "a", "b"], tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "machine = SDPA in A / in B" in done.stdout
    assert "0.333 [0.333, 0.333]" in done.stdout
    assert "SLOWER 1" in done.stdout
