"""A job: one flashbench command, what it needs, and the limits that it enforces itself."""

import hashlib
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from flashbench.cloud.sources import head_of, write_bundle, write_worktree
from flashbench.files import remove_tree, replace_file
from flashbench.revisions.revision import resolve

_SCRIPTS = ("job.sh", "measure.sh")
FETCH_SECONDS = 300  # that a machine waits for its results to be fetched before it shuts down


@dataclass(frozen=True)
class Limits:
    """Limits that a job enforces itself. seconds: of the job; life: of its machine from the start
    to the job's end, 0 if not rented. grace: from SIGTERM to SIGKILL, in which flashbench saves.
    bucket: a folder on the machine for the results, updated every `every` seconds and at the
    end."""

    seconds: int
    life: int = 0
    grace: int = 60
    every: int = 60
    bucket: str = ""

    def write(self, payload: Path) -> None:
        """Write them beside the parameters of a packed job."""
        replace_file(payload / "limits", _assigned(asdict(self)).encode())


def _assigned(values: Mapping[str, object]) -> str:
    """Shell assignments with quoted values."""
    return "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in values.items())


@dataclass(frozen=True)
class RemoteJob:
    """The job on the machine. command: of flashbench, without its run file.

    run_file: option and name of the run file, ("", "") for a command that has none. revisions:
    those that the command names; worktree: whether it needs the working tree. folder: of
    pyproject.toml in the repository. gate: the revision to gate first, "" for none. budget:
    whether the command takes a --budget, and so a deadline. python: the one on the machine, "" for
    any. extras: of the wheel. off: shut the machine down once the results are fetched, or not
    fetched for FETCH_SECONDS. earlier: run files to resume.
    """

    repository: Path
    command: Sequence[str]
    run_file: tuple[str, str] = ("", "")
    revisions: Sequence[str] = ()
    worktree: bool = False
    folder: str = "."
    gate: str = ""
    budget: bool = False
    python: str = ""
    extras: str = ""
    off: bool = False
    wheels: Sequence[Path] = ()
    earlier: Sequence[Path] = ()

    def parameters(self) -> str:
        """Shell assignments for the scripts, with quoted values."""
        values = {
            "head": head_of(self.repository).commit,
            "folder": self.folder,
            "gate": self.gate,
            "budget": "yes" if self.budget else "",
            "python": self.python,
            "extras": self.extras,
            "off": FETCH_SECONDS if self.off else "",
        }
        return f"{_assigned(values)}command=({self._typed()})\n"

    def _typed(self) -> str:
        flag, name = self.run_file
        words = shlex.join(self.command)
        return f'{words} {flag} "$PWD/results/"{shlex.quote(name)}' if flag else words

    def pack(self, target: Path) -> str:
        """Write everything the machine needs into the new folder `target`; returns a hash of the
        measurement and its sources."""
        remove_tree(target)
        target.mkdir(parents=True, mode=0o700)
        for name in _SCRIPTS:
            shutil.copy(Path(__file__).with_name(name), target / name)
        for folder, files in (("wheels", self.wheels), ("earlier", self.earlier)):
            (target / folder).mkdir()
            for file in files:
                shutil.copy(file, target / folder / file.name)
        head = head_of(self.repository).commit
        write_bundle(self.repository, head, self.revisions, target / "sources.bundle")
        tree = write_worktree(self.repository, target / "worktree.tar") if self.worktree else ""
        replace_file(target / "parameters", self.parameters().encode())
        commits = [resolve(self.repository, text).commit for text in (head, *self.revisions)]
        what = [str(self.repository), self.folder, *self.command, *commits, tree]
        return hashlib.sha256("\0".join(what).encode(errors="surrogateescape")).hexdigest()
