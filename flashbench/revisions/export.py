"""Write the files of a revision into a private directory; only reads the user's repository.

A commit is read object by object (`git ls-tree`, `git cat-file --batch`). Unlike `git archive` this
yields the exact tree whatever export-ignore and export-subst say; unlike `git worktree` it writes
nothing into the repository, and runs no hook and no filter. So line endings are the repository's,
and a Git LFS file gets its content only if that was fetched before.
"""

import errno
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flashbench.builds.content import file_hash
from flashbench.errors import NotMeasuredError
from flashbench.revisions import git
from flashbench.revisions.blobs import Blobs
from flashbench.revisions.own_files import is_ours
from flashbench.revisions.revision import Revision

_LFS_HEAD = b"version https://git-lfs.github.com/spec/v1\n"
_LFS_BYTES = 1024  # a pointer is shorter
_SUBMODULE, _SYMLINK, _EXECUTABLE = "160000", "120000", "100755"
_DEEPEST, _QUOTED = 200, 100  # directories of a path; characters of a printed one
# Errors of writing a strange tree: too long a name, a file and a directory of one name.
_OF_THE_TREE = (
    errno.ENAMETOOLONG,
    errno.EILSEQ,
    errno.EINVAL,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ELOOP,
)
# `ls-files -v` prints this for files that `status` compares, but not for those marked
# assume-unchanged (small letters) or skip-worktree (S).
_COMPARED = (b"H", b"M", b"R", b"C", b"K")
_LIST = ("ls-tree", "-r", "-z", "--full-tree")


@dataclass
class Exported:
    """What was written. notes: what is missing, one line each, for a failed build."""

    dirty: bool = False
    notes: list[str] = field(default_factory=list)


class UnreadableError(NotMeasuredError):
    """A commit that git cannot read, or that cannot be written as files."""


def export(
    repository: Path,
    revision: Revision,
    target: Path,
    wanted: Callable[[bytes], bool] = lambda name: True,
) -> Exported:
    """Write the files of a revision into the new directory `target`, without `.git`.

    wanted: of a commit, the names (relative to its root) to write. Raises UnreadableError if git
    cannot read them, no file system could hold them, or the tree names a path outside itself;
    OSError if they cannot be written.
    """
    done = Exported()
    target.mkdir(parents=True)
    try:
        if revision.worktree:
            _copy_working_tree(repository, target, done)
        else:
            _write_commit(repository, revision.commit, target, done, wanted)
    except git.GitError as error:
        raise UnreadableError(f"it cannot be read from git: {error}") from None
    except OSError as error:
        if revision.worktree or error.errno not in _OF_THE_TREE:
            raise
        name = os.fsdecode(error.filename or "").removeprefix(f"{target}/")[:_QUOTED]
        raise UnreadableError(f"{name!r} cannot be written: {error.strerror}") from None
    return done


def _copy_working_tree(repository: Path, target: Path, done: Exported) -> None:
    tracked = git.ask(repository, "ls-files", "-z", "--cached").split(b"\0")
    others = git.ask(repository, "ls-files", "-z", "--others", "--exclude-standard").split(b"\0")
    new = [name for name in others if name and not is_ours(repository, os.fsdecode(name))]
    done.dirty = done.dirty or bool(new)
    for name in dict.fromkeys(filter(None, [*tracked, *new])):
        source, place = repository / os.fsdecode(name), target / os.fsdecode(name.rstrip(b"/"))
        if _is_behind_link(repository, source):
            continue  # a link replaced its directory: git considers it deleted
        if source.is_symlink() or source.is_file():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, place, follow_symlinks=False)
        elif (source / ".git").exists():  # a submodule or a nested repository
            _copy_working_tree(source, place, done)
        elif source.is_dir():
            done.notes.append(_missing_submodule(name))
        # Otherwise deleted, or not a file (a socket): not part of the sources.
    # After the copy, to see changes made until then.
    done.dirty = done.dirty or _is_changed(repository)


def _is_changed(repository: Path) -> bool:
    """Whether a tracked file differs from HEAD, even one hidden by settings or the index."""
    status = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=none")
    if git.ask(repository, *status):
        return True
    listed = filter(None, git.ask(repository, "ls-files", "-v", "-z").split(b"\0"))
    if all(line[:1] in _COMPARED for line in listed):
        return False
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        git.ask(repository, "read-tree", "--no-sparse-checkout", "HEAD", index=index)
        return bool(git.ask(repository, *status, index=index))


def _is_behind_link(repository: Path, path: Path) -> bool:
    parents = path.relative_to(repository).parents
    return any((repository / parent).is_symlink() for parent in parents if parent.name)


@dataclass
class _Listed:
    """One repository's share of a commit's files: the commit's own, or a submodule's."""

    repository: Path
    target: Path
    files: list[tuple[str, str, bytes]] = field(default_factory=list)  # mode, object, name
    links: list[tuple[str, bytes]] = field(default_factory=list)


def _write_commit(
    repository: Path, commit: str, target: Path, done: Exported, wanted: Callable[[bytes], bool]
) -> None:
    listed = list(_listed(repository, commit, target, done, wanted))
    # Links last, after the submodules' files too: none can then be written through one.
    for one in listed:
        with Blobs(one.repository) as read:
            for mode, thing, name in one.files:
                place = one.target / os.fsdecode(name)
                place.parent.mkdir(parents=True, exist_ok=True)
                read.into(thing, place)
                if place.stat().st_size < _LFS_BYTES:
                    _replace_pointer(one.repository, place, name, done)
                if mode == _EXECUTABLE:
                    place.chmod(0o755)
    for one in listed:
        with Blobs(one.repository) as read:
            for thing, name in one.links:
                _link(target, one.target / os.fsdecode(name), read.whole(thing), name)


def _listed(
    repository: Path,
    commit: str,
    target: Path,
    done: Exported,
    wanted: Callable[[bytes], bool] = lambda name: True,
) -> Iterator[_Listed]:
    """A commit, then its available submodules; UnreadableError if its names do not form a tree."""
    found = _Listed(repository, target)
    modules, names = [], set()
    for line in filter(None, git.ask(repository, *_LIST, commit).split(b"\0")):
        about, _, name = line.partition(b"\t")
        mode, _, thing = about.decode().split()
        parts = name.split(b"/")
        if len(parts) > _DEEPEST or any(p.lower() in (b"", b".", b"..", b".git") for p in parts):
            raise UnreadableError(f"it holds a file named {_shown(name)}")
        if name in names:
            raise UnreadableError(f"it holds two files named {_shown(name)}")
        names.add(name)
        if not wanted(name):
            continue
        if mode == _SUBMODULE:
            modules.append((thing, name))
        elif mode == _SYMLINK:
            found.links.append((thing, name))
        else:
            found.files.append((mode, thing, name))
    folders = {parent for name in names for parent in _parents(name)}
    for name in folders & names:
        raise UnreadableError(f"it holds a file and a directory named {_shown(name)}")
    yield found
    for thing, name in modules:
        module = _submodule(repository, os.fsdecode(name), thing)
        if module is None:
            done.notes.append(_missing_submodule(name))
        else:
            yield from _listed(module, thing, target / os.fsdecode(name), done)


def _parents(name: bytes) -> Iterator[bytes]:
    while b"/" in name:
        name = name.rpartition(b"/")[0]
        yield name


def _shown(name: bytes) -> str:
    return repr(os.fsdecode(name)[:_QUOTED])


def _link(root: Path, place: Path, text: bytes, name: bytes) -> None:
    if not text or b"\0" in text:
        raise UnreadableError(f"link {_shown(name)} leads to {_shown(text)}, which is not a path")
    # If names differ only in case, and the file system ignores case, a link may be a directory.
    if any((root / parent).is_symlink() for parent in place.relative_to(root).parents):
        raise UnreadableError(f"link {_shown(name)} lies below another one")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(os.fsdecode(text))


def lacks(repository: Path, modules: Sequence[tuple[bytes, str]]) -> tuple[str, ...]:
    """A line for each missing submodule (name, commit), as in `Exported.notes`.

    Raises GitError."""
    return tuple(
        _missing_submodule(name)
        for name, commit in modules
        if _submodule(repository, os.fsdecode(name), commit) is None
    )


def _submodule(repository: Path, name: str, commit: str) -> Path | None:
    """A local repository with the submodule's commit: its checkout, or git's own copy."""
    common = os.fsdecode(git.ask(repository, "rev-parse", "--git-common-dir").strip())
    for place in (repository / name, repository / common / "modules" / name):
        if not (place / ".git").exists() and not (place / "HEAD").exists():
            continue
        try:
            git.ask(place, "cat-file", "-e", commit + "^{commit}")
        except git.GitError:
            continue
        return place
    return None


def _missing_submodule(name: bytes) -> str:
    shown = name.rstrip(b"/").decode(errors="replace")
    return f"submodule {shown!r} is not here: `git submodule update --init {shlex.quote(shown)}`"


def _replace_pointer(repository: Path, place: Path, name: bytes, done: Exported) -> None:
    """Replace a Git LFS pointer by its content, if that is available and whole."""
    pointer = place.read_bytes()
    if not pointer.startswith(_LFS_HEAD):
        return
    digest = pointer.partition(b"oid sha256:")[2][:64].decode(errors="replace")
    common = os.fsdecode(git.ask(repository, "rev-parse", "--git-common-dir").strip())
    kept = repository / common / "lfs" / "objects" / digest[:2] / digest[2:4] / digest
    shown = repr(os.fsdecode(name))
    if len(digest) != 64 or not set(digest) <= set("0123456789abcdef") or not kept.is_file():
        done.notes.append(f"{shown} is in Git LFS and not here: `git lfs fetch --all`")
        return
    shutil.copyfile(kept, place)
    if file_hash(place).hexdigest() != digest:
        place.write_bytes(pointer)
        done.notes.append(f"{shown} is in Git LFS and damaged here: `git lfs fsck`")
