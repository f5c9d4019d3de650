"""Settings from `[tool.flashbench.<command>]` in the nearest pyproject.toml; flags override
them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from flashbench import project_cases
from flashbench.errors import InvalidInputError
from flashbench.pyproject import find_pyproject, read_pyproject, table_of

_NUMBERS = 2**64  # longer texts are not settings


def defaults(command: click.Command, path: Path, commands: Sequence[str] = ()) -> dict[str, Any]:
    """Defaults of a command's options from this pyproject.toml, by parameter name.

    commands: those that may have a table, to check the names of all tables.

    A key is an option's long name without dashes; the value is what would follow the flag, or a
    list for repeatable options. Raises InvalidInputError naming file and key.
    """
    name = command.table if isinstance(command, SettingsCommand) else str(command.name)
    options = {
        flag.removeprefix("--"): parameter
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
        for flag in parameter.opts
        if flag.startswith("--")
    }
    document = read_pyproject(path)
    if commands:
        _require_known_tables(path, document, commands)
    found: dict[str, Any] = {}
    for key, value in table_of(path, document, name).items():
        where = f"{path}: [tool.flashbench.{name}]"
        option = options.get(key)
        if option is None or option.name is None:
            raise InvalidInputError(
                f"{where} has no setting {key!r}; settings are {', '.join(sorted(options))}"
            )
        found[option.name] = _as_written(option, value, f"{where} {key}")
    for key, value in project_cases.read(path, document).given.items():
        option = options.get(key)
        if option is not None and option.name is not None:
            found.setdefault(option.name, value)
    return found


def _as_written(option: click.Option, value: Any, where: str) -> Any:
    """A setting as the command line would pass it: strings, or true or false."""
    if option.is_flag:
        if not isinstance(value, bool):
            raise InvalidInputError(f"{where} must be true or false")
        return value
    if isinstance(value, list) != option.multiple:
        raise InvalidInputError(f"{where} must be {'a list' if option.multiple else 'one value'}")
    values = value if option.multiple else [value]
    for one in values:
        number = isinstance(one, int | float) and not isinstance(one, bool) and abs(one) < _NUMBERS
        if not number and not (isinstance(one, str) and "\0" not in one):
            kind = "a list of strings and numbers" if option.multiple else "a string or a number"
            raise InvalidInputError(f"{where} must be {kind}")
    return [str(one) for one in values] if option.multiple else str(value)


class SettingsCommand(click.Command):
    """A command whose defaults come from pyproject.toml."""

    @property
    def table(self) -> str:
        """The table [tool.flashbench]."""
        return str(self.name)

    def settings(self, path: Path, commands: Sequence[str]) -> dict[str, Any]:
        return defaults(self, path, commands)

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        path = find_pyproject(Path.cwd())
        root = parent.find_root() if parent else None
        group = root.command if root else None
        commands = group.list_commands(root) if root and isinstance(group, click.Group) else ()
        extra["default_map"] = self.settings(path, commands) if path else {}
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.BadParameter as error:
            setting = _setting(error)
            if setting is None:
                raise
            assert path is not None
            own = table_of(path, read_pyproject(path), self.table)
            table = self.table if setting in own else project_cases.NAME
            raise InvalidInputError(
                f"{path}: [tool.flashbench.{table}] {setting}: {error.message}"
            ) from None


def _require_known_tables(path: Path, document: dict[str, Any], commands: Sequence[str]) -> None:
    """A misspelt table would silently have no effect."""
    known = sorted([*commands, project_cases.NAME, "prices", "project"])
    found = document.get("tool", {})
    ours = found.get("flashbench", {}) if isinstance(found, dict) else {}
    for name in ours if isinstance(ours, dict) else ():
        if name not in known:
            raise InvalidInputError(
                f"{path}: [tool.flashbench] has no table {name!r}; tables are {', '.join(known)}"
            )


def _setting(error: click.BadParameter) -> str | None:
    """The key of the invalid setting; None if the command line is at fault."""
    option, context = error.param, error.ctx
    if option is None or option.name is None or context is None:
        return None
    if context.get_parameter_source(option.name) is not ParameterSource.DEFAULT_MAP:
        return None
    return next(flag for flag in option.opts if flag.startswith("--")).removeprefix("--")
