"""Bad input of every kind: one line in our words, and the exit code of the contract."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from synthetic import make_cases, make_run

from flashbench import runfile
from flashbench.cli import COMMANDS, cli, main
from flashbench.cli.report_file import refuse_run_file
from flashbench.measuring.scheduler import Scheduler

# What Python and the libraries that we build on say; none of it means anything to a user.
JARGON = re.compile(
    r"Traceback|a bug in|\[Errno|Expected `|\$\.|codec|invalid literal|embedded null|out of range "
    r"\(|Expecting|Extra data|\(char |recursion|[a-z]Error\b|Exception|NoneType|\bNone\b|object at|"
    r"<class|attribute|msgspec|unpack|set_int_max|\('[^']*',|not convert|float range|valid int"
)
PROJECT = '[tool.flashbench.project]\ncallable = "nosuch:f"\nbuild = []\n'


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a commit and a run file."""
    root = tmp_path_factory.mktemp("plain")
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    run = make_run(np.random.default_rng(0), cases=make_cases(1), launches=2, samples=3)
    runfile.save(run, root / "run.json")
    return root


@pytest.fixture
def told(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """A function: exit code and the one line on stderr of a command, in the repository."""
    monkeypatch.chdir(place)
    for name in ("HOME", "FLASHBENCH_CACHE"):
        monkeypatch.setenv(name, str(place / "home"))
    monkeypatch.setenv("FLASHBENCH_MACHINE", str(place / "machine.json"))

    def refuse(scheduler: Scheduler) -> None:
        raise AssertionError("what is wrong has to be found before anything is measured")

    monkeypatch.setattr(Scheduler, "_start_worker", refuse)

    def tell(*arguments: str, settings: str = PROJECT) -> tuple[int, str]:
        Path("pyproject.toml").write_bytes(settings.encode("utf-8", "surrogateescape"))
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        said = capsys.readouterr().err
        assert said.startswith("flashbench: "), said
        assert said.count("\n") == 1, said
        assert not JARGON.search(said), said
        return int(stop.value.code or 0), said

    return tell


LONG = "a" * 5000
DIGITS = "9" * 5000
ARGUMENTS = [
    *((name, "--nosuch") for name in COMMANDS),
    *(
        ("run", f"--{option}={value}")
        for option, values in {
            "shape": ["", "x", "1,2,3", f"1,{DIGITS},1,1", "b1-h8", "\x1b[2J", "\udcff", "../x"],
            "launches": ["", "x", "0", "-1", "1.5", DIGITS, "nan"],
            "samples": ["1", "é", "1e3"],
            "seed": ["-1", str(2**64)],
            "min-sample": ["0", "-1", "1e9", "5 weeks", f"{DIGITS}s"],
            "budget": ["", "nan", "inf"],
            "hourly-rate": ["-1", "nan", "inf", "x", "1e999"],
            "preset": ["", "nosuch"],
            "dtype": ["fp64"],
            "device": ["tpu", "cuda:0"],
            "shard": ["", "0/2", "3/2", "x", f"1/{DIGITS}"],
            "resume": ["nosuch.json", "/", LONG],
            "output": ["/", f"{LONG}/x", "/proc/x.json"],
        }.items()
        for value in values
    ),
    *((name, LONG) for name in ("show", "compare", "record", "merge", "build", "history")),
    *((name, "/") for name in ("record", "merge")),
    *((name, "nosuch..HEAD") for name in ("build", "backfill", "history", "builds")),
    ("show", "run.json", "-o", LONG),
    ("show", "run.json", "-o", "nosuch/table.txt"),
    ("compare", "run.json", "--tolerance", "200%"),
    ("compare", "run.json", "--tolerance", "nan"),
    ("compare", "run.json", "--confidence", ""),
    ("compare", "run.json", "run.json", "run.json"),
    ("compare", "@{-1}", "HEAD:x"),
    ("aa", "--candidate", "nosuch"),
    ("aa", "--comparisons", DIGITS),
    ("bisect", "--good", "", "--for", "build"),
    ("bisect", "--good", "HEAD", "--for", "speed", "--case", "\x1b]0;x"),
    ("builds", "--prune", "--keep-gb", "nan"),
    ("gate", "--launches", "x"),
    ("publish", "--results", LONG),
    ("history", "--results", "run.json"),
    ("merge", "-o", "merged.json", "pyproject.toml"),
    ("record", "run.json", "--commit", "-x"),
    ("backfill", "--list", "nosuch"),
    ("backfill", "--list", "/"),
]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=lambda words: ascii(" ".join(words))[:60])
def test_wrong_arguments(told, arguments: tuple[str, ...]) -> None:
    """Missing, malformed, huge, negative, unicode and path-like values of options and arguments."""
    code, said = told(*arguments)
    assert code == 2, said


@pytest.mark.parametrize("command", ["build", "compare HEAD HEAD", "gate", "aa"])
@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("run.json", "run.json: holds measurements"),
        ("no such/table", "no folder no such; make it with: mkdir -p 'no such'"),
        ("leads away", "nosuch; make it with: mkdir -p "),
        ("run.json/table", "run.json/table: cannot be written: Not a directory"),
    ],
)
def test_reports_are_refused_at_once(told, command: str, output: str, words: str) -> None:
    """What -o cannot take is exit code 2 before a revision is built (here none can be)."""
    link = Path("leads away")
    link.unlink(missing_ok=True)
    link.symlink_to("nosuch/table")
    code, said = told(*command.split(), "-o", output)
    assert code == 2, said
    assert words in said


@pytest.mark.parametrize("command", ["compare HEAD HEAD", "gate", "aa"])
@pytest.mark.parametrize("output", ["new.json", "./new.json", "link.json"])
def test_a_report_has_a_file_of_its_own(told, command: str, output: str) -> None:
    """The file that the measurements go to takes no report, under no name."""
    link = Path("link.json")
    link.unlink(missing_ok=True)
    link.symlink_to("new.json")
    code, said = told(*command.split(), "--run-file", "new.json", "-o", output)
    assert (code, f"{Path(output)}: will hold the measurements" in said) == (2, True), said
    assert not Path("new.json").exists()


def test_a_device_takes_measurements_and_report() -> None:
    """`--run-file /dev/null -o /dev/null` is no mistake."""
    refuse_run_file(Path("/dev/null"), Path("/dev/null"))


NUMBERS = ["x", "0.5", "-1", "1e400", "nan", "true", "1979-01-01", "{}", "[1]", "0x" + "f" * 30]
SETTINGS = [
    *(f"[tool.flashbench.run]\nlaunches = {value}" for value in NUMBERS),
    *(f"[tool.flashbench.run]\nhourly-rate = {value}" for value in NUMBERS if value != "0.5"),
    *(f"[tool.flashbench.run]\nbudget = {value}" for value in ("true", "12:00:00", '"x"', "[]")),
    *(f"[tool.flashbench.run]\nforce = {value}" for value in ("1", '"yes"', "[]", "{}", "nan")),
    *(f"[tool.flashbench.run]\nshape = {value}" for value in ('"x"', '["x"]', "[{}]", "[[1]]")),
    *(f"[tool.flashbench.run]\noutput = {value}" for value in ('"\\u0000"', "true", "{}")),
    *(f"{name} = 1" for name in ("tool", "tool.flashbench", "tool.flashbench.run")),
    *(f"{PROJECT}{key}" for key in ("path = 1", 'path = "/"', "sources = [1]", "nosuch = 1")),
    "[tool.flashbench.project]\ncallable = 1",
    '[tool.flashbench.project]\ncallable = "a:b"\nbuild = ["\\u0000"]',
    f"x = {DIGITS}",
    "x = " + "[" * 100_000,
    "[a]\n[a]",
    "[a.b.c]\n[a.b.c]",
    'x = "',
    "x = 1979-02-30",
    "\udcff",
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda text: ascii(text)[-40:])
def test_wrong_settings(told, settings: str) -> None:
    """Settings of the wrong kind, of every table that `run` reads, and files that are no TOML."""
    code, said = told("run", settings=settings)
    assert (code, "pyproject.toml: " in said) == (2, True), said


def test_each_option_refuses_a_date(told) -> None:
    """A setting may be any of TOML's kinds; no option of any command takes a date for a text."""
    for name in COMMANDS:
        command = cli.get_command(None, name)  # type: ignore[arg-type]
        for parameter in command.params if command.__class__.__name__ == "SettingsCommand" else []:
            flag = max(parameter.opts, key=len)
            if flag.startswith("--") and not getattr(parameter, "hidden", False):
                table = f"[tool.flashbench.{name}]\n{flag[2:]} = "
                assert told(name, settings=f"{table}1979-01-01")[0] == 2
                assert told(name, settings=f"{table}[1979-01-01]")[0] == 2


DAMAGED = {
    "empty": b"",
    "cut": b'{"format": "flashbench-run", "version": 1, "cases": [',
    "no JSON": b"{format: 1}",
    "no text": b"\xff\xfe\x00",
    "NaN": b'{"format": NaN}',
    "deep": b'{"format": ' + b"[" * 100_000,
    "digits": b'{"version": ' + DIGITS.encode() + b"}",
    "list": b"[]",
    "text": b'"x"',
}


@pytest.mark.parametrize(
    "command", ["show", "compare", "record", "merge -o m.json", "run --resume"]
)
@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_files(told, command: str, kind: str) -> None:
    """What is wrong with a file, in words."""
    Path("bad.json").write_bytes(DAMAGED[kind])
    code, said = told(*command.split(), "bad.json")
    assert code == 2
    assert "bad.json: " in said


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b'"seconds":[', b'"seconds":["x",', "[0]: expected a number, found text"),
        (
            b'"index":1',
            b'"index":1.5',
            "launches[1].index: expected a whole number",
        ),
        (
            b'"status":"ok"',
            b'"status":"fine"',
            "launches[0].results[0].status: 'fine' is not one of",
        ),
        (b'"dtype":', b'"d":', "cases[0]: has 'd', which is not one of its fields"),
        (b'"samples":', b'"samples":1e999,"s":', "settings.samples: "),
    ],
)
def test_a_damaged_place_is_named(told, place: Path, old: bytes, new: bytes, words: str) -> None:
    """The place in the file, and what was expected there."""
    whole = (place / "run.json").read_bytes()
    assert old in whole
    Path("bad.json").write_bytes(whole.replace(old, new, 1))
    code, said = told("show", "bad.json")
    assert code == 2
    assert words in said


@pytest.mark.parametrize("content", [b"\xff", b"a\0b\n", b"nosuch\n", b"", b"-x\n", LONG.encode()])
def test_lists_of_commits(told, content: bytes) -> None:
    """`backfill --list` of a file that is no list of revisions."""
    Path("list").write_bytes(content)
    code, said = told("backfill", "--list", "list")
    assert code == 2, said
