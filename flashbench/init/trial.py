"""Try settings and an adapter on the working tree and on commits."""

import re
from dataclasses import dataclass
from pathlib import Path

from flashbench.builds import cache_directory
from flashbench.errors import InvalidInputError
from flashbench.init import adapter_text
from flashbench.init.attention_functions import Function
from flashbench.init.build_system import FoundBuild, settings
from flashbench.revisions import WORKTREE, Built, read, resolve
from flashbench.revisions.check import Checker
from flashbench.revisions.prepare import prepare

_DTYPE = re.compile(r"\b(?:fp32|fp16|bf16)\b")


@dataclass
class Trial:
    """A repository, what was found in it, and what is written for it. checker: for all tries."""

    root: Path
    function: Function
    build: FoundBuild
    checker: Checker

    def __post_init__(self) -> None:
        file = self.root / "pyproject.toml"
        self._before = file.read_text(encoding="utf-8") if file.exists() else ""

    @property
    def adapter(self) -> Path:
        return self.root / self._path / "fb.py"

    @property
    def _path(self) -> str:
        return self.build.path or self.function.path

    @property
    def unknown(self) -> list[str]:
        """Parameters that the adapter cannot pass before an edit."""
        return adapter_text.unknown(self.function)

    @property
    def is_likely(self) -> bool:
        """Whether it is worth a try without an edit: no test's or benchmark's own function."""
        return not self.unknown and not self.function.is_aside

    def write(self, cases: dict[str, list[str] | str], *, transposed: bool = False) -> None:
        """Write the adapter and the settings, after what pyproject.toml says already."""
        text = adapter_text.adapter(self.function, self.build.shared_object, transposed=transposed)
        self.adapter.parent.mkdir(exist_ok=True)
        self.adapter.write_text(text, encoding="utf-8")
        name = self.build.path or self.adapter.relative_to(self.root).as_posix()
        table = settings(self.build, self._path, name, cases)
        before = self._before.rstrip("\n") + "\n\n" if self._before.strip() else ""
        (self.root / "pyproject.toml").write_text(before + table, encoding="utf-8")

    def measurable(self) -> Built:
        """The working tree, built and checked: with inputs in SDPA's layout, else as (batch,
        length, heads, head dim), else in the first as it failed. Writes the files accordingly."""
        self.write({})
        first = self.tried(WORKTREE)
        layout: dict[str, list[str] | str] = {}
        found = first
        if first.status == "wrong result" and self.function.module:
            layout = {"layout": "bshd"}
            self.write(layout, transposed=True)
            found = self.tried(WORKTREE)
        if found.status != "built":
            self.write({})
            return first
        cases = {**_cases(found), **layout}
        if cases != layout:
            self.write(cases, transposed=bool(layout))
        return found

    def undo(self) -> None:
        """Leave the repository as it was found."""
        self.adapter.unlink()
        file = self.root / "pyproject.toml"
        if self._before:
            file.write_text(self._before, encoding="utf-8")
        else:
            file.unlink()

    def at(self, text: str) -> Built | None:
        """A commit, built and checked; None if there is none."""
        try:
            return self.tried(text)
        except InvalidInputError:
            return None

    def tried(self, text: str) -> Built:
        project = read(self.root)
        revision = resolve(project.repository, text)
        return prepare(project, revision, cache_directory(), stage="correct", checker=self.checker)


def _cases(built: Built) -> dict[str, list[str] | str]:
    """What it refuses is not measured: its dtypes and masks, if not all were right."""
    right, _, refused = built.outcome.checked.partition("; refused: ")
    found: dict[str, list[str] | str] = {}
    if dtypes := sorted(set(_DTYPE.findall(refused)) - set(_DTYPE.findall(right))):
        kept = [one for one in ("fp32", "fp16", "bf16") if one in right and one not in dtypes]
        found["dtype"] = kept
    if "causal" not in right:
        found["causal"] = "full"
    return found
