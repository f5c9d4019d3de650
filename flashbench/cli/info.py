"""`flashbench info`: show what is built and loadable here. Does not import torch itself."""

import click
import msgspec

from flashbench.cli.measuring import tell
from flashbench.cli.options import format_option
from flashbench.errors import Exit
from flashbench.extension import build_info, cpu_peaks, kernels


@click.command()
@format_option(["text", "json"], name="form")
@click.option(
    "--peak",
    is_flag=True,
    help="Measure the peak rates of the CPU, and of the GPU if there is one (10 s), and keep them "
    "for `profile`.",
)
def command(form: str, peak: bool) -> int:
    """Show what is built and loadable here.

    Backends, dtypes, instruction sets and archs; the commit and source hash of the library;
    registers, shared memory and spills of each CUDA kernel. Exit code 4 if the extension cannot be
    loaded.
    """
    from flashbench.profile.ceilings import measure_all
    from flashbench.views import info as view

    info, resources = build_info(), kernels()
    peaks = cpu_peaks(info.cpu_dtypes) if peak else {}
    ceilings = measure_all(tell) if peak else []
    if form == "json":
        document = view.data(info, resources)
        if peak:
            document["cpu_peaks"] = peaks
            document["ceilings"] = [msgspec.structs.asdict(one) for one in ceilings]
        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=1).decode())
    else:
        click.echo(view.text(info, resources, peaks, ceilings))
    return Exit.PASS
