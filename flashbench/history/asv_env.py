"""asv environment plugin: `"plugins": [".flashbench.history.asv_env"]` in asv.conf.json.

A virtual environment without pip whose packages precede those of the Python that runs asv (torch
among them): nothing is downloaded, and the commit's package wins over an installed flashbench.
Commits are prepared in the build cache, as by every other command, and imported from there; commits
with equal sources share one build.

Written against asv 0.6.6, whose hooks are the methods overridden here.
"""

import atexit
import logging
import os
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from asv import util
from asv.console import log
from asv.environment import Environment, EnvironmentUnavailable
from asv.machine import Machine, MachineCollection

from flashbench.builds import cache_directory
from flashbench.candidates import OUR_CALLABLE
from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.history import commit_record
from flashbench.history.commit import REPOSITORY
from flashbench.revisions import Built, Project, Revision
from flashbench.revisions.check import Checker
from flashbench.revisions.prepare import prepare

# Python reads them in this order. Environments of older versions, with the commit copied into them,
# lack these files and are created again.
COMMIT, HOST = "1-commit.pth", "2-host.pth"
RETRY = "FLASHBENCH_RETRY_FAILED"  # set to 1 to retry failed builds


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
        self._repo = Path(conf.repo).absolute()
        self._checker = Checker()  # its server imports torch once for all commits
        atexit.register(self._checker.close)
        self._machine = _machine_name(sys.argv)
        # Subclasses must set these: the base class uses its name before it sets them itself.
        self._python, self._requirements = python, requirements
        super().__init__(conf, python, requirements, tagged_env_vars)

    @classmethod
    def matches(cls, python: str) -> bool:
        return python == _python_version()

    @property
    def _repository(self) -> Path:
        """The user's repository if it is on this machine, else asv's checkout."""
        return self._repo if self._repo.is_dir() else Path(self._build_root)

    @property
    def _site(self) -> Path:
        return Path(self._path) / "lib" / f"python{_python_version()}" / "site-packages"

    def check_presence(self) -> bool:
        """Whether the environment exists and still sees this host's packages."""
        try:
            same = (self._site / HOST).read_text() == _host_packages()
            self.run_executable("python", ["-c", "pass"])
        except (OSError, util.ProcessError):
            return False
        return same

    def _setup(self) -> None:
        log.info(f"Creating an environment for {self.name} with the packages of {sys.prefix}")
        venv.create(self._path, with_pip=False, symlinks=True, clear=True)
        # As plain paths, because .pth files in them, such as that of an editable install of
        # flashbench, are then not processed.
        (self._site / HOST).write_text(_host_packages())

    def _get_installed_commit_hash(self) -> str | None:
        """None, so that asv has every commit prepared again: a cached build takes milliseconds, and
        the toolchain may have changed or the cache been pruned."""
        return None

    def _set_commit_hash(self, commit_hash: str | None) -> None:
        super()._set_commit_hash(commit_hash)
        self._global_env_vars[REPOSITORY] = str(self._repository)
        self._global_env_vars.pop(commit_record.VARIABLE, None)
        if commit_hash:
            self._global_env_vars[commit_record.VARIABLE] = str(self._record_path(commit_hash))

    def _record_path(self, commit: str) -> Path:
        return commit_record.path_of(self._results, self._machine, commit, self.name)

    def _uninstall_project(self) -> None:
        (self._site / COMMIT).unlink(missing_ok=True)

    def _build_project(self, repo: Any, commit_hash: str, build_dir: str) -> None:
        name = repo.get_decorated_hash(commit_hash, 8)
        try:
            built = prepare(
                Project(self._repository, OUR_CALLABLE),
                Revision(commit_hash, commit_hash),
                cache_directory(),
                retry_failed=os.environ.get(RETRY) == "1",
                timeout=self._install_timeout,
                checker=self._checker,
            )
        except NotMeasuredError as error:
            raise util.UserError(str(error)) from None
        failure = self._keep(built)
        with _shown():
            if failure:
                again = f" (known; {RETRY}=1 tries again)" if built.reused else ""
                log.warning(f"{name} does not build: {failure.splitlines()[0]}{again}")
            elif built.build.reused:
                log.info(f"{name}: build {built.build.key[:12]} reused, same sources and toolchain")
            else:
                log.info(f"{name}: built {built.build.key[:12]} in {built.build.seconds:.1f} s")
        if failure:
            raise util.ProcessError(["build", name], 1, "", failure)
        (self._site / COMMIT).write_text(f"{built.require()}\n")

    def _keep(self, built: Built) -> str:
        """Write the commit's record and return why it cannot be measured. A record of wrong results
        stays until the commit is measured again."""
        path = self._record_path(built.revision.commit)
        if not built.outcome.failure:
            with suppress(InvalidInputError):  # none yet
                known = commit_record.read(path)
                if known.outcome.status == "wrong result" and known.build.key == built.build.key:
                    return ""
        commit_record.write(path, commit_record.of_built(built, self.name))
        return built.outcome.failure

    def _install_project(self, repo: Any, commit_hash: str, build_dir: str) -> None:
        """Nothing to do: the commit is imported from the build cache."""

    def run(self, args: list[str], **kwargs: Any) -> Any:
        """Run Python in the environment; log the last line of a failure, which asv would hide."""
        done = self.run_executable("python", args, **kwargs)
        if isinstance(done, tuple) and done[2]:
            lines = [line.strip() for line in done[0].splitlines() if line.strip()]
            if lines and lines[-1].startswith("asv: "):  # asv's own line, after the reason
                lines.pop()
            reason = lines[-1] if lines else "no reason given"
            log.warning(f"not measured: {reason.removeprefix(_NOT_MEASURED)}")
        return done


_NOT_MEASURED = f"{NotMeasuredError.__module__}.{NotMeasuredError.__name__}: "


@contextmanager
def _shown() -> Iterator[None]:
    """Show our log lines: asv itself shows only warnings while it builds."""
    with log.set_level(logging.INFO):
        yield


def _python_version() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def _host_packages() -> str:
    """The package directories of the Python that runs asv, one per line."""
    found = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    return "".join(f"{Path(path).absolute()}\n" for path in dict.fromkeys(found))


def _machine_name(arguments: list[str]) -> str:
    """The machine whose results asv stores; environments must find it out from the arguments."""
    name = Machine.get_unique_machine_name()
    for option, value in zip(arguments, [*arguments[1:], ""], strict=True):
        if option in ("--machine", "-m") and value:
            name = value
        elif option.startswith("--machine="):
            name = option.partition("=")[2]
    with suppress(util.UserError):  # not described yet: asv asks, and suggests this name
        name = MachineCollection.load(name)["machine"]
    return str(name)
