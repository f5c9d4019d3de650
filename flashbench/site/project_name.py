"""The project's name, as asv's configuration has it."""

from pathlib import Path

from flashbench.errors import InvalidInputError
from flashbench.other_tools import asv_conf

_MOST = 100  # characters


def project_name(repository: Path) -> str:
    """`project` of asv.conf.json, else the name of the folder."""
    folder = repository.resolve().name
    path = asv_conf.find(repository)
    if path is None:
        return folder
    try:
        name = asv_conf.read(path).get("project")
    except InvalidInputError:
        return folder  # the site can do without
    name = name.strip() if isinstance(name, str) else ""
    return name[:_MOST] or folder
