"""[tool.flashbench.project]: its meaning, and the messages for mistakes in it."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from revisions.repository import Repository

from flashbench.errors import Exit, InvalidInputError
from flashbench.revisions import Project, backend, read
from flashbench.revisions.fingerprint import contents_of
from flashbench.revisions.prepare import recipe_of
from flashbench.revisions.project import of_suite

GOOD = """\
[tool.flashbench.project]
callable = "fastattn.api:sdpa_like"
build = ["make", "-j1"]
"""


CASES = "[tool.flashbench.cases]\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path.resolve()


def test_settings_are_found_from_below(root: Path) -> None:
    """The nearest pyproject.toml above counts; missing settings have their defaults."""
    (root / "pyproject.toml").write_text(GOOD)
    (root / "src" / "deep").mkdir(parents=True)
    expected = Project(root, "fastattn.api:sdpa_like", ("make", "-j1"))
    assert read(root / "src" / "deep") == expected
    (root / "pyproject.toml").write_text(
        GOOD + 'path = "./src/"\nsources = ["csrc", "Makefile"]\nenvironment = ["FAST_MATH"]\n'
    )
    assert read(root) == Project(
        root,
        "fastattn.api:sdpa_like",
        ("make", "-j1"),
        path="src",
        sources=("csrc", "Makefile"),
        environment=("FAST_MATH",),
    )


def test_our_own_repository_needs_none(root: Path) -> None:
    """flashbench itself is known; its settings can be given all the same."""
    (root / "pyproject.toml").write_text('[project]\nname = "flashbench"\n')
    assert read(root) == Project(root, "flashbench:attention")
    (root / "pyproject.toml").write_text(f'[project]\nname = "flashbench"\n{GOOD}')
    assert read(root).build == ("make", "-j1")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no \\[tool.flashbench.project\\]; add"),
        ("[tool.flashbench.project", "cannot be read"),
        ("[tool.flashbench]\nproject = 5", "must be a table"),
        ("[tool]\nflashbench = 5", "must be a table"),
        (GOOD + "jobs = 4", "jobs: is no setting; settings are callable, build"),
        ('[tool.flashbench.project]\nbuild = ["make"]', "callable: must be written as"),
        (GOOD.replace(":sdpa_like", ""), "callable: must be written as"),
        (GOOD.replace('"fastattn.api:sdpa_like"', "5"), "callable: must be written as"),
        (GOOD.replace("build", "#"), "build: is missing"),
        (GOOD.replace('["make", "-j1"]', '"make -j1"'), "build: must be a list"),
        (GOOD.replace('"-j1"', "1"), "build: must be a list"),
        (GOOD + 'path = "/usr/lib"', "path: '/usr/lib' must be a path inside"),
        (GOOD + 'path = "src/../.."', "path: 'src/../..' must be a path inside"),
        (GOOD + "path = 5", "path: 5 must be a path inside"),
        (GOOD + 'sources = "csrc"', "sources: must be a list"),
        (GOOD + 'sources = ["../other"]', "sources: '../other' must be a path inside"),
        (GOOD + "environment = [1]", "environment: must be a list"),
        (GOOD + 'adapter = "../fb.py"', "adapter: '../fb.py' must be a path inside"),
        (GOOD + CASES + 'mask = "full"', "mask: is no setting; settings are shape, preset"),
        (GOOD + CASES + 'shape = "1,1,8,8"', "shape: must be a list of strings"),
        (GOOD + CASES + 'dtype = ["fp64"]', "dtype: 'fp64' is not one of fp32, fp16, bf16"),
        (GOOD + CASES + "layout = 5", "layout: must be a string"),
    ],
)
def test_mistakes_name_file_and_key(root: Path, text: str, words: str) -> None:
    """A setting that cannot be used is one line with file and key, and exit code 2."""
    (root / "pyproject.toml").write_text(text)
    with pytest.raises(InvalidInputError, match=words) as told:
        read(root)
    assert str(told.value).startswith(f"{root / 'pyproject.toml'}: ")
    assert "\n" not in str(told.value)
    assert told.value.exit_code == Exit.USAGE


def test_no_project_is_told(tmp_path: Path) -> None:
    """No pyproject.toml, or one outside of any git repository, is one line with the fix."""
    with pytest.raises(InvalidInputError, match=r"no pyproject\.toml here or above"):
        read(tmp_path)
    (tmp_path / "pyproject.toml").write_text(GOOD)
    with pytest.raises(InvalidInputError, match="not in a git working tree"):
        read(tmp_path)


def test_build_files_outside_of_sources_decide(tmp_path: Path) -> None:
    """A commit that changes setup.py alone has another build; one that changes a document has
    not."""
    repository = Repository(tmp_path / "fast")
    repository.write("pyproject.toml", GOOD + 'sources = ["csrc"]\n')
    repository.write("csrc/fast.cu", "")
    repository.write("setup.py", "")
    project, commits = read(repository.root), [repository.commit("First")]
    for name in ("README.md", "pyproject.toml", "setup.py"):
        repository.write(name, f"{name}\n")
        commits.append(repository.commit(f"Change {name}"))
    first, document, settings, script = (contents_of(project, one).sources for one in commits)
    assert first == document == settings != script
    by_pip = replace(project, build=("python", "-m", "pip", "install", "."))
    _, document, settings, script = (contents_of(by_pip, one).sources for one in commits)
    assert len({document, settings, script}) == 3
    assert replace(project, build=("sh", "tools/make.sh")).build_inputs[:2] == (
        "csrc",
        "tools/make.sh",
    )


@pytest.mark.parametrize("name", ["include/fast.h", "other/helper.cpp", "cmake/flags.cmake"])
def test_what_only_builds_read_decides_wherever_it_lies(tmp_path: Path, name: str) -> None:
    """Sources that the settings forget do not let a broken commit pass as one built before."""
    repository = Repository(tmp_path / "fast")
    repository.write("pyproject.toml", GOOD + 'sources = ["fast.cu"]\n')
    repository.write("fast.cu", "")
    commits, hashes = [], []
    for content in ("one", "two"):
        repository.write(name, content)
        commits.append(repository.commit(content))
        hashes.append(recipe_of(read(repository.root)).source_hash(repository.root))
    first, second = (contents_of(read(repository.root), one).sources for one in commits)
    assert first != second
    assert hashes[0] != hashes[1]


@pytest.mark.parametrize(
    ("name", "source", "built"),
    [("mesonpy", "fast.pyx", True), ("hatchling.build", "fast.pyx", False), ("mesonpy", "", False)],
)
def test_a_suites_project_is_built_by_its_backend(
    root: Path, name: str, source: str, built: bool
) -> None:
    """Without settings, if the backend has something to compile; what it requires is known."""
    text = f'[build-system]\nrequires = ["Cython"]\nbuild-backend = "{name}"\n'
    (root / "pyproject.toml").write_text(text)
    (root / (source or "fast.py")).write_text("")
    subprocess.run(["git", "-C", str(root), "add", "-A"], check=True)
    project = of_suite(root, root)
    expected = (backend.COMMAND, backend.FOLDER, ("Cython",)) if built else ((), ".", ())
    assert (project.build, project.path, project.requires) == expected


@pytest.mark.parametrize(
    ("start", "suite", "found"),
    [
        ("pkg", "pkg/tests", "pkg"),
        (".", "pkg/tests", "pkg"),
        ("old", "old/bench", "old"),
        (".", "tests", "."),
        ("pkg", "tests", "pkg"),
    ],
)
def test_a_suite_belongs_to_the_nearest_package(
    root: Path, start: str, suite: str, found: str
) -> None:
    """A package below the repository's root is found from where the user stands, or else from the
    suite; a pyproject.toml of tools alone is no package."""
    for name, text in (
        ("pyproject.toml", "[tool.ruff]"),
        ("pkg/pyproject.toml", "[project]"),
        ("pkg/tests/pyproject.toml", "[tool.ruff]"),
        ("old/setup.py", ""),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    assert of_suite(root / start, root / suite).directory == found
