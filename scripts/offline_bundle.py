"""Pack what a GPU machine without a network needs into one file: sources at HEAD and wheels.

    python scripts/offline_bundle.py [--python 3.12] [--have torch,numpy,...] [-o FILE]

There: unpack it and run `make gpu`. The wheels are for that machine's Python and Linux x86-64;
packages named by --have are expected there already, with everything they need.
"""

import argparse
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from email.parser import BytesParser
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "build_support"))
from environment import OFFLINE_EXTRAS, requirements  # noqa: E402  (found through the line above)

# What an image made for PyTorch holds; all of them are large or tied to its CUDA.
HAVE = "torch,numpy,scipy,setuptools,cmake,ninja,pybind11"

# pip matches the glibc version in a wheel's name exactly.
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (34, 28, 27, 24, 17, 12, 5)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default="3.12", help="Python of that machine")
    parser.add_argument("--have", default=HAVE, help="packages it has already")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "flashbench-offline.tar.gz")
    parser.add_argument("--wheels-only", type=Path, help="only fill this directory with wheels")
    options = parser.parse_args()
    have = {name.strip().lower() for name in options.have.split(",")}
    wanted = [
        text for text in requirements(["build", "run", *OFFLINE_EXTRAS]) if _name(text) not in have
    ]
    if options.wheels_only:
        download(wanted, have, options.python, options.wheels_only)
        return
    with tempfile.TemporaryDirectory() as temporary:
        wheels = Path(temporary) / "wheels"
        download(wanted, have, options.python, wheels)
        pack(wheels, options.output)
    print(f"{options.output}: copy it there, then\n  tar xf {options.output.name}")
    print("  make -C flashbench-offline gpu")


def download(wanted: list[str], have: set[str], python: str, target: Path) -> None:
    """Fetch wheels of `wanted` and their dependencies, except packages that are there already."""
    target.mkdir(parents=True, exist_ok=True)
    pending, done = list(wanted), set(have)
    while pending:
        requirement = pending.pop()
        if _name(requirement) in done:
            continue
        done.add(_name(requirement))
        before = set(target.glob("*.whl"))
        flags = ["--no-deps", "--only-binary=:all:", "--implementation", "cp", "--quiet"]
        platforms = [word for name in PLATFORMS for word in ("--platform", name)]
        fetched = subprocess.run(
            [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", *flags,
             "--python-version", python, *platforms, "-d", str(target), requirement],
        )  # fmt: skip
        if fetched.returncode:
            sys.exit(
                f"flashbench: no wheel of {requirement} for Python {python} (pip's words are "
                "above); name it in --have if that machine has it"
            )
        for wheel in set(target.glob("*.whl")) - before:
            pending += needs(wheel, python)


def needs(wheel: Path, python: str) -> list[str]:
    """The requirements in a wheel's metadata that apply to that machine, without extras."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", n)]
        metadata = BytesParser().parsebytes(archive.read(name))
    there = {
        "extra": "",
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": "x86_64",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "os_name": "posix",
    }
    found = [Requirement(text) for text in metadata.get_all("Requires-Dist") or []]
    return [
        f"{requirement.name}{requirement.specifier}"
        for requirement in found
        if requirement.marker is None or requirement.marker.evaluate(there)
    ]


def pack(wheels: Path, output: Path) -> None:
    """One archive: the tracked sources at HEAD, its commit, and the wheels."""
    archive = ["git", "-C", str(ROOT), "archive", "--prefix=flashbench-offline/", "HEAD"]
    with tempfile.TemporaryFile() as sources:
        subprocess.run(archive, stdout=sources, check=True)
        sources.seek(0)
        with tarfile.open(fileobj=sources) as tracked, tarfile.open(output, "w:gz") as tar:
            for member in tracked.getmembers():
                tar.addfile(member, tracked.extractfile(member) if member.isreg() else None)
            for wheel in sorted(wheels.glob("*.whl")):
                tar.add(wheel, f"flashbench-offline/.offline/wheels/{wheel.name}")
            _add_commit(tar)


def _add_commit(tar: tarfile.TarFile) -> None:
    """Add the commit's hash, which the library needs to know and cannot get from git there."""
    head = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()
    content = json.dumps({"commit": commit, "dirty": False}).encode()
    member = tarfile.TarInfo("flashbench-offline/commit.json")
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def _name(requirement: str) -> str:
    return (
        re.split(r"[^A-Za-z0-9._-]", requirement.strip(), maxsplit=1)[0].lower().replace("_", "-")
    )


if __name__ == "__main__":
    main()
