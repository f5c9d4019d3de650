"""Plain-language messages for damaged files, instead of the decoders' or Python's own."""

import json
import re
from collections.abc import Callable

from flashbench.inputs import reason

_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "nothing",
}
_QUOTED = 60
# Raised by json, msgspec (whose errors are ValueErrors) and text decoding.
UNREADABLE = (ValueError, RecursionError, OverflowError)
_PLACE = re.compile(r" - at (?:`key` in )?`\$\.?(.*)`$", re.DOTALL)
_INSIDE = re.compile(r" - inside `([^`]*)`$")  # of a part that is decoded on its own
_RULES: list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]] = [
    (
        re.compile(r"Expected `array` of length (\d+)(?:, got (\d+))?"),
        lambda said: f"expected a list of {said[1]}" + (f", found {said[2]}" if said[2] else ""),
    ),
    (
        re.compile(r"Expected `([a-z |]+)`, got `([a-z]+)`"),
        lambda said: f"expected {_kinds(said[1])}, found {_kinds(said[2])}",
    ),
    (
        re.compile(r"Object missing required field `(.+)`", re.DOTALL),
        lambda said: f"has no {said[1][:_QUOTED]!r}",
    ),
    (
        re.compile(r"Object contains unknown field `(.+)`", re.DOTALL),
        lambda said: f"has {said[1][:_QUOTED]!r}, which is not one of its fields",
    ),
    (
        re.compile(r"Invalid (?:enum )?value (.+)", re.DOTALL),
        lambda said: f"{said[1][:_QUOTED]} is not one of the possible values",
    ),
    (
        re.compile(r"JSON is malformed: (.+) \(byte (\d+)\)"),
        lambda said: f"invalid JSON at byte {said[2]}: {said[1]}",
    ),
    (re.compile(r"Input data was truncated"), lambda said: "it ends too early"),
    (re.compile(r"Number out of range"), lambda said: "the number is out of range"),
    (re.compile(r"Exceeds the limit .* digits.*"), lambda said: "a number has too many digits"),
    (
        re.compile(r"(Cannot [a-z ]+) \(('.+?'),?\)(| twice)(| \(at .*)"),
        lambda said: f"{said[1]} {said[2].replace(', ', '.')}{said[3]}{said[4]}",  # TOML's tuple
    ),
]


def damage(error: Exception) -> str:
    """The message of `error`, raised while reading or decoding a file, with the place in the file.

    Texts of msgspec, json, tomllib and Python are rephrased; errors that we raised ourselves are
    already in plain language.
    """
    if isinstance(error, OSError):
        return reason(error)
    if isinstance(error, UnicodeError):
        return "not UTF-8 text"
    if isinstance(error, RecursionError):
        return "nested too deep"
    if isinstance(error, OverflowError):
        return "a number is too large"
    if isinstance(error, json.JSONDecodeError):
        if error.pos >= len(error.doc.rstrip()):
            return "it ends too early"
        return f"invalid JSON at line {error.lineno}, column {error.colno}"
    if isinstance(error, KeyError):
        return f"has no {str(error.args[0])[:_QUOTED]!r}"
    if isinstance(error, TypeError | AttributeError | IndexError):
        return "a value of an unexpected kind"
    return _plain(str(error))


def _plain(text: str) -> str:
    place = _PLACE.search(text)
    what = text[: place.start()] if place else text
    inside = _INSIDE.search(what)
    what = what[: inside.start()] if inside else what
    for pattern, words in _RULES:
        if said := pattern.fullmatch(what):
            what = words(said)
            break
    if place is None:
        return what
    where = f"a name in {place[1] or 'the object'}" if "`key` in" in place[0] else place[1]
    where = f"{where}.{inside[1]}" if inside else where
    return f"{where}: {what}" if where else what


def _kinds(names: str) -> str:
    return " or ".join(_KINDS.get(name, name) for name in names.split(" | "))
