"""Untrusted text: names and reasons from run files are escaped for each output.

Terminals obey control characters, markdown and HTML their markup, spreadsheets a leading `=`, and
CI logs the runner's commands.
"""

import re
import unicodedata

# Control, format (bidirectional overrides, zero width), surrogates, private use, line separators.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
MAX_CELL = 120
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_MARKUP = re.compile(r"([\\`*_{}\[|~!])")
# GitHub finds mentions and issue numbers in the rendered text, where backslashes are gone already;
# a zero-width space after the sign prevents it.
_REFERENCE = re.compile(r"([@#])(?=\w)")
_LINK = re.compile(r"(?<=[a-z]):(?=//)|(?<=www)\.", re.IGNORECASE)
_BLOCK = re.compile(r"^\s*(?:[-+=#]|::|\d+[.)])")
# GitHub's runner obeys `::command::` at the start of a line, and this form anywhere in one.
_OLD_COMMAND = "##["


def printable(text: str) -> str:
    r"""One line in which hidden characters are visible, as \x1b or \u202e."""
    if not (text.isascii() and text.isprintable()):
        text = "".join(_visible(character) for character in text)
    return text.replace(_OLD_COMMAND, r"#\x23[")


def cell(text: str) -> str:
    """`printable`, cut to the width of a column."""
    return printable(text if len(text) <= MAX_CELL else text[: MAX_CELL - 3] + "...")


def _visible(character: str) -> str:
    if unicodedata.category(character) not in _INVISIBLE:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def markdown(text: str) -> str:
    """For a Markdown cell: escape markup, HTML, mentions and links."""
    escaped = _MARKUP.sub(r"\\\1", printable(text).translate(_HTML))
    escaped = _REFERENCE.sub(r"\1&#8203;", escaped)
    return _LINK.sub(lambda found: f"&#{ord(found[0])};", escaped)


def markdown_line(text: str) -> str:
    """`markdown` for a whole line, so that it starts no list, heading or command."""
    escaped = markdown(text)
    return f"&#8203;{escaped}" if _BLOCK.match(escaped) else escaped


def spreadsheet(text: str) -> str:
    """For a CSV cell: prevent a spreadsheet from reading it as a formula."""
    plain = printable(text)
    return f"'{plain}" if plain.lstrip()[:1] in ("=", "+", "-", "@") else plain


def log_line(text: str) -> str:
    """For a whole printed line: prevent a CI runner from reading it as a command."""
    plain = printable(text)
    start = len(plain) - len(plain.lstrip())
    return f"{plain[:start]}\\x3a{plain[start + 1 :]}" if plain[start:][:2] == "::" else plain


def attachment_free(text: str) -> str:
    """For XML test results: break up `[[ATTACHMENT|path]]`, which would upload a file."""
    return printable(text).replace("[[", r"[\x5b")


def command_data(text: str) -> str:
    """For the message of a GitHub workflow command."""
    return printable(text).replace("%", "%25")


def command_property(text: str) -> str:
    """For a property of a GitHub workflow command, such as its title."""
    return command_data(text).replace(":", "%3A").replace(",", "%2C")
