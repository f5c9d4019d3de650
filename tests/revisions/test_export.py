"""The files of a revision are written as they are, whatever they are named, and nothing else is."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from revisions.repository import Repository

from flashbench.builds.content import content_hash
from flashbench.errors import NotMeasuredError
from flashbench.revisions import WORKTREE, resolve
from flashbench.revisions.export import Exported, UnreadableError, export

STRANGE = [
    b"line\nbreak",
    b"tab\t",
    b"caf\xe9",
    b"-option",
    b"quote\"'",
    b" space ",
    b"\xe2\x9c\x93",
]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def exported(repository: Repository, text: str, target: Path) -> Exported:
    return export(repository.root, resolve(repository.root, text), target)


def contents(root: Path) -> dict[bytes, bytes]:
    """Names and contents; links as their text."""
    found = {}
    for path in root.rglob("*"):
        if ".git" not in path.relative_to(root).parts and (path.is_symlink() or path.is_file()):
            text = b"-> " + os.fsencode(path.readlink()) if path.is_symlink() else None
            found[os.fsencode(path.relative_to(root))] = text or path.read_bytes()
    return found


@pytest.mark.parametrize("text", ["HEAD", WORKTREE])
def test_strange_names_links_and_modes(repository: Repository, tmp_path: Path, text: str) -> None:
    """Names with line breaks or of no encoding, links and programs come out as they went in."""
    for name in STRANGE:
        (repository.root / os.fsdecode(name)).write_bytes(name)
    repository.write("folder/run.sh", "#!/bin/sh\n")
    (repository.root / "folder/run.sh").chmod(0o755)
    (repository.root / "link").symlink_to("folder/run.sh")
    (repository.root / "to-folder").symlink_to("folder")
    (repository.root / "dangling").symlink_to("/nowhere/at/all")
    repository.commit("Strange names")
    before = repository.state()
    done = exported(repository, text, tmp_path / "tree")
    assert (done.dirty, done.notes) == (False, [])
    assert contents(tmp_path / "tree") == contents(repository.root)
    assert os.access(tmp_path / "tree" / "folder" / "run.sh", os.X_OK)
    assert not os.access(tmp_path / "tree" / "-option", os.X_OK)
    assert repository.state() == before


def test_commit_and_clean_working_tree_have_one_hash(
    repository: Repository, tmp_path: Path
) -> None:
    """A clean working tree is the content of its commit; a mode or a link makes another."""
    repository.write("a", "1")
    repository.write("folder/b", "2")
    (repository.root / "link").symlink_to("a")
    repository.commit("Files")
    for text in ("HEAD", WORKTREE):
        exported(repository, text, tmp_path / text)
    tree = tmp_path / WORKTREE
    digest = content_hash(tree)
    assert content_hash(tmp_path / "HEAD") == digest
    assert content_hash(tree, ["a"]) != digest
    (tree / "a").chmod(0o755)
    changed = content_hash(tree)
    (tree / "link").unlink()
    (tree / "link").write_text("a")
    assert len({digest, changed, content_hash(tree)}) == 3


OWN = {
    "r.json": '{"format":"flashbench-run","version":1}',
    "folder/.r.json.lock": '{"pid":1,"host":"here","since":"now"}\n',
    ".new.json.lock": "",
    ".r.json.0123abcd.part": "half of a fi",
    ".asv/results/here/0123.json": "{}",
}


def test_what_flashbench_writes_is_no_source(repository: Repository, tmp_path: Path) -> None:
    """Run files, their locks, leftovers and a history are neither copied nor dirt, unless tracked;
    other new files are both, whatever they are called."""
    repository.write("kept.json", OWN["r.json"])
    repository.commit("A run")
    for name, text in OWN.items():
        repository.write(name, text)
    done = exported(repository, WORKTREE, tmp_path / "own")
    assert not done.dirty
    assert set(contents(tmp_path / "own")) == {b"kept.json"}
    others = {"data.json": '{"format":"x"}', ".poetry.lock": "[x]", ".x.part": "", "new.py": ""}
    for name, text in others.items():
        (repository.root / name).write_text(text)
        done = exported(repository, WORKTREE, tmp_path / f"with{name}")
        assert done.dirty, name
        assert set(contents(tmp_path / f"with{name}")) == {b"kept.json", name.encode()}
        (repository.root / name).unlink()


def test_attributes_do_not_change_a_commit(repository: Repository, tmp_path: Path) -> None:
    """export-ignore and export-subst, filters and hooks leave the tree as it was committed."""
    repository.write("kernel.h", "// $Format:%H$\n")
    repository.write("secret.h", "constexpr int X = 1;\n")
    repository.write(
        ".gitattributes", "secret.h export-ignore\nkernel.h export-subst filter=evil\n"
    )
    repository.commit("Attributes")
    repository.git("config", "filter.evil.smudge", f"touch {tmp_path}/ran; cat")
    hook = repository.root / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    exported(repository, "HEAD", tmp_path / "tree")
    assert contents(tmp_path / "tree") == contents(repository.root)
    assert not (tmp_path / "ran").exists()


def test_large_file_storage(repository: Repository, tmp_path: Path) -> None:
    """A file in Git LFS has its content where that is here; where it is not, or
    not what it should be, that is reported."""
    content = b"weights" * 1000
    digest = hashlib.sha256(content).hexdigest()
    head = "version https://git-lfs.github.com/spec/v1\noid sha256:"
    repository.write("here.bin", f"{head}{digest}\nsize {len(content)}\n")
    repository.write("absent.bin", f"{head}{'0' * 64}\nsize 5\n")
    repository.commit("Pointers")
    kept = repository.root / ".git" / "lfs" / "objects" / digest[:2] / digest[2:4] / digest
    kept.parent.mkdir(parents=True)
    kept.write_bytes(content)
    damaged = hashlib.sha256(b"whole").hexdigest()
    repository.write("damaged.bin", f"{head}{damaged}\nsize 5\n")
    repository.commit("Another")
    other = repository.root / ".git" / "lfs" / "objects" / damaged[:2] / damaged[2:4] / damaged
    other.parent.mkdir(parents=True)
    other.write_bytes(b"half")
    done = exported(repository, "HEAD", tmp_path / "tree")
    assert (tmp_path / "tree" / "here.bin").read_bytes() == content
    assert done.notes == [
        "'absent.bin' is in Git LFS and not here: `git lfs fetch --all`",
        "'damaged.bin' is in Git LFS and damaged here: `git lfs fsck`",
    ]


@pytest.mark.parametrize("mark", ["--assume-unchanged", "--skip-worktree"])
def test_marked_files_are_compared(repository: Repository, tmp_path: Path, mark: str) -> None:
    """A change that the index hides from `git status` makes the working tree dirty."""
    name = "kernel.py"
    repository.write(name, "SCALE = 1\n")
    repository.commit("A kernel")
    repository.git("update-index", mark, name)
    assert not exported(repository, WORKTREE, tmp_path / "clean").dirty
    with (repository.root / name).open("a") as file:
        file.write("\n# changed\n")
    assert not repository.git("status", "--porcelain", "--untracked-files=no")
    assert exported(repository, WORKTREE, tmp_path / "changed").dirty


@pytest.mark.parametrize("ignore", ["dirty", "all"])
def test_ignored_submodules_are_compared(
    repository: Repository, tmp_path: Path, ignore: str
) -> None:
    """A change within a submodule that `.gitmodules` ignores makes the working tree dirty."""
    library = Repository(tmp_path / "library")
    library.write("library.h", "#pragma once\n")
    library.commit("A library")
    add = ("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library.root))
    repository.git(*add, "third/library")
    repository.git("config", "-f", ".gitmodules", "submodule.third/library.ignore", ignore)
    repository.commit("Use a library")
    assert not exported(repository, WORKTREE, tmp_path / "clean").dirty
    (repository.root / "third/library/library.h").write_text("#pragma once\nint changed;\n")
    assert not repository.git("status", "--porcelain", "--untracked-files=no")
    assert exported(repository, WORKTREE, tmp_path / "changed").dirty


def test_submodules(repository: Repository, tmp_path: Path) -> None:
    """A submodule that is here comes with its own commit; one that is not is reported."""
    library = Repository(tmp_path / "library")
    library.write("library.h", "old")
    library.commit("Old")
    add = ("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library.root))
    repository.git(*add, "third/library")
    repository.commit("Use a library")
    library.write("library.h", "new")
    library.commit("New")
    repository.git("-C", "third/library", "-c", "protocol.file.allow=always", "pull", "-q")
    repository.write("third/library/local.h", "work in progress")
    done = exported(repository, "HEAD", tmp_path / "commit")
    assert done.notes == []
    assert contents(tmp_path / "commit" / "third") == {b"library/library.h": b"old"}
    assert exported(repository, WORKTREE, tmp_path / "worktree").dirty
    assert contents(tmp_path / "worktree" / "third") == {
        b"library/library.h": b"new",
        b"library/local.h": b"work in progress",
    }
    repository.git("submodule", "deinit", "-q", "-f", "third/library")
    # What git keeps of it in .git/modules is enough for a commit.
    assert exported(repository, "HEAD", tmp_path / "kept").notes == []
    clone = Repository(tmp_path / "clone")
    clone.git("pull", "-q", str(repository.root), "main")
    for text in ("HEAD", WORKTREE):
        (note,) = exported(clone, text, tmp_path / f"clone-{text}").notes
        assert "git submodule update --init third/library" in note


def test_working_tree_in_every_state(repository: Repository, tmp_path: Path) -> None:
    """Changed, staged, new, deleted and ignored files: the copy equals the working tree."""
    for name in ("same", "changed", "staged", "deleted", "became/folder"):
        repository.write(name, "old")
    repository.write(".gitignore", "*.o\n")
    repository.commit("Files")
    repository.write("changed", "new")
    repository.write("staged", "new")
    repository.git("add", "staged")
    repository.write("untracked", "new")
    repository.write("ignored.o", "object")
    (repository.root / "deleted").unlink()
    (repository.root / "became/folder").unlink()
    (repository.root / "became").rmdir()
    (repository.root / "became").symlink_to("changed")
    os.mkfifo(repository.root / "pipe")
    before = repository.state()
    assert exported(repository, WORKTREE, tmp_path / "tree").dirty
    assert contents(tmp_path / "tree") == {
        b".gitignore": b"*.o\n",
        b"same": b"old",
        b"changed": b"new",
        b"staged": b"new",
        b"untracked": b"new",
        b"became": b"-> changed",
    }
    assert repository.state() == before


@pytest.mark.parametrize("name", ["..", ".git", ".GIT"])
def test_tree_that_leaves_its_directory(repository: Repository, tmp_path: Path, name: str) -> None:
    """A crafted commit that names a path outside of itself, or git's own, is refused."""
    repository.write("file", "x")
    repository.commit("File")
    blob = repository.git("rev-parse", "HEAD:file")
    inner = b"100644 stolen\0" + bytes.fromhex(blob)
    tree = _object(repository, "tree", inner)
    outer = b"40000 " + name.encode() + b"\0" + bytes.fromhex(tree)
    top = _object(repository, "tree", outer)
    commit = repository.git("commit-tree", top, "-m", "crafted")
    with pytest.raises(NotMeasuredError, match="holds a file named"):
        exported(repository, commit, tmp_path / "inside" / "tree")
    assert not list(tmp_path.rglob("stolen"))


def test_file_below_a_link(repository: Repository, tmp_path: Path) -> None:
    """A crafted commit cannot write through a link that it brings along."""
    blob = _object(repository, "blob", b"content")
    (tmp_path / "outside").mkdir()
    target = _object(repository, "blob", os.fsencode(tmp_path / "outside"))
    inner = _object(repository, "tree", b"100644 stolen\0" + bytes.fromhex(blob))
    top = b"120000 a\0" + bytes.fromhex(target) + b"40000 a\0" + bytes.fromhex(inner)
    commit = repository.git("commit-tree", _object(repository, "tree", top), "-m", "crafted")
    with pytest.raises(UnreadableError, match="a file and a directory named 'a'"):
        exported(repository, commit, tmp_path / "tree")
    assert not list((tmp_path / "outside").iterdir())


@pytest.mark.parametrize("link", [b"120000 module", b"120000 Module"])
def test_submodule_below_a_link(repository: Repository, tmp_path: Path, link: bytes) -> None:
    """A crafted commit cannot write a submodule's files through a link of the submodule's name."""
    library = Repository(tmp_path / "library")
    library.write("stolen", "x")
    library.commit("Library")
    add = ("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library.root))
    repository.git(*add, "module")
    module = repository.git("rev-parse", ":module")
    (tmp_path / "outside").mkdir()
    target = _object(repository, "blob", os.fsencode(tmp_path / "outside"))
    top = b"%s\0%s160000 module\0%s" % (link, bytes.fromhex(target), bytes.fromhex(module))
    commit = repository.git("commit-tree", _object(repository, "tree", top), "-m", "crafted")
    if link.endswith(b"module"):
        with pytest.raises(NotMeasuredError, match="two files named 'module'"):
            exported(repository, commit, tmp_path / "tree")
    else:
        exported(repository, commit, tmp_path / "tree")
        assert (tmp_path / "tree" / "module" / "stolen").is_file()
    assert not list((tmp_path / "outside").iterdir())


@pytest.mark.parametrize("text", [b"", b"a\0b"])
def test_link_that_leads_to_no_path(repository: Repository, tmp_path: Path, text: bytes) -> None:
    """A link that no file system takes makes its commit unreadable, and is named."""
    link = _object(repository, "blob", text)
    top = _object(repository, "tree", b"120000 odd\0" + bytes.fromhex(link))
    commit = repository.git("commit-tree", top, "-m", "crafted")
    with pytest.raises(UnreadableError, match="link 'odd' leads to"):
        exported(repository, commit, tmp_path / "tree")


def test_file_that_git_cuts_short(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A git that is ended in the middle of a file, as for lack of memory, makes no shorter file."""
    repository.write("file", "x" * 100_000)
    repository.commit("File")
    real = shutil.which("git")
    script = f'#!/bin/sh\ncase "$*" in *cat-file*--batch) {real} "$@" | head -c 5000;; '
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text(f'{script}*) exec {real} "$@";; esac\n')
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with pytest.raises(UnreadableError, match="was cut short"):
        exported(repository, "HEAD", tmp_path / "tree")


def test_missing_object_is_told(repository: Repository, tmp_path: Path) -> None:
    """A repository that lacks an object of the commit is one line with what to do."""
    repository.write("file", "x")
    repository.commit("File")
    blob = repository.git("rev-parse", "HEAD:file")
    (repository.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(NotMeasuredError, match=f"object {blob} is missing"):
        exported(repository, "HEAD", tmp_path / "tree")


def _object(repository: Repository, kind: str, content: bytes) -> str:
    command = ["git", "-C", str(repository.root), "hash-object", "-t", kind, "-w", "--stdin"]
    done = subprocess.run([*command, "--literally"], input=content, capture_output=True, check=True)
    return done.stdout.decode().strip()
