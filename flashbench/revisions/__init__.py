"""The project under test: its settings, and its revisions made callable."""

from flashbench.revisions.built import Built
from flashbench.revisions.prepare import prepare
from flashbench.revisions.project import Project, find, read
from flashbench.revisions.revision import WORKTREE, Revision, resolve

__all__ = ["WORKTREE", "Built", "Project", "Revision", "find", "prepare", "read", "resolve"]
