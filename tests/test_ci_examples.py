"""The workflows of docs/ci and examples/: valid YAML, existing flags, nothing that untrusted
input can exploit."""

import re
import shlex
from pathlib import Path
from string import Template

import click
import pytest

from flashbench.cli import cli

yaml = pytest.importorskip("yaml", reason="PyYAML comes with asv")

FOLDER = Path(__file__).parents[1] / "docs" / "ci"
EXAMPLES = Path(__file__).parents[1] / "examples"
FILES = sorted([*FOLDER.glob("*.yml"), *EXAMPLES.glob("*.yml")])


def _scripts(node):
    """The shell text of a workflow: every `run` and `script`."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("run", "script"):
                yield from value if isinstance(value, list) else [value]
            else:
                yield from _scripts(value)
    elif isinstance(node, list):
        for inner in node:
            yield from _scripts(inner)


def _variables(node):
    """The environment that a workflow sets, whatever the level."""
    found = {}
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        if key in ("env", "variables"):
            found |= value
        elif isinstance(value, (dict, list)):
            found |= _variables(value)
    return found


def _commands(path):
    workflow = yaml.safe_load(path.read_text())
    for script in _scripts(workflow):
        words = shlex.split(Template(script).safe_substitute(_variables(workflow)))
        if words[0] == "flashbench":
            yield words[1:]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_command_line_takes_it(path):
    """What the example calls is a command, with flags that it has and values that they take."""
    found = list(_commands(path))
    assert found
    for name, *words in found:
        context = cli.get_command(None, name).make_context(name, words)
        assert context.params["budget"] == 600
        with pytest.raises(click.UsageError):
            cli.get_command(None, name).make_context(name, [*words, "--no-such-flag"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_expression_becomes_shell(path):
    """Nothing is pasted into a script: variables come from the environment, in quotes."""
    for script in _scripts(yaml.safe_load(path.read_text())):
        assert "${{" not in script
        assert not re.search(r'(?<!")\$', script)


@pytest.mark.parametrize("path", [FOLDER / "github-actions.yml", EXAMPLES / "ci-asv.yml"])
def test_the_workflow_may_only_read(path):
    """Code of a fork runs: read-only, no secrets, no kept token, actions at a major version."""
    text = path.read_text()
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow[True] == "pull_request"  # YAML 1.1 reads `on` as true
    assert "secrets." not in text
    steps = workflow["jobs"]["compare"]["steps"]
    uses = [step["uses"] for step in steps if "uses" in step]
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", used) for used in uses)
    assert steps[0]["with"] == {"fetch-depth": 0, "persist-credentials": False}


def test_the_report_is_kept_when_the_job_fails():
    """The file that is written is the one that GitLab reads, also after exit code 1."""
    job = yaml.safe_load((FOLDER / "gitlab-ci.yml").read_text())["attention-speed"]
    (words,) = _commands(FOLDER / "gitlab-ci.yml")
    assert job["artifacts"]["when"] == "always"
    assert job["artifacts"]["reports"]["junit"] == words[words.index("-o") + 1]
