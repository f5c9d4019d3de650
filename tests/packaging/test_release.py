"""The workflow of a release, and the section of the changelog that a tag has."""

import datetime
import os
import subprocess
import sys
from pathlib import Path

import changelog
import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = [ROOT / f"docs/{folder}/github-actions.yml" for folder in ("ci", "releasing")]
TEXT = """# Changelog

## Unreleased

- new

## 0.1.0 - 2026-01-02

- old
"""


def test_github_takes_the_workflows() -> None:
    """They follow the schema that GitHub's workflows have."""
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    command += ["vendor.github-workflows", *map(str, WORKFLOWS)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_only_publishing_may_write() -> None:
    """A token to publish with is had by the job that does, after the others, and by tags alone."""
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with asv")
    workflow = yaml.safe_load(WORKFLOWS[1].read_text())
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads `on` as true
    assert workflow["permissions"] == {"contents": "read"}
    rights = {name: job.get("permissions") for name, job in workflow["jobs"].items()}
    assert rights.pop("publish") == {"id-token": "write"}
    assert rights.pop("announce") == {"contents": "write"}
    assert set(rights.values()) == {None}
    assert workflow["jobs"]["publish"]["needs"] == "try"
    scripts = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    assert not [script for script in scripts if "${{" in script]


def test_a_release_takes_what_is_unreleased() -> None:
    """The section of a version holds what stood under Unreleased, which is empty then."""
    cut = changelog.cut(TEXT, "0.2.0", datetime.date(2026, 3, 4))
    assert "## Unreleased\n\n## 0.2.0 - 2026-03-04\n\n- new\n\n## 0.1.0" in cut
    assert changelog.section(cut, "0.2.0") == "- new\n"
    assert changelog.section(cut, "0.1.0") == "- old\n"
    for wrong in (lambda: changelog.cut(cut, "0.3.0", datetime.date(2026, 3, 5)),
                  lambda: changelog.section(cut, "0.3")):  # fmt: skip
        with pytest.raises(LookupError):
            wrong()


def test_a_tag_that_is_not_the_version_ends_the_release() -> None:
    """One line says which version pyproject.toml has."""
    command = [sys.executable, "scripts/changelog.py", "v99.0.0"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True)
    assert done.returncode == 1
    assert "not 99.0.0; see docs/releasing.md" in done.stderr
