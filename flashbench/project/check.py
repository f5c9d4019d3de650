"""Whether a built revision can be imported: tried in a process of its own, as a worker would."""

import contextlib
import json
import os
import re
import sys
from pathlib import Path

import flashbench
from flashbench.build import diagnosis, running
from flashbench.build.content import libraries
from flashbench.build.diagnosis import Status
from flashbench.build.recipe import PROBE_TIMEOUT_SECONDS, signal_name
from flashbench.errors import NotMeasuredError

_BOOTSTRAP = (
    "import sys; sys.path.insert(0, sys.argv[1]); from flashbench.project.check import main; "
    "del sys.path[0]; main(*sys.argv[2:])"
)
_MARK = "flashbench-check:"  # what a package prints when it is imported is told from our answer
_MISSING = (
    re.compile(r"No module named '([\w.]+)'"),
    re.compile(r"cannot import name '(\w+)' from (?:partially initialized module )?'([\w.]+)'"),
)


def check(site: Path, spec: str, log: Path) -> tuple[Status, str]:
    """("built", "") if the callable can be imported from a site, else how it fails and why.

    log: a file to write, for what the import prints.
    """
    root = str(Path(flashbench.__file__).parents[1])
    command = [sys.executable, "-P", "-c", _BOOTSTRAP, root, str(site), spec]
    code = running.run(command, site, log, running.environment(), PROBE_TIMEOUT_SECONDS)
    if code is None:
        return "import error", f"loading took longer than {PROBE_TIMEOUT_SECONDS:g} s"
    if code < 0:
        return "import error", f"loading ended with {signal_name(-code)}"
    lines = log.read_bytes().decode(errors="replace").splitlines()
    answers = [line for line in lines if line.startswith(_MARK)]
    if not answers:
        last = next((line for line in reversed(lines) if line.strip()), "")
        return "import error", f"loading ended with exit code {code}: {last[:300]}"
    error = json.loads(answers[-1].removeprefix(_MARK))
    return _status(error, site, spec) if error else ("built", "")


def main(site: str, spec: str) -> None:
    """Print null, or the line that says why the callable cannot be imported."""
    from flashbench.project.load import load_site

    with contextlib.suppress(ImportError):
        import torch  # noqa: F401  (as in a worker: extensions find torch's libraries through it)
    error = None
    try:
        load_site(Path(site), spec)
    except NotMeasuredError as failed:
        error = str(failed)
    print(f"\n{_MARK}{json.dumps(error)}", flush=True)
    os._exit(0)  # what it does when it ends is not asked


def _status(error: str, site: Path, spec: str) -> tuple[Status, str]:
    error = error.replace(f"{site}/", "")
    if wanted := _missing(error, spec):
        built = [path.relative_to(site).as_posix() for path in libraries(site)]
        if built and not any(_is_module(name, wanted) for name in built):
            return "wrong module name", f"expected {wanted}, got {', '.join(built)}"
    status, reason = diagnosis.diagnose(error)
    return ("import error", error) if status == "build error" else (status, reason)


def _missing(error: str, spec: str) -> str | None:
    """The module of the project itself that the error says is not there."""
    absent, unknown = (pattern.search(error) for pattern in _MISSING)
    name = absent[1] if absent else f"{unknown[2]}.{unknown[1]}" if unknown else ""
    package = spec.partition(":")[0].partition(".")[0]
    return name if name.partition(".")[0] == package else None


def _is_module(library: str, name: str) -> bool:
    return library.partition(".")[0] == name.replace(".", "/")
