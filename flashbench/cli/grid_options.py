"""The options that choose cases and device."""

import click

from flashbench import operations
from flashbench.callables import LAYOUTS, MASK_REQUESTS
from flashbench.case import DTYPES
from flashbench.cli.options import together
from flashbench.cli.parameter_types import refused_as
from flashbench.operations.chosen import chosen

# Parameters of the options below, for commands that refuse some of them.
GRID_OPTIONS = frozenset({"operation", "presets", "shapes", "dtypes", "causal", "layout", "device"})


def _shapes(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    """Refuse an invalid shape before anything is built or read."""
    with refused_as(context, parameter):
        operation = operations.named(context.params["operation"])
        for text in texts:
            operation.parse(text)
    return texts


def _operation(context: click.Context, parameter: click.Parameter, name: str | None) -> str:
    """Refuse an unknown operation before its shapes are read."""
    with refused_as(context, parameter):
        return chosen(name, of_revisions=context.info_name != "run")


grid_options = together(
    click.option(
        "--operation",
        metavar="NAME",
        is_eager=True,
        callback=_operation,
        help=f"What is computed: {', '.join(operations.BUILT_IN)}, or module:name of your own.  "
        "[default: that of [tool.flashbench.project], else attention]",
    ),
    click.option(
        "--preset",
        "presets",
        metavar="NAME",
        multiple=True,
        help=f"Shapes to measure; for attention: {', '.join(operations.ATTENTION.presets)}; "
        "repeatable.  [default: headline]",
    ),
    click.option(
        "--shape",
        "shapes",
        multiple=True,
        callback=_shapes,
        metavar="SHAPE",
        help="1,8,512,64 or b1-h8-g2-q512-k1024-d64; for other operations rows=1024,4096,dim=4096.",
    ),
    click.option(
        "--dtype",
        "dtypes",
        type=click.Choice(DTYPES),
        multiple=True,
        help="Repeatable.  [default: fp32, fp16, bf16 on cpu; fp16, bf16 on cuda]",
    ),
    click.option(
        "--causal",
        type=click.Choice(MASK_REQUESTS),
        default="both",
        show_default=True,
        help="With the causal mask, without it, or both; or aligned at the bottom right.",
    ),
    click.option(
        "--layout",
        type=click.Choice(LAYOUTS),
        default=LAYOUTS[0],
        show_default=True,
        help="Order of q, k, v in memory: bshd is (batch, length, heads, head dim). They are "
        "passed as views in the usual order.",
    ),
    click.option(
        "--device",
        type=click.Choice(["auto", "cpu", "cuda"]),
        default="auto",
        show_default=True,
        help="auto: cuda if there is one.",
    ),
)
