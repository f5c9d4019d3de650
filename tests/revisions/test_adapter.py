"""The adapter: a file or folder of the working tree in every revision of a project."""

from pathlib import Path

import pytest
from revisions.repository import Prepared, Repository

from flashbench.errors import InvalidInputError
from flashbench.revisions import Built, read, resolve
from flashbench.revisions.prepare import prepare

SETTINGS = """\
[tool.flashbench.project]
callable = "fb:attention"
build = ["sh", "-c", "cp kernel.txt fast/out.txt"]
sources = ["kernel.txt"]
"""
ADAPTER = "from pathlib import Path\n\nout = Path(__file__).parent / 'fast/out.txt'\n"
ADAPTER += "def attention(q, k, v):\n    return out.read_text()\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A project whose two commits know nothing of flashbench; settings and adapter are beside."""
    found = Repository(tmp_path / "theirs")
    found.write("fast/__init__.py", "")
    for number in ("1", "2"):
        found.write("kernel.txt", number)
        found.commit(f"Kernel {number}")
    found.write("pyproject.toml", SETTINGS)
    found.write("fb.py", ADAPTER)
    return found


def built(repository: Repository, text: str) -> Built:
    project = read(repository.root)
    cache = repository.root.parent / "cache"
    return prepare(project, resolve(project.repository, text), cache, stage="build")


def test_commits_from_before_the_adapter_are_measured(
    repository: Repository, prepared: Prepared, tmp_path: Path, without_torch: None
) -> None:
    """Without the setting a commit lacks the module, and the reason says what to set; with it each
    commit has its own build beside the adapter of the working tree."""
    cache = tmp_path / "cache"
    lacking = prepared(repository, cache, "HEAD")
    assert lacking.import_root is None
    assert 'adapter = "fb.py", and every revision gets it' in lacking.headline
    repository.write("pyproject.toml", SETTINGS + 'adapter = "fb.py"\n')
    for text, number in (("HEAD~1", "1"), ("HEAD", "2")):
        found = prepared(repository, cache, text)
        assert found.status == "built", found.reason
        assert (found.require() / "fast/out.txt").read_text() == number
        assert (found.require() / "fb.py").read_text() == ADAPTER
        assert not found.identity.dirty


def test_it_is_part_of_the_key_and_replaces_what_was_there(
    repository: Repository, prepared: Prepared, tmp_path: Path, without_torch: None
) -> None:
    """Another adapter is another build; a commit's own version of it does not count."""
    repository.write("pyproject.toml", SETTINGS + 'adapter = "fb.py"\n')
    repository.commit("With an adapter")
    repository.write("fb.py", ADAPTER + "# changed\n")
    first = prepared(repository, tmp_path / "cache")
    assert (first.require() / "fb.py").read_text().endswith("# changed\n")
    repository.write("fb.py", ADAPTER)
    second = prepared(repository, tmp_path / "cache")
    assert first.build.key != second.build.key
    repository.write("fb.py", ADAPTER + "# changed\n")
    assert prepared(repository, tmp_path / "cache").build.key == first.build.key


def test_a_folder_is_copied_as_git_sees_it(repository: Repository) -> None:
    """What git ignores in it is no part of it: builds and caches do not change the key."""
    repository.write("pyproject.toml", SETTINGS.replace("fast/out", "fb/out") + 'adapter = "fb"\n')
    repository.write("fb/__init__.py", ADAPTER)
    repository.write(".gitignore", "*.so\n")
    (repository.root / "fb.py").unlink()
    first = built(repository, "HEAD")
    assert first.status == "built", first.reason
    repository.write("fb/kernel.so", "an earlier build")
    assert built(repository, "HEAD").build.key == first.build.key


def test_a_build_that_needs_a_folder_of_the_working_tree_says_so(repository: Repository) -> None:
    """The linker's own line comes first, then the folder that the commit lacks."""
    build = '["cc", "-shared", "-o", "native/attn.so", "-x", "c", "/dev/null"]'
    table = f'[tool.flashbench.project]\ncallable = "fb:attention"\nbuild = {build}\n'
    repository.write("pyproject.toml", table)
    repository.write("native/readme.txt", "holds the library")
    found = built(repository, "HEAD")
    assert found.status == "link error"
    assert "cannot open output file native/attn.so" in found.headline
    assert "; native is in the working tree, not in this commit: name it in" in found.headline


def test_it_is_not_written_through_a_link(repository: Repository, tmp_path: Path) -> None:
    """A commit whose folder leads elsewhere is not measured, and nothing is written there."""
    (tmp_path / "elsewhere").mkdir()
    (repository.root / "sub").symlink_to(tmp_path / "elsewhere")
    commit = repository.commit("A link")
    (repository.root / "sub").unlink()
    repository.write("sub/fb.py", ADAPTER)
    repository.write("pyproject.toml", SETTINGS + 'adapter = "sub/fb.py"\n')
    assert "link or a file above the adapter" in built(repository, commit).reason
    assert not list((tmp_path / "elsewhere").iterdir())


def test_one_that_is_not_there_is_refused(repository: Repository) -> None:
    """A mistake of the settings, not of a revision."""
    repository.write("pyproject.toml", SETTINGS + 'adapter = "absent.py"\n')
    with pytest.raises(InvalidInputError, match=r"adapter: \S+absent\.py is not a file"):
        built(repository, "HEAD")
