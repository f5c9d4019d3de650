"""Which operation a command measures: of the flag, the project, the run file, or attention."""

from pathlib import Path

from flashbench import operations
from flashbench.errors import InvalidInputError
from flashbench.pyproject import find_pyproject, read_pyproject, table_of


def chosen(name: str | None, *, of_revisions: bool = False) -> str:
    """Register and return the operation named by a flag, else by the project.

    of_revisions: it must be the project's own, by which revisions are checked, or have the same
    candidates. Raises InvalidInputError.
    """
    file = find_pyproject(Path.cwd())
    table = {} if file is None else table_of(file, read_pyproject(file), "project")
    wanted = name or table.get("operation", operations.DEFAULT)
    if not isinstance(wanted, str):
        raise InvalidInputError(f"{file}: [tool.flashbench.project] operation: must be a string")
    own = table.get("operation", operations.DEFAULT)
    kin = operations.BUILT_IN.get(wanted)
    if of_revisions and wanted != own and (kin is None or kin.candidates_of != own):
        raise InvalidInputError(
            f'revisions are checked as {own}; set operation = "{wanted}" in '
            "[tool.flashbench.project] of pyproject.toml instead"
        )
    path = table.get("path", ".")
    make_known(wanted, str(file.parent / path) if file and isinstance(path, str) else "")
    return wanted


def make_known(name: str, import_root: str = "") -> None:
    """Ask for what a project says of its operation, once. Raises InvalidInputError."""
    if ":" in name and name not in operations.of_projects:
        from flashbench.operations.of_project import Described

        operations.know(Described(name, import_root))
    operations.named(name)
