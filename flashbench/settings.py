"""Settings from `[tool.flashbench.<command>]` of the nearest pyproject.toml; flags win."""

import tomllib
from pathlib import Path
from typing import Any

import click

from flashbench.errors import InvalidInputError


def find_pyproject(start: Path) -> Path | None:
    """The pyproject.toml of `start` or of the nearest directory above it."""
    for directory in (start, *start.parents):
        if (directory / "pyproject.toml").is_file():
            return directory / "pyproject.toml"
    return None


def defaults(command: click.Command, start: Path) -> dict[str, Any]:
    """Defaults of a command's options, by parameter name.

    A key is an option's long name without dashes; the value is what one would write after the
    flag, a list for options that repeat. Raises InvalidInputError naming file and key.
    """
    path = find_pyproject(start)
    if path is None:
        return {}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{path}: cannot be read: {error}") from None
    where = f"[tool.flashbench.{command.name}]"
    table = document.get("tool", {}).get("flashbench", {}).get(command.name, {})
    if not isinstance(table, dict):
        raise InvalidInputError(f"{path}: {where} must be a table")
    options = {
        flag.removeprefix("--"): parameter
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for flag in parameter.opts
        if flag.startswith("--")
    }
    found: dict[str, Any] = {}
    for key, value in table.items():
        option = options.get(key)
        if option is None or option.name is None:
            raise InvalidInputError(
                f"{path}: {where} has no setting {key!r}; settings are {', '.join(sorted(options))}"
            )
        if isinstance(value, list) != option.multiple or isinstance(value, dict):
            kind = "a list" if option.multiple else "one value"
            raise InvalidInputError(f"{path}: {where} {key} must be {kind}")
        found[option.name] = value
    return found


class SettingsCommand(click.Command):
    """A command whose defaults come from pyproject.toml."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        extra["default_map"] = defaults(self, Path.cwd())
        return super().make_context(info_name, args, parent, **extra)
