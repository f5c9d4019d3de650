"""The command line as a whole: help, errors, exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import forks
import pytest

from flashbench import machine
from flashbench.cli import COMMANDS, info, main
from flashbench.profile import ceilings


def _flashbench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return forks.run(arguments, forks.ROOT)


def test_help_lists_the_commands_without_torch() -> None:
    """`--help` names each command and imports neither torch, numpy nor scipy."""
    heavy = "{'torch', 'numpy', 'scipy', 'rich'} & {m.split('.')[0] for m in sys.modules}"
    code = (
        "import sys\nfrom flashbench.cli import main\n"
        f"try: main(['--help'])\nfinally: print('loaded:', sorted({heavy}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    assert "loaded: []" in done.stdout
    for name in COMMANDS:
        assert f"\n  {name}" in done.stdout


@pytest.mark.parametrize("arguments", [["plan"], ["plan", "profile"]])
def test_a_group_names_its_commands(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """If none is given, or an unknown one."""
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert said.endswith(". Choose from: run, compare, bisect, backfill\n")
    assert said.count("\n") == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_explains_itself(name: str) -> None:
    """`flashbench COMMAND --help` works for every command."""
    done = _flashbench(name, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage:")


@pytest.mark.parametrize(
    "arguments", [["nosuch"], ["--nosuch"], ["info", "--format", "yaml"], ["info", "extra"]]
)
def test_wrong_usage_is_one_line_and_exit_2(arguments: list[str]) -> None:
    """Wrong usage is reported in one line on stderr, nothing on stdout, exit code 2."""
    done = _flashbench(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("flashbench: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("package", "arguments"),
    [
        ("click", "['info']"),
        ("numpy", "['show', 'results/cpu.json']"),
        ("msgspec", "['compare', 'results/cpu.json']"),
    ],
)
def test_a_missing_package_is_one_line(package: str, arguments: str) -> None:
    """Every command that needs it names the missing package and how to install it, with exit code
    4."""
    code = (
        f"import sys\nsys.modules[{package!r}] = None\nsys.argv[1:] = {arguments}\n"
        "from flashbench.__main__ import main\nmain()"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=forks.ROOT)
    line = f"flashbench: the package {package} is not installed; install it: "
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == f"{line}{sys.executable} -m pip install {package}\n"


def test_a_bug_is_not_a_regression(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unforeseen error is shown whole, with the exit code of "could not measure", not 1."""

    def stumble(*arguments: object) -> None:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr(info, "build_info", stumble)
    with pytest.raises(SystemExit) as stop:
        main(["info"])
    assert stop.value.code == 4
    assert capsys.readouterr().err.endswith(
        "a bug in flashbench: ZeroDivisionError: of all things\n"
    )


def test_info_refuses_an_instruction_set_this_cpu_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong FLASHBENCH_CPU_ISA is one line that names the variable and the usable values."""
    monkeypatch.setenv("FLASHBENCH_CPU_ISA", "nosuch")
    done = _flashbench("info")
    assert done.returncode == 2
    assert done.stderr.startswith("flashbench: FLASHBENCH_CPU_ISA")
    assert "generic" in done.stderr
    assert done.stderr.count("\n") == 1


def test_info_says_what_was_built() -> None:
    """`info` shows the backends, the instruction set in use and whether the sources agree."""
    done = _flashbench("info")
    assert done.returncode == 0
    assert "instruction sets generic" in done.stdout
    assert "source hash" in done.stdout


def test_info_measures_the_peak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`info --peak` gives a rate for each dtype, and keeps what the machine does at most."""
    machine_file = tmp_path / "machine.json"
    monkeypatch.setenv("FLASHBENCH_MACHINE", str(machine_file))
    document = json.loads(_flashbench("info", "--peak", "--format", "json").stdout)
    assert set(document["cpu_peaks"]) == set(document["cpu_dtypes"])
    for rates in document["cpu_peaks"].values():
        assert all(rate > 1e8 for rate in rates.values())
    kept = {one.device: one for one in machine.read(machine_file).ceilings}
    assert [one["device"] for one in document["ceilings"]] == list(kept)
    assert kept["cpu"].flops["fp32"] > 1e8
    assert kept["cpu"].bytes_per_second > 1e8
    assert 1e-8 < kept["cpu"].launch_seconds["wall"] < 1e-2


@pytest.mark.parametrize(("load", "said"), [(0.5, 0), (1e3, 1)])
def test_peaks_of_a_busy_machine(load: float, said: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line warns that others take the processors whose peaks are measured."""
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr("flashbench.profile.ceilings.measure", lambda device: device)
    printed: list[str] = []
    assert ceilings.measure_all(printed.append)[0] == "cpu"
    assert sum("too low" in line for line in printed) == said
