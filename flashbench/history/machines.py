"""The machine that results are filed under: the user's choice, asv's or the host's; checked for
consistency.

asv names this user's machines in ~/.asv-machine.json. What it knows by a name is described here as
it does, so that results of `asv run` and of run files are those of one machine.
"""

import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from flashbench.damage import damage
from flashbench.errors import InvalidInputError
from flashbench.files import replace_file
from flashbench.other_tools import document
from flashbench.runfile import Environment

REGISTERED = "~/.asv-machine.json"
_VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
# Hosts that are called so: everybody's own, and containers, by their hash, anew each time.
_ANYBODY = re.compile(r"localhost(\..*)?|[0-9a-f]{12}|[0-9a-f]{64}", re.IGNORECASE)
_PARAMS = ("machine", "os", "arch", "cpu", "num_cpu", "ram", "gpu")  # what asv tells graphs by

Described = dict[str, Any]


@dataclass(frozen=True)
class Chosen:
    """A machine's name, and who gave it."""

    name: str
    why: str


def choose(machine: str | None, host: str, name: str) -> Chosen:
    """The machine's name in the history: as the user says, else asv's name of this host, else the
    host's. host: that measured; name: of the run file.

    Raises InvalidInputError for one that no folder can have, or that obviously names no machine.
    """
    chosen = Chosen(host, "the host's name")
    if machine is not None:
        chosen = Chosen(machine, "--machine")
    elif known := _registered_as(host):
        chosen = Chosen(known["machine"], f"asv's name of this machine, in {REGISTERED}")
    elif _ANYBODY.fullmatch(host):
        raise InvalidInputError(
            f"{name}: measured on host {host!r}, which is no machine's name (a container's, or "
            "anybody's); name the machine with --machine, or with `asv machine`"
        )
    if not _NAME.fullmatch(chosen.name):
        raise InvalidInputError(
            f"{name}: {chosen.name[:100]!r} cannot be a machine's name in the history; give it one "
            "of letters, digits, and . _ + - with --machine"
        )
    return chosen


def require_same(
    results: Path, environment: Environment, name: str, machine: str | None = None
) -> None:
    """Raise InvalidInputError where `describe` would, for the machine that this is measured on."""
    place = results / choose(machine, environment.hostname, name).name
    if (path := place / "machine.json").exists():
        _compare(read_object(path, "asv machine file"), place, environment, name)


def describe(place: Path, environment: Environment, name: str) -> Described:
    """The machine of a folder as asv describes it in results: written where it is new, held to it
    where it is not. name: of the run file."""
    path, registered = place / "machine.json", _registered().get(place.name)
    gpu = {"gpu": environment.gpu} if environment.gpu else {}
    if path.exists():
        known = read_object(path, "asv machine file")
        _compare(known, place, environment, name)
        if gpu and not known.get("gpu"):  # its CPU was measured first
            known |= gpu
            replace_file(path, _json(known))
    else:
        known = gpu | (
            registered
            or {
                "machine": place.name,
                "os": environment.system,
                "arch": "",
                "cpu": environment.cpu,
                "num_cpu": str(environment.cpu_count or ""),
                "ram": str(environment.memory_bytes or ""),
            }
        )
        replace_file(path, _json(known | {"version": _VERSION}))
    # What asv itself writes into results, or its graphs would be other ones.
    return registered or {key: known[key] for key in _PARAMS if isinstance(known.get(key), str)}


def read_object(path: Path, kind: str) -> dict[str, Any]:
    """A JSON object of asv's. Raises InvalidInputError."""
    try:
        content = document.parse(path)
    except ValueError as error:
        raise InvalidInputError(f"{path}: damaged {kind}: {damage(error)}; move it away") from None
    if not isinstance(content, dict):
        raise InvalidInputError(f"{path}: damaged {kind}: no object; move it away")
    return content


def _registered() -> dict[str, dict[str, str]]:
    """asv's machines of this user, by name."""
    path = Path(REGISTERED).expanduser()
    if not path.is_file():
        return {}
    found = {}
    for key, value in read_object(path, "asv machine file").items():
        if isinstance(value, dict):
            # All that is there and no more: asv writes it into results as it is.
            entry = {"machine": key} | {k: v for k, v in value.items() if isinstance(v, str)}
            found[entry["machine"]] = entry
    return found


def _registered_as(host: str) -> dict[str, str] | None:
    """As asv finds it: by the host's name; on this host the only one there is."""
    machines = _registered()
    if host not in machines and len(machines) == 1 and host == platform.node():
        return next(iter(machines.values()))
    return machines.get(host)


def _compare(known: Described, place: Path, environment: Environment, name: str) -> None:
    registered = _registered().get(place.name, {})
    for key, ours in (("cpu", environment.cpu), ("gpu", environment.gpu)):
        theirs = known.get(key)
        # The user may have described this machine to asv in other words than it has for itself.
        own_words = theirs == registered.get(key) and environment.hostname == platform.node()
        if ours and theirs and ours != theirs and not own_words:
            raise InvalidInputError(
                f"{name}: measured on {ours}, and machine {place.name!r} of the history is "
                f"{str(theirs)[:100]}; give it another name with --machine"
            )


def _json(content: Described) -> bytes:
    return msgspec.json.encode(content) + b"\n"
