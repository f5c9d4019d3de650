"""The source of a site, and whether anything in it has changed."""

import contextlib
import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from flashbench.builds.builder import cache_directory
from flashbench.cost.money import read_prices
from flashbench.history import commit_record
from flashbench.history.axis import axis
from flashbench.revisions import ledger
from flashbench.site.project_name import project_name

_SETTLED = 2.0  # seconds after which a file's next change has another time on any file system
_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a history. revision: its tip; first_parent: follow only first parents."""

    repository: Path
    results: Path
    revision: str = "HEAD"
    first_parent: bool = True
    machine: str | None = None


def inputs_key(source: Source) -> str:
    """A key that changes whenever something does that `gather` reads, or this program; found
    without reading the results: by the sizes and times of files, as git finds what changed.

    "", which is no key, if a file changed so recently that its next change might show in neither.
    """
    digest = hashlib.blake2b(digest_size=16)
    commits = axis(source.repository, source.revision, first_parent=source.first_parent)
    failed = ledger.failures(cache_directory(), source.repository)
    prices, name = read_prices(source.repository), project_name(source.repository)
    known = (source, commits, failed, prices, name)
    digest.update(repr(known).encode("utf-8", "surrogatepass"))
    newest = 0
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
                    found = path.stat()
                    newest = max(newest, found.st_mtime_ns, found.st_ctime_ns)
                    facts = (str(path), found.st_size, found.st_mtime_ns, found.st_ctime_ns)
                    digest.update(repr(facts).encode("utf-8", "surrogatepass"))
    return digest.hexdigest() if newest < (time.time() - _SETTLED) * 1e9 else ""
