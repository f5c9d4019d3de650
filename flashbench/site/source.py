"""The source of a site, and whether anything in it has changed."""

import contextlib
import hashlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from flashbench.builds.builder import cache_directory
from flashbench.cost.money import read_prices
from flashbench.file_facts import facts_of
from flashbench.history import commit_record
from flashbench.history.axis import axis
from flashbench.inputs import open_input
from flashbench.revisions import ledger
from flashbench.site.project_name import project_name

_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a history. revision: its tip; first_parent: follow only first parents."""

    repository: Path
    results: Path
    revision: str = "HEAD"
    first_parent: bool = True
    machine: str | None = None


@dataclass(frozen=True, slots=True)
class SourceState:
    """What `gather` reads, and this program, as they are now: found without reading the results, by
    the sizes and times of files, as git finds what changed.

    recent: files that changed so recently that their next change might not show, with the hash of
    each.
    """

    source: Source
    found: str
    recent: dict[Path, str]

    @property
    def key(self) -> str:
        """A key that changes whenever something does; "", no key, if that might not show."""
        return "" if self.recent else self.found

    def key_if_same(self) -> str:
        """The key, now that all was read, if nothing changed since this was made; else ""."""
        if not self.recent:
            return self.found
        now = source_state(self.source)
        same = (now.found, now.recent) == (self.found, {})
        return self.found if same and _hashes(self.recent) == self.recent else ""


def source_state(source: Source) -> SourceState:
    """The state as it is now."""
    digest = hashlib.blake2b(digest_size=16)
    commits = axis(source.repository, source.revision, first_parent=source.first_parent)
    failed = ledger.failures(cache_directory(), source.repository)
    prices, name = read_prices(source.repository), project_name(source.repository)
    known = (source, commits, failed, prices, name)
    digest.update(repr(known).encode("utf-8", "surrogatepass"))
    recent, now = [], time.time()
    for root in (
        _PACKAGE,
        source.results,
        commit_record.path_of(source.results, "", "", "").parent,
    ):
        for folder, folders, files in os.walk(root, followlinks=True):
            folders[:] = sorted(set(folders) - {"__pycache__"})
            for file in sorted(files):
                path = Path(folder, file)
                with contextlib.suppress(OSError):  # a link to nothing
                    facts = facts_of(path)
                    digest.update(repr((str(path), *facts)).encode("utf-8", "surrogatepass"))
                    if not facts.settled(now):
                        recent.append(path)
    return SourceState(source, digest.hexdigest(), _hashes(recent))


def _hashes(paths: Iterable[Path]) -> dict[Path, str]:
    """The hash of each file's content; "" if it cannot be read."""
    found = dict.fromkeys(paths, "")
    for path in found:
        with contextlib.suppress(OSError, ValueError), open_input(path) as file:
            found[path] = hashlib.sha256(file.read()).hexdigest()
    return found
