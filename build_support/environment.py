"""Makes the project's virtual environment and fills it: `environment.py DIRECTORY`.

A machine that has PyTorch already (a GPU image, often without a network) keeps it: the environment
then also sees the packages of the Python it was made with. Elsewhere the version in constraints.txt
is installed. Where .offline/wheels exists (docs/offline.md), wheels come from there alone.
"""

import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WHEELS = ROOT / ".offline" / "wheels"
EXTRAS = ["test", "oracles", "slurm", "history", "gpu", "browser", "lint"]
OFFLINE_EXTRAS = ["test", "gpu"]


def main(directory: str) -> None:
    offline = WHEELS.is_dir()
    host_has_torch = _succeeds(sys.executable, "-c", "import torch")
    venv.create(directory, with_pip=True, clear=True)
    if host_has_torch:
        _show_host_packages(Path(directory))
    python = str(Path(directory).absolute() / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if offline:
        install += ["--no-index", "--find-links", str(WHEELS)]
    if not host_has_torch:
        install += ["--constraint", str(ROOT / "constraints.txt")]
    wanted = requirements(OFFLINE_EXTRAS if offline else EXTRAS)
    if subprocess.run([*install, *wanted]).returncode:
        sys.exit(
            "flashbench: the environment could not be filled (pip's words are above); for a "
            "machine without a network see docs/offline.md"
        )


def requirements(extras: list[str]) -> list[str]:
    """What pyproject.toml asks for: to build, to run, and for the extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = project["build-system"]["requires"] + project["project"]["dependencies"]
    for extra in extras:
        wanted += project["project"]["optional-dependencies"][extra]
    return list(dict.fromkeys(wanted))


def _show_host_packages(directory: Path) -> None:
    """Append the host's site-packages to the path; unlike the system flag, from a venv too."""
    host = sysconfig.get_paths()
    places = dict.fromkeys([host["purelib"], host["platlib"]])
    (site,) = directory.glob("lib/python*/site-packages")
    (site / "host-packages.pth").write_text("".join(f"{place}\n" for place in places))


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0


if __name__ == "__main__":
    main(*sys.argv[1:])
