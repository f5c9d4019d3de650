"""`show` and `compare` as commands: files written, options refused, nothing heavy imported."""

import os
import subprocess
import sys

import forks
import numpy as np
import pytest
from click.testing import CliRunner
from synthetic import make_cases, make_run

from flashbench.cli import cli, main
from flashbench.runfile import save


@pytest.fixture
def run_path(tmp_path):
    """A run file with one launch."""
    path = tmp_path / "run.json"
    save(make_run(np.random.default_rng(0), cases=make_cases(2), launches=1, samples=4), path)
    return path


def test_output_file(run_path, tmp_path):
    """-o writes what stdout would have got, and stdout stays empty."""
    target = tmp_path / "table.csv"
    plain = CliRunner().invoke(cli, ["show", "--format", "csv", str(run_path)])
    written = CliRunner().invoke(cli, ["show", "--format", "csv", "-o", str(target), str(run_path)])
    assert written.stdout == ""
    assert target.read_text() == plain.stdout


def test_one_file_twice_is_told(run_path, tmp_path):
    """The same file by two names, and a copy, are told on stderr; the exit code stays. Another run
    with the same build is not told."""
    copy, link, other = (tmp_path / f"{name}.json" for name in ("copy", "link", "other"))
    copy.write_bytes(run_path.read_bytes())
    link.symlink_to(run_path)
    save(make_run(np.random.default_rng(1), cases=make_cases(2), launches=1, samples=4), other)
    plain = CliRunner().invoke(cli, ["compare", str(run_path), str(other)])
    assert "shared" not in plain.stderr
    for second, what in ((run_path, "the same file"), (link, "the same file"), (copy, "copies")):
        found = CliRunner().invoke(cli, ["compare", str(run_path), str(second)])
        assert f"{run_path} and {second} are {what}" in found.stderr
        assert found.stderr.count("\n") == plain.stderr.count("\n") + 1
        assert found.exit_code == plain.exit_code
    assert "shared" not in CliRunner().invoke(cli, ["compare", str(run_path)]).stderr


def test_output_that_cannot_be_written(run_path, tmp_path, capsys):
    """A folder that does not exist is one line with the fix, and exit 2."""
    target = tmp_path / "missing" / "table.txt"
    with pytest.raises(SystemExit) as stop:
        main(["show", "-o", str(target), str(run_path)])
    assert stop.value.code == 2
    assert capsys.readouterr().err == (
        f"flashbench: {target}: cannot be written: no folder {target.parent}; make it with: "
        f"mkdir -p {target.parent}\n"
    )


@pytest.mark.parametrize("text", ["0", "100%", "-1%", "nan", "inf", ""])
def test_tolerance_bounds(run_path, text, capsys):
    """A tolerance is a fraction strictly between 0 and 1."""
    with pytest.raises(SystemExit) as stop:
        main(["compare", "--tolerance", text, str(run_path)])
    assert stop.value.code == 2
    assert "write 1% or 0.01" in capsys.readouterr().err


def test_messages_do_not_steer_the_terminal(tmp_path, capsys):
    """A hostile name in a damaged file is shown, not obeyed."""
    path = tmp_path / "run.json"
    run = make_run(np.random.default_rng(0), cases=make_cases(1), launches=1, samples=2)
    run.launches[0].results[0].candidate = "\x1b[2Jgone"
    save(run, path)
    with pytest.raises(SystemExit) as stop:
        main(["show", str(path)])
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert "\x1b" not in error
    assert "gone" in error
    assert error.count("\n") == 1


def test_settings_of_the_gate(run_path, tmp_path, monkeypatch):
    """[tool.flashbench.compare] has defaults, and a flag wins."""
    text = '[tool.flashbench.compare]\ntolerance = "2%"\nallow = ["undecided"]\n'
    (tmp_path / "pyproject.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["compare", str(run_path)], standalone_mode=False)
    assert "tolerance 2 %" in done.stdout
    assert done.return_value == 0
    done = CliRunner().invoke(cli, ["compare", "--tolerance", "3%", str(run_path)])
    assert "tolerance 3 %" in done.stdout


def test_reader_that_goes_away_does_not_change_the_exit_code(run_path):
    """`compare ... | head` under pipefail is still the gate: one launch is undecided, code 3."""
    reading, writing = os.pipe()
    os.close(reading)
    done = forks.run(["compare", run_path], run_path.parent, stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (3, "")


def test_neither_torch_nor_scipy_is_imported(run_path):
    """compare works where torch is not installed, and does not wait for scipy.stats."""
    program = (
        "import sys; from flashbench.cli import cli\n"
        f"cli.main(['compare', {str(run_path)!r}], standalone_mode=False)\n"
        "print([name for name in ('torch', 'scipy', 'rich') if name in sys.modules])"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert out.stdout.splitlines()[-1] == "[]"
