"""How a commit comes into asv's environment."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashbench.history.asv_env import PACKAGE, FlashbenchEnvironment


@pytest.mark.parametrize("link", ["_C.so", "kernels"])
def test_install_writes_through_no_link(tmp_path: Path, link: str) -> None:
    """A commit that brings a link where its build delivers a file gets the file; what the link
    leads to stays as it is."""
    outside, commit, site = tmp_path / "outside", tmp_path / "commit", tmp_path / "site"
    outside.mkdir()
    (outside / "_C.so").write_text("precious")
    (commit / PACKAGE).mkdir(parents=True)
    (commit / PACKAGE / "__init__.py").touch()
    (commit / PACKAGE / link).symlink_to(outside / "_C.so" if link == "_C.so" else outside)
    delivered = tmp_path / "build" / "lib" / PACKAGE / ("" if link == "_C.so" else link)
    delivered.mkdir(parents=True)
    (delivered / "_C.so").write_text("built")
    environment: Any = SimpleNamespace(
        _built=SimpleNamespace(directory=str(tmp_path / "build")), _site=site
    )
    FlashbenchEnvironment._install_project(environment, None, "", str(commit))
    installed = site / PACKAGE / delivered.relative_to(tmp_path / "build" / "lib" / PACKAGE)
    assert (installed / "_C.so").read_text() == "built"
    assert (outside / "_C.so").read_text() == "precious"
