"""Fill a virtual environment, creating it if missing: `environment.py DIRECTORY GROUP...`.

A group is `build` (packages that build the extension), `run` (packages that flashbench needs) or an
extra of pyproject.toml. Installed packages stay.

If the machine already has PyTorch (a GPU image, often without a network), it is kept: the
environment then also sees the packages of the Python that created it. Otherwise the version in
constraints.txt is installed. If .offline/wheels exists (docs/offline.md), wheels come only from
there.
"""

import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Iterable
from pathlib import Path

import progress

ROOT = Path(__file__).resolve().parent.parent
WHEELS = ROOT / ".offline" / "wheels"
OFFLINE_EXTRAS = ["test", "gpu"]  # the Python that the wheels are for
HOST_PACKAGES = "host-packages.pth"


def main(directory: str, *groups: str) -> None:
    offline = WHEELS.is_dir()
    python = str(Path(directory).absolute() / "bin" / "python")
    if not _is_usable(python):
        venv.create(directory, with_pip=True, clear=True)
        if "run" in groups and _succeeds(sys.executable, "-c", "import torch"):
            _show_host_packages(Path(directory))
    # Compiling modules that are never imported would take longer than all the rest.
    install = [python, "-m", "pip", "install", "--no-compile", "--disable-pip-version-check"]
    if offline:
        install += ["--no-index", "--find-links", str(WHEELS)]
        groups = tuple(name for name in groups if name in ("build", "run", *OFFLINE_EXTRAS))
    if not list(Path(directory).glob(f"lib/python*/site-packages/{HOST_PACKAGES}")):
        install += ["--constraint", str(ROOT / "constraints.txt")]
    if progress.run([*install, *requirements(groups)]):
        sys.exit(
            "flashbench: the environment could not be filled (pip's words are above); for a "
            "machine without a network see docs/offline.md"
        )


def requirements(groups: Iterable[str]) -> list[str]:
    """The requirements of these groups in pyproject.toml."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    known = document["project"]["optional-dependencies"] | {
        "build": document["build-system"]["requires"],
        "run": document["project"]["dependencies"],
    }
    return list(dict.fromkeys(text for name in groups for text in known[name]))


def _is_usable(python: str) -> bool:
    """Whether a complete environment of this Python exists."""
    version = f"import pip, sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    return Path(python).exists() and _succeeds(python, "-c", version)


def _show_host_packages(directory: Path) -> None:
    """Append the host's site-packages to the path; unlike the system flag, works from a venv
    too."""
    host = sysconfig.get_paths()
    places = dict.fromkeys([host["purelib"], host["platlib"]])
    (site,) = directory.glob("lib/python*/site-packages")
    (site / HOST_PACKAGES).write_text("".join(f"{place}\n" for place in places))


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0


if __name__ == "__main__":
    main(*sys.argv[1:])
