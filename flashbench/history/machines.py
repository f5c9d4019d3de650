"""Name the machine of results, by the user, asv or the host, and check that it is the same machine.

asv describes this user's machines in ~/.asv-machine.json. We copy its description of a machine that
it knows, so results of `asv run` and of run files belong to one machine.
"""

import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from flashbench.errors import InvalidInputError
from flashbench.files import replace_file
from flashbench.other_tools.asv_folder import machine_object
from flashbench.runfile import Environment

REGISTERED = "~/.asv-machine.json"
_VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
# Host names that identify no machine: localhost, and the hashes that containers get.
_ANYBODY = re.compile(r"localhost(\..*)?|[0-9a-f]{12}|[0-9a-f]{64}", re.IGNORECASE)
_PARAMS = (
    "machine",
    "os",
    "arch",
    "cpu",
    "num_cpu",
    "ram",
    "gpu",
)  # the fields by which asv separates graphs

_Description = dict[str, Any]


@dataclass(frozen=True)
class Chosen:
    """A machine's name and its origin."""

    name: str
    why: str


def choose(machine: str | None, host: str, name: str) -> Chosen:
    """The machine's name in the history: the user's choice, else asv's name for the host, else the
    host's own. host: the one that measured; name: of the run file.

    Raises InvalidInputError for an impossible folder name, or a host name that identifies no
    machine.
    """
    chosen = Chosen(host, "the host's name")
    if machine is not None:
        chosen = Chosen(machine, "--machine")
    elif known := _registered_as(host):
        chosen = Chosen(known["machine"], f"asv's name of this machine, in {REGISTERED}")
    elif _ANYBODY.fullmatch(host):
        raise InvalidInputError(
            f"{name}: the host name {host!r} identifies no machine (it is a container's or a "
            "default); name the machine with --machine, or with `asv machine`"
        )
    if not _NAME.fullmatch(chosen.name):
        raise InvalidInputError(
            f"{name}: {chosen.name[:100]!r} is no valid machine name; give it one of letters, "
            "digits and . _ + - with --machine"
        )
    return chosen


def require_same(
    results: Path, environment: Environment, name: str, machine: str | None = None
) -> None:
    """Raise InvalidInputError if `describe` would, before anything is measured here."""
    place = results / choose(machine, environment.hostname, name).name
    if (path := place / "machine.json").exists():
        _compare(machine_object(path), place, environment, name)


def describe(place: Path, environment: Environment, name: str) -> _Description:
    """The folder's machine as asv describes it. Writes a new machine's description, and checks a
    known one. name: of the run file."""
    path, registered = place / "machine.json", _registered().get(place.name)
    gpu = {"gpu": environment.gpu} if environment.gpu else {}
    if path.exists():
        known = machine_object(path)
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
    # Exactly asv's own fields: others would start new graphs.
    return registered or {key: known[key] for key in _PARAMS if isinstance(known.get(key), str)}


def _registered() -> dict[str, dict[str, str]]:
    """This user's asv machines, by name."""
    path = Path(REGISTERED).expanduser()
    if not path.is_file():
        return {}
    found = {}
    for key, value in machine_object(path).items():
        if isinstance(value, dict):
            # Unchanged, as asv copies it into results.
            entry = {"machine": key} | {k: v for k, v in value.items() if isinstance(v, str)}
            found[entry["machine"]] = entry
    return found


def _registered_as(host: str) -> dict[str, str] | None:
    """asv's entry for a host: by its name, or on this host the only entry."""
    machines = _registered()
    if host not in machines and len(machines) == 1 and host == platform.node():
        return next(iter(machines.values()))
    return machines.get(host)


def _compare(known: _Description, place: Path, environment: Environment, name: str) -> None:
    registered = _registered().get(place.name, {})
    for key, ours in (("cpu", environment.cpu), ("gpu", environment.gpu)):
        theirs = known.get(key)
        # The user may have described this machine to asv in other words than its own.
        own_words = theirs == registered.get(key) and environment.hostname == platform.node()
        if ours and theirs and ours != theirs and not own_words:
            raise InvalidInputError(
                f"{name}: measured on {ours}, and machine {place.name!r} of the history is "
                f"{str(theirs)[:100]}; give it another name with --machine"
            )


def _json(content: _Description) -> bytes:
    return msgspec.json.encode(content) + b"\n"
