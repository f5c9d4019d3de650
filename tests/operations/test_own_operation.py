"""An operation that a project brings: the page about it, word for word, and what may be wrong."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import forks
import pytest

from flashbench import operations, runfile
from flashbench.callables import OPERATIONS
from flashbench.errors import InvalidInputError
from flashbench.measuring.problem import OperationError, Problem
from flashbench.operations.of_project import Described, answer, imported

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


def written(folder: Path) -> list[str]:
    """Write the files of the page into a repository; returns its commands."""
    text = PAGE.read_text().partition("## An operation of your own")[2]
    files = re.findall(r"```\w+\n(# ([\w.]+)\n.*?)```", text, re.DOTALL)
    assert [name for _, name in files] == ["fb_ops.py", "ropes.py", "pyproject.toml"]
    for content, name in files:
        (folder / name).write_text(content)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], cwd=folder, check=True)
    return re.findall(r"^\$ flashbench (.*)$", text, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.thorough
def test_the_page_holds_word_for_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the page, in a new repository, are measured by the commands of the page; a fault
    in the candidate is caught by them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    project = tmp_path / "project"
    project.mkdir()
    commands = written(project)
    assert len((project / "fb_ops.py").read_text().splitlines()) <= 60
    said = {}
    for command in commands:
        done = forks.run(command.split(), project, {})
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        said[command.split()[0]] = done.stdout
    assert "length 64:" in said["show"]
    run = runfile.read(project / "rope.json")
    assert run.operation == "fb_ops:Rope"
    assert run.cases[0].id == "rope-batch1-heads2-length16-dim32-fp32-cpu"
    assert run.cases[0].flops == 3 * 2 * 16 * 32
    assert {r.status for launch in run.launches for r in launch.results} == {"ok"}
    candidate = project / "ropes.py"
    candidate.write_text(candidate.read_text().replace("x * cos", "x"))
    faulty = forks.run(commands[0].split(), project, {})
    assert faulty.returncode == 1
    assert "exceeds the bound" in faulty.stdout
    module = project / "fb_ops.py"
    text = module.read_text().replace(
        '"tiny": [', '"mine": ["batch=1,heads=1,length=8,dim=8"], "tiny": ['
    )
    module.write_text(
        text.replace("return 3 *", "return 2.5 *").replace("rotate(*(", "rotate(None, *(")
    )
    blamed = forks.run(
        ["run", "--preset", "mine", "--dtype", "fp32", "--device", "cpu"], project, {}
    )
    assert blamed.returncode == 4, blamed.stderr
    assert "operation fb_ops:Rope: truth raises TypeError: rotate() takes 3" in blamed.stdout
    assert "crashed" not in blamed.stdout
    built = forks.run(commands[0].split(), project, {})
    assert "operation fb_ops:Rope: truth raises TypeError: rotate() takes 3" in built.stdout
    unknown = forks.run(["run", "--preset", "small"], project, {})
    assert "fb_ops:Rope has no preset 'small'; presets are mine, tiny, headline" in unknown.stderr


@pytest.mark.slow
def test_another_definition_is_no_part_of_a_run(tmp_path: Path) -> None:
    """A run is not resumed after the module of its operation changed."""
    written(tmp_path)
    words = "run --operation fb_ops:Rope --shape batch=1,heads=2,length=8,dim=16 --dtype fp32"
    words += " --device cpu --samples 2 --min-sample 0.1ms --format none -o run.json"
    words += " --candidate mine=ropes:rope --launches"
    assert forks.run([*words.split(), "1"], tmp_path, {}).returncode == 0
    module = tmp_path / "fb_ops.py"
    module.write_text(module.read_text() + "# changed\n")
    changed = forks.run([*words.split(), "2"], tmp_path, {})
    assert changed.returncode == 2
    assert "the build of candidate torch:eager changed" in changed.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("class Rope", "class Other"), "has no flashbench.operations.Operation named 'Rope'"),
        (("    presets =", "    others ="), "it lacks 'presets'"),
        (('"tiny": [', '"small": ['), "has no preset 'tiny'"),
        (("heads=2,", ""), "heads is missing"),
        (("def truth", "def other"), "it does not define truth"),
    ],
)
def test_what_is_wrong_with_an_operation_is_one_line(
    change: tuple[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an operation lacks is named."""
    monkeypatch.delitem(sys.modules, "fb_ops", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # other sources of this name follow
    written(tmp_path)
    module = tmp_path / "fb_ops.py"
    module.write_text(module.read_text().replace(*change))
    with pytest.raises(InvalidInputError, match=r"^operation fb_ops:Rope: [^\n]+$") as caught:
        imported("fb_ops:Rope", str(tmp_path))
    assert said in str(caught.value)
    del sys.modules["fb_ops"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("import torch", "import nothing_there"), "ModuleNotFoundError"),
        (("import torch", "import os; os._exit(3)"), "its process ended with 3"),
    ],
)
def test_a_module_that_does_not_import_is_one_line(
    change: tuple[str, str], said: str, tmp_path: Path
) -> None:
    """Imported in a process of its own, even one that ends it is named with the reason."""
    written(tmp_path)
    module = tmp_path / "fb_ops.py"
    module.write_text(module.read_text().replace(*change))
    with pytest.raises(InvalidInputError, match=r"^operation fb_ops:Rope: [^\n]+$") as caught:
        Described("fb_ops:Rope", str(tmp_path))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("return Inputs(", "return tuple("), "inputs returns tuple, not Inputs"),
        (
            ("angles = torch.outer", "raise ValueError('no such')  #"),
            "inputs raises ValueError: no such",
        ),
        (("return rotate\n", "return lambda *_: None\n"), "returns NoneType, not a tensor"),
        (
            ("x.double()", "x.float()"),
            "truth returns torch.float32 (1, 2, 16, 32), not torch.float64 ",
        ),
        (
            (
                "rotate(*(x.double() for x in inputs.tensors))",
                "rotate(*(x.double() for x in inputs.tensors))[0]",
            ),
            "truth returns torch.float64 (2, 16, 32), not",
        ),
        (
            (
                "    def eager",
                "    def change(self, tensors):\n        tensors.neg_()\n\n    def eager",
            ),
            "change raises AttributeError",
        ),
    ],
)
def test_the_operation_is_to_blame_for_what_its_methods_do(
    change: tuple[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No candidate is wrong, and nothing of ours crashes: the method is named in one line."""
    monkeypatch.delitem(sys.modules, "fb_ops", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(operations, "of_projects", {})
    written(tmp_path)
    module = tmp_path / "fb_ops.py"
    text = module.read_text().replace("    change_negates = True  # x becomes -x\n", "")
    module.write_text(text.replace(*change))
    known = imported("fb_ops:Rope", str(tmp_path))
    operations.know(known)
    case = known.case(known.preset("tiny")[0], "fp32", "cpu")
    with pytest.raises(OperationError, match=r"^operation fb_ops:Rope: [^\n]+$") as caught:
        Problem(case, seed=0, full_check=True)
    assert said in str(caught.value)
    del sys.modules["fb_ops"]


def test_counts_that_raise_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that answers for the operation names the method, as for any other fault."""
    monkeypatch.delitem(sys.modules, "fb_ops", raising=False)
    written(tmp_path)
    module = tmp_path / "fb_ops.py"
    module.write_text(module.read_text().replace("return 3 *", "return None *"))
    sizes = dict.fromkeys(("batch", "heads", "length", "dim"), 8)
    asked = json.dumps({"shapes": [sizes], "options": [{}]}).encode()
    stdout = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(asked)))
    monkeypatch.setattr(sys, "stdout", stdout)
    answer("fb_ops:Rope", str(tmp_path))
    del sys.modules["fb_ops"]
    error = json.loads(stdout.getvalue())["error"]
    assert error.startswith("operation fb_ops:Rope: flops raises TypeError: unsupported operand")


def test_no_operation_of_ours_is_replaced(tmp_path: Path) -> None:
    """Ids begin with the operation's name, so a project's may not be called like a built-in one."""
    written(tmp_path)
    module = tmp_path / "fb_other.py"
    module.write_text((tmp_path / "fb_ops.py").read_text().replace("class Rope", "class Softmax"))
    with pytest.raises(InvalidInputError, match="softmax is an operation of flashbench"):
        imported("fb_other:Softmax", str(tmp_path))


def test_an_unknown_operation_has_words() -> None:
    """A case of an operation that is not here is read, sorted and named by its id alone."""
    case = operations.read_case("rope-batch1-dim32-fp16-causal-cuda")
    assert case is not None
    assert case.sizes == {"batch": 1, "dim": 32}
    known = operations.of(case)
    assert known.parts(case)["batch"] == 1
    assert known.in_words(case) == "batch 1, dim 32, causal, fp16"
    assert operations.read_case("tests/test_x.py::test_y[1]") is None


def test_settings_know_the_built_in_operations() -> None:
    """The names that settings accept without importing any operation are those that there are."""
    assert tuple(operations.BUILT_IN) == OPERATIONS
