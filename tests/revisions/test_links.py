"""Links, replaced objects and crafted trees: what a commit holds decides, and nothing around it."""

import subprocess
from pathlib import Path

import pytest
from revisions.repository import Prepared, Repository

from flashbench.candidates import OUR_CALLABLE
from flashbench.revisions import Built, Project, read, resolve
from flashbench.revisions.fingerprint import contents_of
from flashbench.revisions.preparer import Preparer

pytestmark = pytest.mark.slow

TABLE = """\
[tool.flashbench.project]
callable = "fast.api:attention"
build = ["sh", "-c", "cat csrc/* > src/fast/built.txt"]
path = "src"
sources = ["csrc"]
"""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path / "fast")
    repository.write("pyproject.toml", TABLE)
    repository.write("csrc/a.h", "1\n")
    repository.write("shared/b.h", "2\n")
    repository.write("src/fast/__init__.py", "")
    repository.write("src/fast/api.py", "def attention(*_): return 1\n")
    repository.commit("A kernel")
    return repository


def built_text(built: Built) -> str:
    return (built.require() / "fast" / "built.txt").read_text()


@pytest.mark.parametrize(("link", "target"), [("csrc/b.h", "../shared/b.h"), ("csrc", "shared")])
def test_what_a_link_leads_to_is_a_source(
    repository: Repository, prepared: Prepared, tmp_path: Path, link: str, target: str
) -> None:
    """Commits with the same link and other contents behind it are two builds; what else changes
    makes none, and links out of the tree, to nowhere and in a loop are no more than their text."""
    place = repository.root / link
    if place.is_dir():
        repository.git("rm", "-rq", link)
    place.symlink_to(target)
    (repository.root / "shared" / "loop").symlink_to("loop")
    (repository.root / "shared" / "out").symlink_to("/usr")
    repository.edit("pyproject.toml", "csrc/*", "csrc/*.h")
    repository.commit("Link")
    first = prepared(repository, tmp_path / "cache")
    repository.write("README.md", "words")
    repository.commit("Words")
    assert prepared(repository, tmp_path / "cache").build.reused
    repository.write("shared/b.h", "3\n")
    repository.commit("Other contents")
    second = prepared(repository, tmp_path / "cache")
    assert not second.build.reused
    assert (built_text(first)[-2:], built_text(second)[-2:]) == ("2\n", "3\n")


def test_linked_folder_of_our_own_sources(repository: Repository) -> None:
    """What a folder that is a link leads to decides flashbench's own build, too, though the name of
    the link has no source's ending."""
    project = Project(repository.root, OUR_CALLABLE)
    (repository.root / "csrc" / "more").symlink_to("../shared")
    linked = repository.commit("Link")
    repository.write("shared/b.h", "3\n")
    changed = repository.commit("Other contents")
    assert contents_of(project, linked).sources != contents_of(project, changed).sources


@pytest.mark.parametrize(
    "links",
    [
        {"csrc/loop": "loop/x"},
        {"csrc/loop": "../csrc/loop/../loop/x", "csrc/other": "loop/other/loop"},
        {f"csrc/{number}": str((number + 1) % 1000) for number in range(1000)},
    ],
)
def test_links_that_never_end(
    repository: Repository, prepared: Prepared, tmp_path: Path, links: dict[str, str]
) -> None:
    """Links that lead below themselves, and a thousand in a ring, are followed as far as the system
    would, and are no more than their text to the build."""
    for name, target in links.items():
        (repository.root / name).symlink_to(target)
    repository.edit("pyproject.toml", "csrc/*", "csrc/*.h")
    repository.commit("Links")
    assert prepared(repository, tmp_path / "cache").status == "built"


def test_linked_folder_in_a_package(
    repository: Repository, prepared: Prepared, tmp_path: Path
) -> None:
    """A package has what a link to a folder of its commit leads to; links to folders that hold them
    lead nowhere new."""
    (repository.root / "src/fast/more").symlink_to("../../shared")
    (repository.root / "shared" / "back").symlink_to("../src/fast")
    (repository.root / "src/fast/round").symlink_to("..")
    repository.commit("Link")
    texts = []
    for text in ("2\n", "3\n"):
        repository.write("shared/b.h", text)
        repository.git("commit", "-qam", text, "--allow-empty")
        root = prepared(repository, tmp_path / "cache").require()
        texts.append((root / "fast" / "more" / "b.h").read_text())
    assert texts == ["2\n", "3\n"]


def test_package_behind_a_link(repository: Repository, prepared: Prepared, tmp_path: Path) -> None:
    """A package, or a file of it, that is a link in the tree is imported with its target."""
    repository.git("mv", "src/fast", "impl")
    (repository.root / "src").mkdir(exist_ok=True)
    (repository.root / "src" / "fast").symlink_to("../impl")
    repository.write("version.py", "VERSION = 1\n")
    (repository.root / "impl" / "version.py").symlink_to("../version.py")
    repository.edit("impl/api.py", "return 1", "from fast.version import VERSION")
    repository.commit("Link")
    built = prepared(repository, tmp_path / "cache")
    assert built.status == "built", built.reason
    assert (built_text(built), (built.require() / "fast" / "version.py").read_text()) == (
        "1\n",
        "VERSION = 1\n",
    )


@pytest.mark.parametrize("linked", ["src", "src/fast"])
def test_nothing_is_written_through_a_link(
    repository: Repository, prepared: Prepared, tmp_path: Path, linked: str
) -> None:
    """A commit whose package is a link out of the tree has no such package; where it leads, nothing
    is read and nothing is written, though a commit of equal sources was built before."""
    assert prepared(repository, tmp_path / "cache").status == "built"
    outside = tmp_path / "outside"
    (outside / "fast").mkdir(parents=True)
    (outside / "fast" / "api.py").write_text("def attention(*_): return 2\n")
    repository.git("rm", "-rq", linked)
    place = repository.root / linked
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(outside if linked == "src" else outside / "fast")
    repository.commit("Link out")
    assert prepared(repository, tmp_path / "cache").status != "built"
    assert [path.name for path in outside.rglob("*")] == ["fast", "api.py"]


def test_replaced_objects_are_not_looked_at(
    repository: Repository, prepared: Prepared, tmp_path: Path
) -> None:
    """`git replace` changes neither what a commit holds nor, in the cache, what others hold."""
    blob = repository.git("rev-parse", "HEAD:csrc/a.h")
    other = repository.git("rev-parse", "HEAD:shared/b.h")
    repository.git("replace", blob, other)
    assert built_text(prepared(repository, tmp_path / "cache")) == "1\n"


def test_commit_that_cannot_be_read_fails_alone(repository: Repository, tmp_path: Path) -> None:
    """A tree with a name that leaves it, one that no file system takes, one that is nested by the
    thousand, one whose object is missing: each is one failure, not kept; others are built."""

    def crafted(entry: bytes) -> str:
        command = ["git", "-C", str(repository.root), "cat-file", "tree", "HEAD:csrc"]
        tree = subprocess.run(command, capture_output=True, check=True).stdout
        csrc = tree_of(tree + entry)
        root = repository.git("ls-tree", "HEAD").replace(
            repository.git("rev-parse", "HEAD:csrc"), csrc
        )
        command = ["git", "-C", str(repository.root), "mktree", "--missing"]
        made = subprocess.run(
            command, input=root + "\n", capture_output=True, check=True, text=True
        )
        return repository.git("commit-tree", made.stdout.strip(), "-p", "HEAD", "-m", "crafted")

    def tree_of(content: bytes) -> str:
        command = ["git", "-C", str(repository.root), "hash-object", "-t", "tree", "-w", "--stdin"]
        done = subprocess.run(
            [*command, "--literally"], input=content, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    empty = repository.git("hash-object", "-w", "-t", "blob", "/dev/null")
    blob = b"\0" + bytes.fromhex(repository.git("rev-parse", "HEAD:csrc/a.h"))
    deep = tree_of(b"100644 file" + blob)
    for _ in range(300):
        deep = tree_of(b"40000 d\0" + bytes.fromhex(deep))
    entries = {
        "named": b"100644 .." + blob,
        "File name too long": b"100644 " + b"z" * 300 + blob,
        "a file named": b"40000 z\0" + bytes.fromhex(deep),
        "leads to": b"120000 z\0" + bytes.fromhex(empty),
        "is missing": b"100644 z\0" + b"\x12" * 20,
    }
    project = read(repository.root)
    commits = [*map(crafted, entries.values()), "HEAD"]
    revisions = [resolve(project.repository, commit) for commit in commits]
    with Preparer(project, tmp_path / "cache", jobs=2) as preparer:
        *failed, good = preparer.prepare(revisions, "load")
    assert good.status == "built", good.reason
    for words, one in zip(entries, failed, strict=True):
        assert (one.status, one.kept) == ("build error", False)
        assert words in one.reason
