"""asv environment plugin: `"plugins": [".flashbench.history.asv_env"]` in asv.conf.json.

A virtual environment without pip that sees the packages of the Python that runs asv (torch among
them) after its own, so that nothing is downloaded and the commit's package wins over a copy of
flashbench that is installed there. A commit is installed as its own Python package with its own
extension from the build cache; commits with equal sources share one build.

Written against asv 0.6.6, whose hooks are the methods overridden here.
"""

import logging
import os
import shutil
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from asv import util
from asv.console import log
from asv.environment import Environment, EnvironmentUnavailable
from asv.machine import Machine, MachineCollection

from flashbench.builds import Build, build, cache_directory, toolchain
from flashbench.builds.delivered import copy_delivered
from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.history import record
from flashbench.inputs import reason
from flashbench.revisions import git, ledger

PACKAGE = "flashbench"
PTH = "packages-of-the-host.pth"
RETRY = "FLASHBENCH_RETRY_FAILED"  # set to 1 to build again what failed before


class FlashbenchEnvironment(Environment):  # type: ignore[misc]  # asv has no types
    """The running Python with its packages, and one commit of flashbench."""

    tool_name = "flashbench"
    matches_python_fallback = False

    def __init__(self, conf: Any, python: str, requirements: Any, tagged_env_vars: Any) -> None:
        if not self.matches(python):
            raise EnvironmentUnavailable(
                f"python {python} is not the one that runs asv ({_python_version()}); "
                'leave "pythons" out of asv.conf.json'
            )
        if requirements:
            raise EnvironmentUnavailable(
                "the flashbench environment installs no packages; take "
                f"{', '.join(requirements)} out of asv.conf.json's matrix"
            )
        self._results = Path(conf.results_dir)
        self._repository = Path(conf.repo)
        self._machine = _machine_name(sys.argv)
        self._built: Build | None = None
        # Its subclasses set these for the base class, which asks for its name before it would.
        self._python, self._requirements = python, requirements
        super().__init__(conf, python, requirements, tagged_env_vars)

    @classmethod
    def matches(cls, python: str) -> bool:
        return python == _python_version()

    @property
    def _site(self) -> Path:
        return Path(self._path) / "lib" / f"python{_python_version()}" / "site-packages"

    def check_presence(self) -> bool:
        """Whether the environment is there and still sees the packages of this host."""
        try:
            same = (self._site / PTH).read_text() == _host_packages()
            self.run_executable("python", ["-c", "pass"])
        except (OSError, util.ProcessError):
            return False
        return same

    def _setup(self) -> None:
        log.info(f"Creating an environment for {self.name} with the packages of {sys.prefix}")
        venv.create(self._path, with_pip=False, symlinks=True, clear=True)
        # Plain paths: the .pth files that lie there, such as one of an editable install of
        # flashbench, are not processed.
        (self._site / PTH).write_text(_host_packages())

    def _get_installed_commit_hash(self) -> str | None:
        commit: str | None = super()._get_installed_commit_hash()
        if commit is None:
            return None
        try:
            built_with = record.read(self._record_path(commit)).build.toolchain
        except InvalidInputError:
            return None  # without its record a commit cannot be proven: install it again
        return commit if built_with == toolchain.describe() else None

    def _set_commit_hash(self, commit_hash: str | None) -> None:
        super()._set_commit_hash(commit_hash)
        self._global_env_vars.pop(record.VARIABLE, None)
        if commit_hash:
            self._global_env_vars[record.VARIABLE] = str(self._record_path(commit_hash))

    def _record_path(self, commit: str) -> Path:
        return record.path_of(self._results, self._machine, commit, self.name)

    def _uninstall_project(self) -> None:
        self._set_installed_commit_hash(None)
        shutil.rmtree(self._site / PACKAGE, ignore_errors=True)

    def _build_project(self, repo: Any, commit_hash: str, build_dir: str) -> None:
        retry = os.environ.get(RETRY) == "1"
        name = repo.get_decorated_hash(commit_hash, 8)
        cache, timeout = cache_directory(), self._install_timeout
        try:
            made = build(Path(build_dir), cache, retry_failed=retry, timeout=timeout)
        except NotMeasuredError as error:
            raise util.UserError(str(error)) from None
        except OSError as error:
            raise util.UserError(
                f"the build cache {cache} cannot be used ({reason(error)}); set FLASHBENCH_CACHE"
            ) from None
        status, failure = made.status, "" if made.status == "built" else made.headline
        if not failure and not (Path(build_dir) / PACKAGE / "__init__.py").is_file():
            status, failure = "import error", f"import error: no Python package {PACKAGE}/"
        kept = record.CommitRecord(
            commit=commit_hash, environment=self.name, status=status, build=made, failure=failure
        )
        record.write(self._record_path(commit_hash), kept)
        if made.directory:  # else it was for want of memory or disk
            _keep_in_ledger(cache, self._repository, commit_hash, kept)
        with _said():
            if failure:
                again = f" (known; {RETRY}=1 tries again)" if made.reused else ""
                log.warning(f"{name} does not build: {failure}{again}")
            elif made.reused:
                log.info(f"{name}: build {made.key[:12]} reused, same sources and toolchain")
            else:
                log.info(f"{name}: built {made.key[:12]} in {made.seconds:.1f} s")
        if failure:
            raise util.ProcessError(["build", name], 1, "", failure)
        self._built = made

    def _install_project(self, repo: Any, commit_hash: str, build_dir: str) -> None:
        assert self._built is not None
        target = self._site / PACKAGE
        shutil.copytree(Path(build_dir) / PACKAGE, target, symlinks=True)
        copy_delivered(Path(self._built.directory) / "lib" / PACKAGE, target)

    def run(self, args: list[str], **kwargs: Any) -> Any:
        """Run Python in the environment; say the last line of what asv would hide of a failure."""
        done = self.run_executable("python", args, **kwargs)
        if isinstance(done, tuple) and done[2]:
            lines = [line.strip() for line in done[0].splitlines() if line.strip()]
            if lines and lines[-1].startswith("asv: "):  # its own word, below the reason
                lines.pop()
            reason = lines[-1] if lines else "no reason given"
            log.warning(f"not measured: {reason.removeprefix(_NOT_MEASURED)}")
        return done


_NOT_MEASURED = f"{NotMeasuredError.__module__}.{NotMeasuredError.__name__}: "


def _keep_in_ledger(cache: Path, repository: Path, commit: str, kept: record.CommitRecord) -> None:
    """`flashbench builds` lists what asv built, where the repository is on this machine."""
    with suppress(InvalidInputError, OSError):
        tried = ledger.LedgerEntry(
            commit=commit,
            status=kept.status,
            reason=kept.build.reason or kept.failure,
            stage="build",
            build=kept.build.key,
            toolchain=ledger.digest(kept.build.toolchain),
            seconds=kept.build.seconds,
            tried=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        ledger.record(cache, git.root_of(repository), tried)


@contextmanager
def _said() -> Iterator[None]:
    """Let our lines through: asv shows warnings only while it builds."""
    with log.set_level(logging.INFO):
        yield


def _python_version() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def _host_packages() -> str:
    """The directories of packages of the Python that runs asv, one a line."""
    found = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    return "".join(f"{Path(path).absolute()}\n" for path in dict.fromkeys(found))


def _machine_name(arguments: list[str]) -> str:
    """The machine asv stores results for; it tells its environments neither name nor option."""
    name = Machine.get_unique_machine_name()
    for option, value in zip(arguments, [*arguments[1:], ""], strict=True):
        if option in ("--machine", "-m") and value:
            name = value
        elif option.startswith("--machine="):
            name = option.partition("=")[2]
    with suppress(util.UserError):  # not described yet: asv asks, and offers this name
        name = MachineCollection.load(name)["machine"]
    return str(name)
