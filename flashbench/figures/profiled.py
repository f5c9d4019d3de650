"""The roofline of a profile, beside its file."""

from pathlib import Path

from flashbench.figures.roofline import profiled
from flashbench.figures.svg import sheet
from flashbench.files import write_file
from flashbench.profile.model import CaseProfile
from flashbench.profile.roofline import roofline


def draw_roofline(profile: CaseProfile, path: Path) -> list[str]:
    """Draw it into `path` where there is one; the names of the files written. Raises OSError."""
    line = roofline(profile)
    if line is None:
        return []
    device = profile.environment.gpu or profile.environment.cpu
    drawn = sheet(profiled(line, f"{profile.case.id} on {device}"))
    # The comment marks it as ours (flashbench/revisions/own_files.py).
    write_file(path, f"<!-- flashbench roofline -->\n{drawn}".encode())
    return [path.name]
