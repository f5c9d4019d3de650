"""What is sent to another machine, and what is not."""

from pathlib import Path

import pytest
from revisions.repository import Repository

from flashbench.cloud.sources import write_worktree
from flashbench.errors import InvalidInputError


@pytest.mark.parametrize("name", [".env", ".env.local", "keys/id_rsa", "a.PEM", ".aws/credentials"])
def test_untracked_credentials_are_not_sent(name: str, project: Repository, tmp_path: Path) -> None:
    """A file that git ignores, or has, is the user's decision; another is refused."""
    file = project.root / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("secret")
    target = tmp_path / "worktree.tar"
    with pytest.raises(InvalidInputError, match="looks like credentials"):
        write_worktree(project.root, target)
    assert not target.exists()
    (project.root / ".gitignore").write_text(f"/{name}\n")
    assert write_worktree(project.root, target)
    assert b"secret" not in target.read_bytes()
