"""Which source file should define a symbol that the linker or the loader did not find.

A guess from the text of the sources and the build log, without a compiler.
"""

import os
import re
from pathlib import Path

from flashbench.builds.content import HEADERS, UNITS

_SYMBOL = re.compile(
    r"undefined symbol: (?P<loader>.+)|undefined reference to [`'](?P<linker>[^']+)'"
)
_HELD = ("should hold it", "declared in ")  # in each line of `should_have_held`
_LARGEST = 2_000_000  # bytes read from a source file


def should_have_held(reason: str, checkout: Path, log: str) -> str:
    """A line that names the unit, or "" if the reason is not about a symbol or nothing is found.

    reason: with demangled names. checkout: the sources; log: the build's output.
    """
    found = _SYMBOL.search(reason)
    if found is None:
        return ""
    symbol = (found["loader"] or found["linker"]).strip()
    name = _name_of(symbol)
    if not name:
        return ""
    word = rf"(?<!\w){re.escape(name)}(?!\w)"
    # At the start of a line with neither "=" nor "(" before it: no call, and no declaration.
    function = rf"{word}\s*\([^;{{}}]*\)[^;{{}}]*\{{"
    variable = rf"{word}\s*(\[[^\]\n]*\]\s*)*(=|\{{|;)"
    defines = re.compile(
        rf"^(?!\s*(extern|using|return|typedef)\b)[^\n=;(]*({function}|(?<=[\s*&:]){variable})",
        re.MULTILINE,
    )
    # For a member of a class template, the class is instantiated.
    whole = "|".join(map(re.escape, filter(None, [name, _class_of(symbol)])))
    instantiates = re.compile(rf"\btemplate\s+[^<;{{}}]*(?<!\w)({whole})\s*(?:<|\()")
    mentions = re.compile(word)
    left_out, instantiated, defined, declared = [], [], [], []
    names_units = _names_units(log)
    unsure = "" if names_units else ", or was not compiled (the build's log does not say)"
    for path in _sources(checkout):
        try:
            text = path.read_text(errors="replace")
        except OSError:
            continue
        if not mentions.search(text):
            continue
        shown = path.relative_to(checkout).as_posix()
        if path.suffix in HEADERS:
            declared.append(shown)
        elif instantiates.search(text) or defines.search(text):
            if names_units and not re.search(rf"\b{re.escape(path.name)}\b", log):
                left_out.append(shown)
            elif instantiates.search(text):
                instantiated.append(shown)
            else:
                defined.append(shown)
    if left_out:
        return f"{', '.join(left_out[:3])} should hold it, and was not compiled"
    if instantiated:
        does = f"instantiates {name} for others"
        return f"{', '.join(instantiated[:3])} should hold it: it {does}{unsure}"
    if defined:
        return f"{', '.join(defined[:3])} should hold it: it defines another {name}{unsure}"
    if declared:
        return f"declared in {', '.join(declared[:3])}, defined in no unit"
    return ""


def _names_units(log: str) -> bool:
    """Whether a log names compiled units in commands or progress lines. Diagnostics, with ":" or
    "(" after the name, do not count, because any log has them."""
    return any(
        re.sub(r"\.(o|obj)$", "", found[0]).endswith(UNITS)
        and not log.startswith((":", "("), found.end())
        for found in re.finditer(r"[\w.+-]+", log)
    )


def first_line(reason: str) -> str:
    """The most informative line of a reason, with the unit that should define a symbol."""
    lines = reason.splitlines() or [""]
    held = lines[-1] if len(lines) > 1 and any(sign in lines[-1] for sign in _HELD) else ""
    return f"{lines[0]}; {held}" if held else lines[0]


def _name_of(symbol: str) -> str:
    """The last name of `void ns::launch<bf16>(float*, int)`, without scopes and arguments; "" for
    an operator."""
    found = re.search(r"~?[A-Za-z_]\w*$", _without_arguments(symbol))
    return found[0] if found and "operator" not in symbol else ""


def _class_of(symbol: str) -> str:
    """`Kernel` of `ns::Kernel<double, 128>::run(double)`; "" without template arguments."""
    scope = _without_arguments(symbol).rpartition("::")[0]
    found = re.search(r"[A-Za-z_]\w*$", _without_brackets(scope))
    return found[0] if found and scope.endswith(">") else ""


def _without_arguments(symbol: str) -> str:
    depth = 0
    for place, character in enumerate(symbol):
        depth += (character == "<") - (character == ">")
        if character == "(" and depth == 0 and not symbol[place:].startswith("(anonymous"):
            return _without_brackets(symbol[:place])
    return _without_brackets(symbol)


def _without_brackets(head: str) -> str:
    """`ns::launch` of `ns::launch<bf16>`."""
    while head.endswith(">"):
        head, _ = last_angled(head)
    return head


def last_angled(text: str) -> tuple[str, str]:
    """`name<a, b>` as the name and what the brackets hold; nothing where they do not match."""
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        depth += (text[place] == ">") - (text[place] == "<")
        if depth == 0:
            return text[:place].rstrip(), text[place + 1 : -1]
    return "", ""


def _sources(checkout: Path) -> list[Path]:
    found = []
    for directory, names, files in os.walk(checkout):
        names[:] = sorted(name for name in names if not name.startswith("."))
        for name in sorted(files):
            path = Path(directory) / name
            if path.suffix not in (*UNITS, *HEADERS) or path.is_symlink():
                continue
            if path.stat().st_size <= _LARGEST:
                found.append(path)
    return found
