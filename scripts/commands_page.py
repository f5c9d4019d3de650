"""Generate docs/commands.md: every command with its options, from the code.

`python scripts/commands_page.py`; a test checks that the page is up to date.
"""

import inspect
import re
from pathlib import Path

import click

from flashbench.cli import COMMANDS, SECTIONS, cli
from flashbench.cli.settings import SettingsCommand

PAGE = Path(__file__).resolve().parent.parent / "docs" / "commands.md"
_HEAD = """\
# Commands and options

`python scripts/commands_page.py` generates this page from the code; `flashbench COMMAND --help`
prints the same. All commands share their [exit codes](exit-codes.md) and [settings](settings.md).
"""


def page() -> str:
    """The whole page, in markdown."""
    context = click.Context(cli, info_name="flashbench")
    parts = [_HEAD]
    for heading, commands in SECTIONS.items():
        lines = [f"- [{name}](#{name}): {_text(line)}" for name, line in commands.items()]
        parts += [f"**{heading}**", "\n".join(lines)]
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        parts += sections(name, command, click.Context(command, info_name=name, parent=context))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def sections(name: str, command: click.Command, context: click.Context) -> list[str]:
    """The sections of a command and of its subcommands."""
    below = command.commands if isinstance(command, click.Group) else {}
    return [section(name, command, context)] + [
        section(f"{name} {one}", part, click.Context(part, info_name=one, parent=context))
        for one, part in below.items()
    ]


def section(name: str, command: click.Command, context: click.Context) -> str:
    """One command: what it does, its options, its exit codes and settings."""
    usage = " ".join(command.collect_usage_pieces(context))
    rows = [
        f"| {_code(names)} | {_text(meaning)} |"
        for parameter in command.get_params(context)
        if (record := parameter.get_help_record(context)) and "--help" not in parameter.opts
        for names, meaning in [record]
    ]
    parts = [
        f"## {name}",
        f"```\n{context.command_path} {usage}\n```",
        *(_text(paragraph) for paragraph in _paragraphs(command.help)),
        "\n".join(["| option | meaning |", "|---|---|", *rows] if rows else _commands(command)),
        *(_text(paragraph) for paragraph in _paragraphs(command.epilog)),
    ]
    if isinstance(command, SettingsCommand):
        parts.append(f"Settings: `[tool.flashbench.{command.table}]`.")
    return "\n\n".join(parts)


def _commands(command: click.Command) -> list[str]:
    """The list of a command's subcommands."""
    assert isinstance(command, click.Group)
    context = click.Context(command)
    below = ((name, command.get_command(context, name)) for name in command.list_commands(context))
    return [f"- `{command.name} {name}`: {_text(one.help or '')}" for name, one in below if one]


def _paragraphs(text: str | None) -> list[str]:
    """The paragraphs of a help text, each on one line; click marks those not to wrap with \\b."""
    plain = inspect.cleandoc(text or "").replace("\b", "")
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", plain) if part.strip()]


def _code(text: str) -> str:
    return f"`{text}`".replace("|", r"\|")


def _text(text: str) -> str:
    """Escape markup in prose, but format flags, settings and `code` as code."""
    flag = r"(?<![\w-])(--[a-z][a-z-]*|\[tool\.[a-z.]+\])"
    marked = _outside_code(flag, r"`\1`", " ".join(text.split()))
    return _outside_code(r"([\\*_<>\[\]])", r"\\\1", marked).replace("|", r"\|")


def _outside_code(pattern: str, replacement: str, text: str) -> str:
    """Substitute everywhere but in `code`."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(
        piece if piece.startswith("`") else re.sub(pattern, replacement, piece) for piece in pieces
    )


if __name__ == "__main__":
    PAGE.write_text(page())
