"""What git knows of one file: whether a clean clone gets it, which revision has it, the fix."""

import os
import shlex
from functools import lru_cache
from pathlib import Path, PurePosixPath

from flashbench.preflight.fixes import write
from flashbench.preflight.source.removed import COMMITS, removed_files
from flashbench.preflight.source.tree import SourceTree
from flashbench.pyproject import up_to_repository
from flashbench.revisions import git

_LFS = "version https://git-lfs"


@lru_cache(maxsize=1 << 16)
def absent_from_clone(tree: SourceTree, file: str) -> tuple[str, str] | None:
    """Say why a clean clone of HEAD lacks a file that is here, and the fix; None if it has the
    file, or if git cannot tell."""
    if tree.tracked is None or tree.committed is None or file in tree.of_modules:
        return None
    if not _is_in_repository(tree.root, file):
        name = shlex.quote(PurePosixPath(file).name)
        fix = f"cp {shlex.quote(file)} . && git add {name}  # then name it there"
        return "is outside of the repository: no clone has it", fix
    if not _is_tracked(tree, file):
        rule = _ignore_rule(tree, file)
        reason = f"git ignores it ({rule})" if rule else "git does not track it"
        return f"is on this machine alone: {reason}", _how_to_add(tree, file, forced=bool(rule))
    path = tree.root / file
    if path.is_symlink() and not path.resolve().is_relative_to(tree.root.resolve()):
        copy = f"cp --remove-destination {shlex.quote(os.path.realpath(path))} {shlex.quote(file)}"
        return "is a link out of the repository", f"{copy} && {_commit(file)}"
    if tree.read(file).text.startswith(_LFS):
        return "is a Git LFS pointer, not the file", f"git lfs pull --include {shlex.quote(file)}"
    inside = not file.startswith(("../", "/"))
    if tree.committed and inside and file not in tree.committed:
        return "is staged, not committed", _commit(file)
    return None


def outermost_untracked(tree: SourceTree, file: str) -> str:
    """The outermost folder around an untracked file from which git tracks nothing, else the
    file."""
    if tree.tracked is None or file in tree.tracked or file not in tree.files:
        return file
    for folder in reversed(PurePosixPath(file).parents[:-1]):
        if not any(one.startswith(f"{folder}/") for one in tree.tracked):
            return str(folder)
    return file


def how_to_get(tree: SourceTree, file: str, *others: str) -> tuple[str, str]:
    """Say where git has a file that is missing here, and the command that brings it back: the last
    revision that has it, or that there is none. others: removed together with it."""
    name, removed = shlex.join([file, *others]), removed_files(tree)
    if os.path.islink(tree.root / file):  # noqa: PTH114 - also for names that no file can have
        return _of_link(tree, file)
    inside = file if file in removed else _inside(tree, file)
    if inside:
        revision = removed[inside]
        if revision in ("", "HEAD"):
            source = f"{revision} -- " if revision else "-- "
            return "deleted here; git still has it", f"git checkout {source}{name}"
        commit = revision.removesuffix("^")
        return f"removed by commit {commit}", _check_out(revision, file, *others)
    if revision := _elsewhere(tree).get(file, ""):
        return f"commit {revision} has it, HEAD's history does not", _check_out(revision, file)
    if os.path.lexists(tree.root / ".git/shallow"):
        return "not in the history that this shallow clone has", "git fetch --unshallow"
    if tree.tracked is None:
        return "", write(file)
    return "never in git", write(file)


def _inside(tree: SourceTree, folder: str) -> str:
    """The first missing file of a folder that git has or had; "" if there is none."""
    return next((one for one in removed_files(tree) if one.startswith(f"{folder}/")), "")


def had(tree: SourceTree, path: str) -> bool:
    """Whether git has or had a file whose path ends with this one, or the folder."""
    return bool(found_in_git(tree, path) or _inside(tree, path))


def gone_folder(tree: SourceTree, file: str) -> str:
    """The outermost folder around a missing file that was removed as a whole, with other files of
    its revision; "" if there is none."""
    removed = removed_files(tree)
    for folder in reversed(PurePosixPath(file).parents[:-1]) if file in removed else ():
        place = tree.root / folder  # git leaves an empty one behind
        if not os.path.lexists(place) or (place.is_dir() and not any(place.iterdir())):
            those = [one for one, at in removed.items() if at == removed[file]]
            return str(folder) if sum(one.startswith(f"{folder}/") for one in those) > 1 else ""
    return ""


def _of_link(tree: SourceTree, file: str) -> tuple[str, str]:
    """Say where a link leads that leads to nothing, and what brings a file to its place."""
    target = os.readlink(tree.root / file)  # noqa: PTH115 - keeps the text of the link
    led = os.path.normpath(PurePosixPath(file).parent / target)
    what = f"a link to {target}, which does not exist"
    if led in removed_files(tree) and led != file:
        return what, how_to_get(tree, led)[1]
    if revision := _before_link(tree, file):
        removed = f"git rm -qf {shlex.quote(file)} && {_commit(file, verb='Remove')}"
        return what, f"{removed} && {_check_out(revision, file)}"
    return what, f"rm {shlex.quote(file)} && {write(file, 'correct where it leads')}"


def _before_link(tree: SourceTree, file: str) -> str:
    """The last revision in which a link was a file or a folder; "" if there is none."""
    removed = (at for one, at in removed_files(tree).items() if one.startswith(f"{file}/"))
    if revision := next((at for at in removed if at not in ("", "HEAD")), ""):
        return revision
    asked = ("--max-count=1", "--format=%h^", "--diff-filter=T", "--", file)
    try:
        return git.ask(tree.root, "log", *asked).decode().strip()
    except git.GitError:
        return ""


def found_in_git(tree: SourceTree, name: str) -> list[str]:
    """Files, missing here, whose path ends with the path `name`: removed ones, latest first, else
    those of other branches."""
    end = "/" + "/".join(part for part in PurePosixPath(name).parts if part not in (".", ".."))
    for files in (removed_files, _elsewhere):
        if found := [file for file in files(tree) if f"/{file}".endswith(end)]:
            return found
    return []


@lru_cache(maxsize=1)
def _elsewhere(tree: SourceTree) -> dict[str, str]:
    """Files of other branches and stashes, each with the last revision that wrote it."""
    if not tree.committed:
        return {}
    asked = ("--all", "--not", "HEAD", "--no-renames", "--diff-filter=AM", "--name-only")
    try:
        limits = (f"--max-count={COMMITS}", "--relative", "--format=commit %h")
        log = git.listed(tree.root, "log", "-z", *limits, *asked)
    except git.GitError:
        return {}
    found: dict[str, str] = {}
    revision = ""
    for line in (line for entry in log for line in entry.split("\n")):
        if line.startswith("commit "):
            revision = line.removeprefix("commit ")
        elif line:
            found.setdefault(line, revision)
    return found


def _check_out(revision: str, *files: str) -> str:
    return f"git checkout {revision} -- {shlex.join(files)} && {_commit(*files, verb='Restore')}"


def _commit(*files: str, verb: str = "Add") -> str:
    """The command that commits these files and nothing else that is staged."""
    names = (
        f"{PurePosixPath(files[0]).name} and more" if files[1:] else PurePosixPath(files[0]).name
    )
    return f"git commit -m {shlex.quote(f'{verb} {names}')} -- {shlex.join(files)}"


def _how_to_add(tree: SourceTree, file: str, *, forced: bool) -> str:
    """Say what brings a file to a clean clone; in a nested repository, a commit there."""
    folder = os.path.realpath(tree.root / file)
    inside = os.path.realpath(tree.root)
    while (folder := str(PurePosixPath(folder).parent)).startswith(f"{inside}/"):
        if os.path.lexists(f"{folder}/.git"):
            module = os.path.relpath(folder, inside)
            rest = os.path.relpath(os.path.realpath(tree.root / file), folder)
            if module in tree.modules:
                return f"git -C {module} add -f {rest}  # commit it there, then git add {module}"
            url = f'"$(git -C {module} remote get-url origin)"'
            return f"git submodule add {url} {module}  # with {rest} committed there"
    flag = "-f " if forced else ""
    return f"git add {flag}{shlex.quote(file)} && {_commit(file)}"


def _is_tracked(tree: SourceTree, file: str) -> bool:
    """Whether the index has a file, which may be above the project."""
    assert tree.tracked is not None
    if not file.startswith(("../", "/")):
        return file in tree.tracked
    try:
        return bool(git.listed(tree.root, "ls-files", "-z", "--", file))
    except git.GitError:
        return False


def _ignore_rule(tree: SourceTree, file: str) -> str:
    """The rule by which git ignores a file, with its place; "" if it does not."""
    try:
        # check-ignore refuses literal pathspecs; "./" makes the name one.
        asked = ("--no-literal-pathspecs", "check-ignore", "-v", "-z", "--stdin")
        answer = git.ask(tree.root, *asked, sent=os.fsencode(f"./{file}\0"))
    except git.GitError:
        return ""
    source, line, rule, *_ = os.fsdecode(answer).split("\0")
    return f"{source}:{line} {rule}"


def _is_in_repository(root: Path, file: str) -> bool:
    """Whether the repository around the project holds a file."""
    if not file.startswith(("../", "/")):
        return True
    around = next((one for one in up_to_repository(root) if os.path.lexists(one / ".git")), root)
    return Path(os.path.realpath(root / file)).is_relative_to(os.path.realpath(around))
