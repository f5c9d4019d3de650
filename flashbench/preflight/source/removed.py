"""Files that git has or had but the working tree lacks."""

from collections.abc import Iterator
from functools import lru_cache

from flashbench.builds.content import UNITS
from flashbench.preflight.source.functions import SourceFile
from flashbench.preflight.source.tree import SourceTree
from flashbench.revisions import git

COMMITS = 5000  # of history to search
_MOST = 400  # units to read from it
_COMMIT = "commit "


@lru_cache(maxsize=1)
def removed_files(tree: SourceTree) -> dict[str, str]:
    """Find each with the revision that has it, latest removal first; "" means the index."""
    here = frozenset(tree.files)
    found = dict.fromkeys(sorted((tree.tracked or frozenset()) - here), "")
    found |= dict.fromkeys(sorted((tree.committed or frozenset()) - here - found.keys()), "HEAD")
    if not tree.committed:
        return found
    asked = ("--no-renames", "--diff-filter=D", "--name-only", f"--format={_COMMIT}%h")
    try:
        log = git.listed(tree.root, "log", "-z", f"--max-count={COMMITS}", "--relative", *asked)
    except git.GitError:
        return found  # a partial clone may lack the history
    revision = "HEAD"
    for entry in log:
        # git puts a commit's line before its first name.
        for line in entry.split("\n"):
            if line.startswith(_COMMIT):
                revision = f"{line.removeprefix(_COMMIT)}^"
            elif line and line not in here:
                found.setdefault(line, revision)
    return found


def is_or_was(tree: SourceTree, file: str) -> bool:
    """Whether a file is here, or git still has it."""
    known = file in (tree.tracked or ()) or file in (tree.committed or ())
    return known or (tree.root / file).is_file()


@lru_cache(maxsize=1)
def removed_units(tree: SourceTree) -> dict[str, SourceFile]:
    """Texts of removed units, latest first."""
    wanted = [(file, at) for file, at in removed_files(tree).items() if file.endswith(UNITS)]
    found = {}
    for (file, _), text in zip(wanted[:_MOST], texts_at(tree, wanted[:_MOST]), strict=False):
        found[file] = SourceFile(text)
    return found


def texts_at(tree: SourceTree, wanted: list[tuple[str, str]]) -> Iterator[str]:
    """Read files at revisions from git; "" for what it cannot give."""
    names = "".join(f"{at}:./{file}\n" for file, at in wanted if "\n" not in file)
    try:
        answer = git.ask(tree.root, "cat-file", "--batch", sent=names.encode()) if names else b""
    except git.GitError:
        return
    place = 0
    while place < len(answer):
        end = answer.index(b"\n", place)
        heading, place = answer[place:end].split(), end + 1
        if len(heading) == 3 and heading[1] == b"blob":
            size = int(heading[2])
            yield answer[place : place + size].decode(errors="replace")
            place += size + 1
        else:
            yield ""
