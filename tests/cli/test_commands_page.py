"""docs/commands.md and docs/settings.md say what the code has."""

import re
from pathlib import Path

import commands_page

from flashbench.cli import COMMANDS

ROOT = Path(__file__).parents[2]
# Between processes of ours, or from the build to CMake: nobody sets them.
_OUR_OWN = {"BUILD_DIR", "CCACHE", "COMMIT", "DIRTY", "KEPT_BY", "SOURCE_HASH", "TASK_OF"}


def test_the_page_of_commands_is_what_the_script_makes() -> None:
    """After a change of an option: python scripts/commands_page.py."""
    assert commands_page.PAGE.read_text() == commands_page.page()


def test_every_command_and_option_is_on_the_page() -> None:
    """Each command has its section, and `run` its best known options."""
    text = commands_page.page()
    assert all(f"\n## {name}\n" in text for name in COMMANDS)
    run = text.partition("\n## run\n")[2].partition("\n## ")[0]
    assert "| `--candidate [NAME=]MODULE:FUNCTION` |" in run
    assert r"| `--causal [both\|causal\|full\|bottom_right]` |" in run
    assert "4 a candidate could not be measured" in run


def test_every_variable_of_the_environment_is_documented() -> None:
    """A FLASHBENCH_ variable that Python, make or the kernels read is in docs/settings.md."""
    sources = [*ROOT.glob("flashbench/**/*.py"), ROOT / "setup.py", ROOT / "csrc/cpu/dispatch.cpp"]
    text = "".join(path.read_text() for path in sources)
    variables = set(re.findall(r'"FLASHBENCH_([A-Z_]+)"', text)) - _OUR_OWN
    assert {"CACHE", "CUDA_ARCHS", "CPU_ISA"} <= variables
    page = (ROOT / "docs/settings.md").read_text()
    assert [name for name in sorted(variables) if f"`FLASHBENCH_{name}`" not in page] == []
