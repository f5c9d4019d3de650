"""A machine reached by a real sshd, a project to measure there, and a stand-in for flashbench."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cloud.machine import Machine
from revisions.repository import Repository
from synthetic import make_cases, make_run

from flashbench.cloud import follow
from flashbench.fleet.merge import split
from flashbench.runfile import RunFile, read, save
from flashbench.shard import equal_shards


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """One sshd for all."""
    found = Machine(tmp_path_factory.mktemp("machine"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def second_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Another, on a port of its own."""
    found = Machine(tmp_path_factory.mktemp("other"), "other")
    yield found
    found.close()


def _prepared(server: Machine, run: RunFile) -> Machine:
    """The server with the files that measurements leave: the whole, and its shards of two."""
    save(run, server.home / "sample.json")
    for shard, part in enumerate(split(run, equal_shards(2)), 1):
        save(part, server.home / f"sample-{shard}.json")
    (server.home / "seconds").write_text("0.1")
    for name in (
        "said",
        "bad",
        "off",
        "since",
        "stays-on",
        ".flashbench-stays",
        ".flashbench-born",
    ):
        (server.home / name).unlink(missing_ok=True)
    shutil.rmtree(server.home / "flashbench-cloud", ignore_errors=True)
    return server


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options by which the machine has the stand-in: its Python installs nothing, and makes
    environments that hold it."""
    folder = tmp_path_factory.mktemp("sent")
    script = Path(__file__).with_name("stand_in.py")
    python, wheel_ = folder / "python", folder / "flashbench-0-py3-none-any.whl"
    python.write_text(
        f"""#!/bin/sh
case "$*" in
-m\\ pip*) ;;
-m\\ venv*)
    mkdir -p env/bin env/lib/python3/site-packages
    ln -s {sys.executable} env/bin/python
    printf '#!/bin/sh\\nexec {sys.executable} {script} "$@"' >env/bin/flashbench
    chmod +x env/bin/flashbench
    ;;
*) exec {sys.executable} "$@" ;;
esac
"""
    )
    python.chmod(0o755)
    wheel_.touch()
    return ["--python", str(python), "--wheel", str(wheel_)]


@pytest.fixture
def machine(server: Machine) -> Machine:
    """The machine with the file that a measurement leaves, done in a moment."""
    run = make_run(np.random.default_rng(0), cases=make_cases(2), launches=2, samples=3)
    for launch in run.launches:
        launch.case_seconds = {case.id: 0.1 for case in run.cases}
    return _prepared(server, run)


@pytest.fixture
def other(machine: Machine, second_server: Machine) -> Machine:
    """A second machine, prepared as the first."""
    return _prepared(second_server, read(machine.home / "sample.json"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A project of two commits as the current folder, with the state of jobs beside it."""
    repository = Repository(tmp_path / "project")
    repository.write("pyproject.toml", '[tool.flashbench.project]\ncallable = "k:f"\nbuild = []\n')
    repository.write("k.py", "f = None\n")
    repository.write("NOTES", "first")
    repository.commit("One")
    repository.git("tag", "first")
    repository.write("NOTES", "second")
    repository.commit("Two")
    monkeypatch.chdir(repository.root)
    monkeypatch.setattr(follow, "_FIRST_POLL", 0.2)  # jobs of stand-ins are short
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("FLASHBENCH_CACHE", str(tmp_path / "cache" / "builds"))
    return repository


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a `sky` that rents nothing; the first on PATH."""
    place = tmp_path / "fake"
    (place / "bin").mkdir(parents=True)
    program = place / "bin" / "sky"
    program.write_text(
        f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("fake_sky.py")} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("FAKE_SKY", str(place))
    monkeypatch.setenv("PATH", f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return place


@pytest.fixture
def rented(fake: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The machine that the `sky` rents; any host is reached there."""
    (fake / "home").write_text(str(machine.home))
    config = fake / "ssh_config"
    config.write_text(machine.config.read_text().replace("Host machine", "Host *"))
    ssh = fake / "bin" / "ssh"
    ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {config} "$@"\n')
    ssh.chmod(0o755)
    shutil.rmtree(machine.home / "sky_workdir", ignore_errors=True)
    return machine
