"""The command line. Each command is a module of the same name, imported when it runs.

So `flashbench --help` is instant and `flashbench compare` never imports torch.
"""

import gc
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from flashbench import __version__
from flashbench.errors import (
    Exit,
    FlashbenchError,
    InvalidInputError,
    NotMeasuredError,
    is_out_of_files,
    missing_package,
)
from flashbench.render.escape import printable
from flashbench.streams import guard

_COLLECT_AFTER = 200_000  # new containers, in place of 700

# By heading: name -> help line, available without importing the command.
SECTIONS = {
    "Start": {
        "init": "Set up a repository: find the kernel and its build, write settings, try them.",
        "info": "Print what is built and loadable here, and the resources of each kernel.",
        "preflight": "Find what would fail before you pay for a GPU; each finding has its fix.",
        "plan": "Estimate what a run, compare, bisect or backfill takes: seconds, builds, money.",
    },
    "Measure and judge": {
        "run": "Measure candidates against PyTorch's own over a grid of cases.",
        "show": "Print the table of a run file, in any format.",
        "report": "Draw figures and a page of run files: speed-ups, distributions, rooflines.",
        "compare": "Judge B against A, or a candidate against its baseline: files or revisions.",
        "aa": "Compare a build with itself: false alarms and smallest detectable change here.",
        "gate": "Build, fit, compute correctly, run fast enough: stop at the first failure.",
        "profile": "Show where the time of one case goes: counters, floors, bottleneck, next step.",
    },
    "Find the commit": {
        "build": "Build revisions, ranges or the working tree once; explain failures.",
        "builds": "List the builds of this repository's commits, with reasons for failures.",
        "bisect": "Find the commit that broke the build, the import, the result or the speed.",
    },
    "Keep a history": {
        "record": "Add run files to the history, beside the results of `asv run`.",
        "backfill": "Build and measure many commits side by side, and add them to the history.",
        "history": "Show where the speed changed, and which commits may be responsible.",
        "publish": "Publish the history as an offline site: graphs, changes, failed builds.",
    },
    "Use other machines": {
        "cloud": "Run a command on a rented machine, or one reached by ssh; it stops by itself.",
        "merge": "Join the run files of `run --shard i/n`.",
    },
}
COMMANDS = {name: line for section in SECTIONS.values() for name, line in section.items()}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"flashbench.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        _require_directory()  # --version and --help need none
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            # Not from stdout or stderr, which raise none. Click would exit with 1, a regression.
            raise NotMeasuredError("a process closed its pipe early") from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, commands in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl(list(commands.items()))


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 pass, 1 a regression or a failed gate, 2 usage or invalid input, "
    "3 undecided, 4 could not measure.",
)
@click.version_option(__version__, prog_name="flashbench")
def cli() -> None:
    """Is my kernel correct, is it faster than PyTorch's own, and does every commit keep it so?"""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; always exit with one of the documented codes."""
    # Commands keep what they read until they end, with few cycles: the garbage collector would only
    # rescan it.
    gc.set_threshold(_COLLECT_AFTER)
    guard()
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments:  # versions of click differ here
        click.echo(click.Context(cli, info_name="flashbench").get_help(), err=True)
        sys.exit(Exit.USAGE)
    try:
        result = cli.main(arguments, standalone_mode=False)
        sys.stdout.flush()
    except FlashbenchError as error:
        _fail(str(error), error.exit_code)
    except click.ClickException as error:
        _fail(error.format_message() + _commands_of(error), Exit.USAGE)
    except (click.Abort, KeyboardInterrupt):
        # Commands that measure handle Ctrl-C themselves: nothing was measured here.
        _fail("interrupted", Exit.NOT_MEASURED)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and (lacks := missing_package(error)):
            _fail(lacks, Exit.NOT_MEASURED)
        if is_out_of_files(error):
            _fail("too many open files; allow more with: ulimit -n 1024", Exit.NOT_MEASURED)
        # Python's own exit code, 1, would mean a regression.
        traceback.print_exc()
        _fail(f"a bug in flashbench: {type(error).__name__}: {error}", Exit.NOT_MEASURED)
    sys.exit(result if isinstance(result, int) else Exit.PASS)


def _commands_of(error: click.ClickException) -> str:
    """The commands of a group, for a message about a missing or unknown one."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None or context.parent is None or not isinstance(context.command, click.Group):
        return ""
    return f" Choose from: {', '.join(context.command.list_commands(context))}"


def _require_directory() -> None:
    """Relative paths, settings and the repository depend on the working directory."""
    try:
        Path.cwd()
    except OSError as error:
        raise InvalidInputError(
            f"the working directory cannot be used ({error.strerror}): it may have been removed; "
            "cd to an existing one"
        ) from None


def _fail(message: str, code: Exit) -> None:
    # Messages quote files and flags, which must not control the terminal.
    click.echo(f"flashbench: {printable(' '.join(message.split()))}", err=True)
    sys.exit(code)
