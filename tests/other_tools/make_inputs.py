"""Write the golden inputs with the real tools, in two minutes: this file is the command.

What names the machine's folders is taken out, as are lists that nobody reads; all else is as
the tools wrote it. They are kept in git: times differ from run to run.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TOOLS, INPUTS = HERE / "tools", HERE / "inputs"
PYTHON = sys.executable
LAUNCHES = 7
_KEPT_BY_PYPERF = ("name", "unit", "hostname", "cpu_model_name", "loops", "perf_version")


def _run(*command: str, cwd: Path, slower: bool = False, fails: bool = False) -> None:
    env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    env |= {"TOY_SLOWER": "1"} if slower else {}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode and not fails:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def _write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, separators=(",", ":")) + "\n")


def _pyperf(scratch: Path, name: str, slower: bool) -> None:
    out = scratch / f"{name}.json"
    options = ("-p", "8", "-n", "3", "-w", "1", "--inherit-environ=TOY_SLOWER")
    _run(PYTHON, str(TOOLS / "pyperf_toy.py"), *options, "-o", str(out), cwd=scratch, slower=slower)
    content = json.loads(out.read_text())
    for place in [content, *content["benchmarks"]]:
        place["metadata"] = {k: v for k, v in place["metadata"].items() if k in _KEPT_BY_PYPERF}
    for benchmark in content["benchmarks"]:
        for run in benchmark["runs"]:
            kept = {k: v for k, v in run["metadata"].items() if k in ("calibrate_loops", "date")}
            run["metadata"] = kept
    _write(INPUTS / f"{name}.json", content)


def _asv(scratch: Path) -> None:
    project = scratch / "project"
    (project / "benchmarks").mkdir(parents=True)
    (project / "benchmarks" / "__init__.py").touch()
    shutil.copy(TOOLS / "asv_toy.py", project / "benchmarks" / "toy.py")
    configuration = {
        "version": 1,
        "project": "toy",
        "repo": ".",
        "branches": ["main"],
        "environment_type": "existing",
        "benchmark_dir": "benchmarks",
        "results_dir": "results",
    }
    _write(project / "asv.conf.json", configuration)
    git = ("git", "-c", "user.name=toy", "-c", "user.email=toy@example.org")
    _run("git", "init", "-q", "-b", "main", ".", cwd=project)
    # A home of its own: asv keeps its machines there.
    os.environ["HOME"] = str(scratch)
    asv = (PYTHON, "-m", "asv")
    machine = ("--machine", "box", "--cpu", "Test CPU", "--arch", "x86_64", "--os", "Linux")
    _run(*asv, "machine", *machine, "--num_cpu", "2", "--ram", "1000", cwd=project)
    for side in "ab":
        (project / "side").write_text(side)
        _run("git", "add", "-A", cwd=project)
        _run(*git, "commit", "-qm", side, cwd=project)
        commit = subprocess.run(
            ("git", "rev-parse", "HEAD"), cwd=project, capture_output=True, text=True, check=True
        ).stdout.strip()
        samples = ("--record-samples",) if side == "a" else ()
        existing = ("-E", "existing", "--set-commit-hash", commit, "--machine", "box")
        _run(*asv, "run", *existing, *samples, cwd=project, fails=True)  # a benchmark fails: 2
        (result,) = (project / "results" / "box").glob(f"{commit[:8]}-*.json")
        text = re.sub(r"existing-py[^\"]*", "existing", result.read_text())
        text = text.replace(PYTHON, "python")
        (INPUTS / "asv" / "box").mkdir(parents=True, exist_ok=True)
        (INPUTS / "asv" / "box" / f"{side}.json").write_text(text)
    shutil.copy(project / "results" / "box" / "machine.json", INPUTS / "asv" / "box")
    benchmarks = json.loads((project / "results" / "benchmarks.json").read_text())
    for value in benchmarks.values():
        if isinstance(value, dict):
            value.pop("code")
    _write(INPUTS / "asv" / "benchmarks.json", benchmarks)


def _pytest(scratch: Path, test: str, out: Path, *options: str, slower: bool = False) -> None:
    shutil.copy(TOOLS / test, scratch / "test_toy.py")
    plugins = ("-p", "no:cacheprovider", "-p", "no:xdist")
    if "flashbench" not in _installed_plugins():
        plugins += ("-p", "flashbench.pytest_plugin")
    _run(PYTHON, "-m", "pytest", "-q", *plugins, *options, cwd=scratch, slower=slower)
    (written,) = scratch.rglob("*toy*.json")
    content = json.loads(written.read_text())
    written.unlink()
    cpu = content["machine_info"]["cpu"]
    content["machine_info"]["cpu"] = {key: cpu[key] for key in ("brand_raw", "count")}
    _write(out, content)


def _installed_plugins() -> set[str]:
    from importlib.metadata import entry_points

    return {point.name for point in entry_points(group="pytest11")}


def _ours(scratch: Path) -> None:
    shutil.copy(TOOLS / "plugin_toy.py", scratch / "test_toy.py")
    os.environ["PYTHONPATH"] = f"{ROOT}:{scratch}"
    out = INPUTS / "ours.json"
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [PYTHON, "-m", "flashbench", "run", "--shape", "1,2,64,32", "--causal", "causal"]
    command += ["--dtype", "fp32", "--dtype", "bf16", "--device", "cpu", "--backends", "default"]
    command += ["--candidate", "mine=test_toy:mine", "--launches", str(LAUNCHES)]
    command += ["--samples", "8", "--threads", "1", "-o", str(out)]
    done = subprocess.run(command, cwd=scratch, env=env, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    content = json.loads(out.read_text())
    content["command"] = []
    _write(out, content)


def main() -> None:
    shutil.rmtree(INPUTS, ignore_errors=True)
    INPUTS.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        for side, slower in (("a", False), ("b", True)):
            _pyperf(scratch, f"pyperf_{side}", slower)
        for side in "ab":  # A with its samples, B without
            option = ("--benchmark-json=toy.json",) if side == "a" else ("--benchmark-save=toy",)
            _pytest(scratch, "plain_toy.py", INPUTS / f"pytest_{side}.json", *option)
        for launch in range(LAUNCHES):
            for side, slower in (("a", False), ("b", True)):
                out = INPUTS / f"plugin_{side}" / f"{launch}.json"
                _pytest(scratch, "plugin_toy.py", out, "--benchmark-json=toy.json", slower=slower)
        _ours(scratch)
        _asv(scratch)


if __name__ == "__main__":
    main()
