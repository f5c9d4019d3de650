"""The project under test: its settings, its revisions, and each of them built."""

from flashbench.project.prepare import Built, prepare
from flashbench.project.revision import WORKTREE, Revision, resolve
from flashbench.project.settings import Project, find, read

__all__ = ["WORKTREE", "Built", "Project", "Revision", "find", "prepare", "read", "resolve"]
