"""`import flashbench`: measure, compare, load, and what notebooks show."""

import contextlib
import importlib.util
import math
import os
import signal
import subprocess
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

import flashbench
from flashbench.api.arguments import in_parameters
from flashbench.cli.compare import command
from flashbench.errors import Exit
from flashbench.measuring.progress import make_progress

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
GOLDEN = ROOT / "tests" / "golden"
CASE = "b1-h2-q32-d16-fp32-full-cpu"
QUICK: dict[str, Any] = {
    "dtypes": ["fp32"],
    "causal": "full",
    "device": "cpu",
    "samples": 4,
    "min_sample": 2e-4,
    "progress": False,
}


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    """A module in a folder that only this process's path has, as after sys.path.insert."""
    spec = importlib.util.spec_from_file_location("kernels_for_api", HERE / "kernels_for_api.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, kernels: ModuleType) -> flashbench.Run:
    """Two launches of two candidates, one of which aborts."""
    folder = tmp_path_factory.mktemp("api")
    both = {"mine": kernels.plain, "dying": kernels.crash}
    with contextlib.chdir(folder):
        return flashbench.measure(both, "1,2,32,16", launches=2, path=folder / "run.json", **QUICK)


def test_a_crash_kills_a_worker_and_no_notebook(run: flashbench.Run) -> None:
    """A candidate that aborts is a row with the reason; the other has its times."""
    mine, dying = run.compare()
    assert (mine.case, mine.candidate, mine.outcome) == (CASE, "mine", "UNDECIDED")
    assert mine.speedup is not None
    assert (dying.outcome, dying.reason) == ("NOT MEASURED", "crashed: killed by SIGABRT")
    assert run.compare().exit_code() == Exit.NOT_MEASURED
    assert run.compare().exit_code(["not-measured"]) == Exit.UNDECIDED
    assert not run.compare().passed
    assert (run.cases, run.candidates, run.launches) == ([CASE], ["mine", "dying"], 2)
    assert run.complete


def test_the_same_call_resumes_and_another_is_refused(
    run: flashbench.Run, kernels: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file with the same plan is completed, none is replaced; `force` replaces."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run.json"
    path.write_bytes(run.path.read_bytes())
    with pytest.raises(flashbench.InvalidInputError, match=r"other candidates.*path="):
        flashbench.measure([], "1,2,32,16", launches=2, path=path, **QUICK)
    both = {"mine": kernels.plain, "dying": kernels.crash}
    more = flashbench.measure(both, "1,2,32,16", launches=3, path=path, **QUICK)
    assert more.launches == 3
    assert more.to_dataframe("samples").query("launch < 2").equals(run.to_dataframe("samples"))


def test_tables_are_those_of_the_commands(run: flashbench.Run) -> None:
    """Text, CSV and a DataFrame have the same numbers."""
    loaded = flashbench.load(run.path)
    assert loaded.table() == run.table() == str(run)
    header, first, *_ = loaded.table("csv").splitlines()
    frame = loaded.to_dataframe()
    assert list(frame.columns) == header.split(",")
    written = dict(zip(header.split(","), first.split(","), strict=True))
    assert frame["sdpa_us"][0] == pytest.approx(float(written["sdpa_us"]))
    assert frame["speedup"].isna().tolist() == [False, True]
    samples = loaded.to_dataframe("samples")
    assert set(samples["candidate"]) == {"sdpa", "sdpa:math", "mine"}
    assert len(samples) == 2 * 3 * 4
    assert {"p50_us", "p99_us"} <= set(loaded.to_dataframe("detail").columns)
    assert "2 launches" in repr(loaded)


class _Texts(HTMLParser):
    """The tags and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_notebook_shows_an_escaped_table(run: flashbench.Run, tmp_path: Path) -> None:
    """Names in a file are text, whatever they hold."""
    name = "<script>alert(1)</script>"
    path = tmp_path / "named.json"
    path.write_text(run.path.read_text().replace('"mine"', msgspec.json.encode(name).decode()))
    found = _Texts(flashbench.load(path).compare()._repr_html_())
    assert found.tags == {"div", "p", "b", "br", "table", "thead", "tbody", "tr", "th", "td"}
    assert name in found.texts


def test_two_runs_are_compared_over_the_baseline() -> None:
    """Runs, paths and texts mean the same; the figure and its absence are told."""
    a, b = GOLDEN / "a.json", GOLDEN / "b.json"
    with pytest.raises(flashbench.InvalidInputError, match=r"the GPU differs.*different-machine"):
        flashbench.compare(a, flashbench.load(GOLDEN / "gpu.json"))
    judged = flashbench.compare(a, flashbench.load(b))
    assert judged.table() == flashbench.compare(str(a), str(b)).table()
    assert {row.outcome for row in judged} > {"SLOWER", "SAME"}
    assert judged.exit_code() == Exit.REGRESSION
    assert judged.plot()._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(flashbench.InvalidInputError, match=r"no figure 'nonesuch'.*speedups"):
        judged.plot("nonesuch")


def test_a_pipe_is_a_file() -> None:
    """As of a shell's `<(...)`; a second one that gets the same number is another file."""
    for name in ("a.json", "b.json"):
        reading, writing = os.pipe()
        content = (GOLDEN / name).read_bytes()
        assert os.write(writing, content) == len(content)  # it fits a pipe
        os.close(writing)
        judged = flashbench.compare(f"/dev/fd/{reading}")
        os.close(reading)
        assert judged.table() == flashbench.compare(GOLDEN / name).table()


@pytest.mark.parametrize(
    ("candidates", "cases", "why"),
    [
        ([lambda q: q], "tiny", r"cannot be imported by another process.*%%writefile"),
        ("a:b", "tiny", r"must be a list: \['a:b'\]"),
        ([], [], "no cases"),
        ([], ["tiny", CASE], "an id names the whole case"),
        ([], CASE.replace("fp32", "fp64"), "invalid case"),
        ([], "hugest", "invalid shape 'hugest'"),
        (["a b"], "tiny", "invalid candidate"),
    ],
)
def test_wrong_arguments_are_one_line(candidates: Any, cases: Any, why: str) -> None:
    """They are refused before anything is started."""
    with pytest.raises(flashbench.InvalidInputError, match=why) as error:
        flashbench.measure(candidates, cases)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("call", "arguments", "why"),
    [
        ("measure", {"dtypes": ["fp31"]}, "dtypes: 'fp31' is not one of 'fp32', "),
        ("measure", {"dtypes": 5}, "dtypes: 5 is not a list"),
        ("measure", {"causal": "yes"}, "causal: 'yes' is not one of "),
        ("measure", {"layout": "yes"}, "layout: 'yes' is not one of "),
        ("measure", {"device": "gpu"}, "device: 'gpu' is not one of "),
        ("measure", {"threads": 0}, "threads: 0 is not a whole number from 1 "),
        ("measure", {"launches": 2.5}, "launches: 2.5 is not a whole number "),
        ("measure", {"samples": 1}, "samples: 1 is not a whole number from 2 "),
        ("measure", {"seed": -1}, "seed: -1 is not a whole number from 0 "),
        ("measure", {"timeout": -1}, "timeout: -1 is not a time; "),
        ("measure", {"min_sample": math.nan}, "min_sample: nan is not a time; "),
        ("measure", {"budget": "0.5usd"}, "budget: '0.5usd' is not a time; "),
        ("measure", {"path": 5}, "path: 5 is not a path"),
        ("measure", {"progress": "perhaps"}, "progress: 'perhaps' is not a valid boolean"),
        ("measure", {"cases": 5}, "cases: 5 is no preset, shape or case"),
        ("measure", {"candidates": print}, r"must be a list: \['builtins:print'\]"),
        ("measure", {"candidates": 5}, "candidates: 5 is no list"),
        (
            "measure",
            {"candidates": None, "cases": None, "operation": "softmax"},
            "candidates name=.*candidates=\\[",
        ),
        ("compare", {"confidence": 95}, "confidence: '95' is not a fraction above 0.5 and below 1"),
        ("compare", {"tolerance": -1}, "tolerance: '-1' is not a fraction above 0 "),
        ("compare", {"metric": "zz"}, "metric: 'zz' is not one of 'wall', "),
        ("compare", {"allow": ["zz"]}, "allow: 'zz' is not one of "),
        ("compare", {"launches": 1}, "launches: 1 is not a whole number from 2 "),
        ("compare", {"a": "HEAD", "pytest": "none.py"}, "^none.py: no such file: "),
        ("compare", {"a": "HEAD", "asv": "("}, "^asv '.': not a regular expression"),
        ("compare", {"a": 5}, "5 is no run, file or revision"),
        ("compare", {"a": ""}, "'' is no run, file or revision"),
        ("compare", {"cases": "tiny"}, "^cases is for measuring two revisions; drop it, or name"),
        ("compare", {"path": "x.json"}, "^path is for measuring two revisions; drop it, or name"),
        ("compare", {"a": "HEAD", "asv": "x", "samples": 5}, "^samples is not for asv and pytest"),
        ("compare", {"b": "nosuch"}, "^nosuch: no such file; .*a.json is one, so both must be"),
        ("compare", {"a": "nosuch/"}, "^nosuch: cannot be read: No such file"),
        ("load", {"path": None}, "path: None is not a path"),
        ("Run.compare", {"against": "zz"}, "against: 'zz' is not one of 'sdpa', 'best'"),
        ("Run.compare", {"confidence": 95}, "confidence: '95' is not a fraction "),
        ("Run.table", {"format": "nope"}, "format: 'nope' is not one of 'text', "),
        ("Run.table", {"view": "nope"}, "view: 'nope' is not one of 'speedup', 'detail'"),
        ("Run.to_dataframe", {"view": "nope"}, "view: 'nope' is .*'samples'"),
    ],
)
def test_arguments_that_a_command_refuses_are_refused(
    call: str, arguments: dict[str, Any], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line with the name of the parameter, and no file."""
    monkeypatch.chdir(tmp_path)
    given: dict[str, Any] = {"measure": {"candidates": [], "cases": "1,2,32,16"}}
    given["compare"] = {"a": GOLDEN / "a.json"}
    owner, _, method = call.rpartition(".")
    function = getattr(flashbench.load(GOLDEN / "a.json") if owner else flashbench, method)
    with pytest.raises(flashbench.InvalidInputError, match=why) as error:
        function(**{**given.get(call, {}), **arguments})
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_arguments_may_be_written_as_for_a_command() -> None:
    """A fraction as text, None as the default, one name for a list of one."""
    run = flashbench.load(GOLDEN / "a.json")
    wide = run.compare(tolerance=0.05, confidence=None)
    assert run.compare(tolerance="5%").table() == wide.table() != run.compare().table()  # type: ignore[arg-type]
    assert wide.exit_code("undecided") == wide.exit_code(["undecided"])


def test_settings_of_compare_decide_as_for_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For files and runs, with the exit code; an argument outranks a setting, whose errors name
    it."""
    a, b = GOLDEN / "a.json", GOLDEN / "b.json"
    run, usual = flashbench.load(a), flashbench.compare(a, b)
    monkeypatch.chdir(tmp_path)
    settings = tmp_path / "pyproject.toml"
    settings.write_text(
        '[tool.flashbench.compare]\ntolerance = "90%"\nallow = ["undecided"]\nsamples = 5\n'
    )
    judged = flashbench.compare(a, b)
    assert judged.table() == flashbench.compare(a, b, tolerance=0.9).table() != usual.table()
    assert flashbench.compare(a, b, tolerance=0.01).table() == usual.table()
    assert run.compare().table() == run.compare(tolerance=0.9).table()
    done = CliRunner().invoke(command, [str(a), str(b)], standalone_mode=False)
    assert judged.exit_code() == done.return_value == Exit.PASS
    assert (run.compare().exit_code([]) == Exit.PASS) == run.compare().passed
    settings.write_text("[tool.flashbench.compare]\ntolerance = 9\n")
    with pytest.raises(
        flashbench.InvalidInputError, match=r"\[tool.flashbench.compare\] tolerance: '9' is not"
    ):
        flashbench.compare(a, b)


def test_missing_packages_are_named(run: flashbench.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pandas or matplotlib the error says what to install."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(flashbench.InvalidInputError, match="pip install pandas"):
        run.to_dataframe()
    with pytest.raises(flashbench.InvalidInputError, match=r"pip install 'flashbench\[figures\]'"):
        run.plot()


_INTERRUPTED = """
import flashbench
try:
    flashbench.measure([], "1,2,32,16", launches=500, path="kept.json", dtypes=["fp32"],
                       device="cpu", samples=4, min_sample=2e-4)
except KeyboardInterrupt as said:
    print(said)
print(repr(flashbench.load("kept.json")), flashbench.load("kept.json").complete)
"""


def test_an_interrupt_keeps_what_was_measured(tmp_path: Path) -> None:
    """SIGINT, as a notebook's stop button sends it, names the file; the process goes on."""
    shell = subprocess.Popen(
        [sys.executable, "-i", "-c", _INTERRUPTED],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert shell.stderr is not None
    while "launch 2 of" not in (line := shell.stderr.readline()):
        assert line, "it ended"
    shell.send_signal(signal.SIGINT)
    out, _ = shell.communicate("print(6 * 7)\n", timeout=60)
    said, shown, answer = out.splitlines()
    assert "are kept: flashbench.load('kept.json'); the same call with path='kept.json'" in said
    assert shown.startswith("<Run kept.json: ")
    assert shown.endswith(" False")
    assert answer == "42"


_SETTINGS = """
[tool.flashbench.run]
baseline-only = true
launches = 1
samples = 4
min-sample = 2e-4
output = "t.json"
device = "cpu"
hourly-rate = "2eur"
[tool.flashbench.cases]
shape = ["1,2,32,16"]
dtype = ["fp32"]
causal = "full"
"""


def test_a_thread_may_measure_what_the_settings_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signals belong to the main thread; a notebook's executor has others. [tool.flashbench.run]
    counts as for the command."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(_SETTINGS)
    found: list[flashbench.Run] = []
    thread = threading.Thread(target=lambda: found.append(flashbench.measure(progress=False)))
    thread.start()
    thread.join()
    (run,) = found
    assert (run.cases, run.candidates, run.launches) == ([CASE], [], 1)
    assert (run.path, run.file.settings.samples) == (Path("t.json"), 4)
    assert run.file.costs.currency == "eur"


def test_notes_name_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    """A flag that is a parameter of the function is written as one, another is left."""
    told = make_progress(in_parameters(flashbench.compare))
    told.note("--min-sample 5ms helps, `flashbench aa --save` too")
    assert capsys.readouterr().err == (
        "flashbench: min_sample=5ms helps, `flashbench aa --save` too\n"
    )


def test_the_import_is_cheap_and_the_names_are_public() -> None:
    """`import flashbench` loads no package; `__all__` is what docs/python-api.md lists."""
    code = (
        "import sys, flashbench; "
        "print([name for name in ('msgspec', 'numpy', 'torch') if name in sys.modules]); "
        "import flashbench.measuring.plan; print(flashbench.measure.__module__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\nflashbench.api.measuring\n"
    page = (ROOT / "docs/python-api.md").read_text()
    assert [name for name in flashbench.__all__ if f"`{name}" not in page] == []
    assert all(hasattr(flashbench, name) for name in flashbench.__all__)
