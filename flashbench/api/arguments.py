"""Check the arguments of public functions as the commands check theirs: by the types of their
options."""

import inspect
import re
from collections.abc import Callable, Iterable
from functools import cache, partial, wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar, get_args

import click
from click.core import ParameterSource

from flashbench.cli.parameter_types import Duration, PathType
from flashbench.errors import FlashbenchError, InvalidInputError

P = ParamSpec("P")
R = TypeVar("R")

_NAMES = {"tests": "pytest", "run_file": "path"}  # of options here
_FREE = {"candidates"}  # may be functions
_HERE: dict[str, click.ParamType[Any]] = {  # where the option has another type, or there is none
    "budget": Duration(),
    "path": PathType(folder=False),
    "progress": click.BOOL,
}
_FLAG = re.compile(r"--([a-z][a-z-]*)( (?=\d))?")  # perhaps with a number


def one_of(literal: Any) -> click.ParamType[Any]:
    """The type of a parameter that is annotated with this Literal."""
    return click.Choice([value for one in get_args(literal) for value in get_args(one) or (one,)])


def checked(
    command: str = "", **types: click.ParamType[Any]
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: a parameter is converted as the option of the command is, or by the type given
    here; None is the default. InvalidInputErrors name parameters, not flags."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @wraps(function)
        def call(*positional: P.args, **named: P.kwargs) -> R:
            bound = signature.bind(*positional, **named)
            known = _options(command) | {
                one: (kind, False) for one, kind in (_HERE | types).items()
            }
            for name, value in bound.arguments.items():
                default = signature.parameters[name].default
                if value is None and default is not inspect.Parameter.empty:
                    bound.arguments[name] = default
                elif name in known:
                    bound.arguments[name] = _converted(name, value, *known[name])
            try:
                return function(*bound.args, **bound.kwargs)
            except FlashbenchError as error:
                error.args = (in_parameters(function)(str(error)),)
                raise

        return call

    return decorate


def project_settings(command: str) -> dict[str, Any]:
    """What the command's table in the project's pyproject.toml sets, by parameter or option.

    Raises InvalidInputError naming file and key.
    """
    context = _context(command)
    return {
        _NAMES.get(name, name): value
        for name, value in context.params.items()
        if context.get_parameter_source(name) is ParameterSource.DEFAULT_MAP
    }


def command_options(command: str) -> dict[str, Any]:
    """All options of the command, by parameter or option: what `project_settings` has, else the
    default."""
    return {_NAMES.get(name, name): value for name, value in _context(command).params.items()}


def in_parameters(function: Callable[..., Any]) -> Callable[[str], str]:
    """What puts the parameters of a function in place of the flags in a text."""
    return partial(_FLAG.sub, _parameter_of(inspect.signature(function)))


def _context(name: str) -> click.Context:
    command = _command(name)
    needed = [one for one in command.params if isinstance(one, click.Argument) and one.required]
    return command.make_context(name, ["A"] * len(needed))


def _command(name: str) -> click.Command:
    found: click.Command = import_module(f"flashbench.cli.{name}").command
    return found


@cache
def _options(command: str) -> dict[str, tuple[click.ParamType[Any], bool]]:
    """The type of a command's options, by parameter, and whether each may be repeated."""
    if not command:
        return {}
    return {
        _NAMES.get(one.name, one.name): (one.type, one.multiple)
        for one in _command(command).params
        if isinstance(one, click.Option) and one.name not in _FREE
    }


def _converted(name: str, value: Any, kind: click.ParamType[Any], many: bool) -> Any:
    try:
        if not many:
            return kind.convert(value, None, None)
        if not isinstance(value, Iterable):
            raise InvalidInputError(f"{name}: {value!r} is not a list")
        return [
            kind.convert(one, None, None) for one in ([value] if isinstance(value, str) else value)
        ]
    except click.BadParameter as error:
        raise InvalidInputError(f"{name}: {error.message}") from None


def _parameter_of(signature: inspect.Signature) -> Callable[[re.Match[str]], str]:
    """What a flag in an error is here."""

    def named(flag: re.Match[str]) -> str:
        name = flag[1].replace("-", "_")
        known = {"baseline_only": "candidates=[]", "run_file": "path", "candidate": "candidates"}
        if name not in known and name not in signature.parameters:
            return flag[0]
        return known.get(name, name) + ("=" if flag[2] else "")

    return named
