"""The protocol between parent and worker: JSON lines over a socket pair. No pickle."""

import socket

import msgspec

from flashbench import operations
from flashbench.case import Case
from flashbench.operations.case_document import decode_case, encode_case
from flashbench.runfile import Candidate, DeviceState, Environment, Result


class Setup(msgspec.Struct, tag="setup", kw_only=True):
    """First message: load the candidates and describe the machine."""

    device: str  # "cpu", "cuda", or "auto"
    candidates: list[Candidate]  # without the baselines
    backends: str
    threads: int | None
    samples: int
    min_sample_seconds: float | None  # None: the device's default
    # By name, for candidates that are built revisions: the directory to import them from.
    import_roots: dict[str, str] = msgspec.field(default_factory=dict)
    repository: str = ""  # their working tree, whose code must not run in their place
    import_root: str = ""  # searched first for modules of other candidates
    copies: str = ""  # where the worker puts its copies of them; the parent removes it
    metrics: list[str] | None = None  # None: all; empty: the one of the verdicts
    operation: str = operations.DEFAULT
    operation_root: str = ""  # searched first for the module of a project's operation
    traces: bool = False  # look for what revisions in this process leave outside their modules


class Measure(msgspec.Struct, tag="measure", kw_only=True):
    """Measure these candidates on one case, interleaved."""

    case: Case
    candidates: list[str]
    seed: int
    full_check: bool
    seconds_left: float | None = None  # of the budget
    in_turns: bool = False  # other processes measure too: ask for a `Turn` before each pass
    checked: bool = True  # False: their results are wrong on purpose, and have times


class Inspect(msgspec.Struct, tag="inspect", kw_only=True):
    """Find the peak memory and the GPU kernels of one call of each candidate."""

    case: Case
    candidates: list[str]
    seed: int


class Go(msgspec.Struct, tag="go"):
    """Answer to Turn: the machine is yours until the next Turn, or the end."""


class Audit(msgspec.Struct, tag="audit"):
    """Check again what the calls so far left in the process."""


class Phase(msgspec.Struct, tag="phase"):
    """The worker's new activity, which says which candidate to blame for a crash or hang."""

    candidate: str  # empty: flashbench itself
    doing: str


class Ready(msgspec.Struct, tag="ready", kw_only=True):
    """Answer to Setup."""

    device: str
    environment: Environment
    candidates: list[Candidate]  # with their builds, baselines first
    failures: dict[str, str]  # candidates that do not load, and why
    min_sample_seconds: float
    state: DeviceState


class Turn(msgspec.Struct, tag="turn"):
    """On the way to Done: ready for the next pass, and idle until Go."""


class Done(msgspec.Struct, tag="done"):
    """Answer to Measure: one result per candidate."""

    results: list[Result]
    state: DeviceState


class Inspected(msgspec.Struct):
    """One call: peak memory beyond the inputs (None: unknown), and its kernels in order with their
    seconds."""

    peak_memory_bytes: int | None
    kernels: list[str]
    kernel_seconds: list[float] = msgspec.field(default_factory=list)


class Inspection(msgspec.Struct, tag="inspection"):
    """Answer to Inspect, by candidate."""

    found: dict[str, Inspected]


class Audited(msgspec.Struct, tag="audited"):
    """Answer to Audit: the traces of revisions, in words; empty without traces, or with a single
    revision in the process."""

    trace: str


class Refused(msgspec.Struct, tag="refused"):
    """The worker cannot work at all (no such device); one line for the user."""

    reason: str
    exit_code: int


class Fatal(msgspec.Struct, tag="fatal"):
    """The candidate of the last Phase broke the process (a CUDA context that is lost)."""

    reason: str


Request = Setup | Measure | Go | Inspect | Audit
Reply = Phase | Ready | Turn | Done | Inspection | Audited | Refused | Fatal

_requests: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request, dec_hook=decode_case)
_replies: msgspec.json.Decoder[Reply] = msgspec.json.Decoder(Reply)


def encode(message: Request | Reply) -> bytes:
    return msgspec.json.encode(message, enc_hook=encode_case) + b"\n"


def decode_reply(line: bytes) -> Reply:
    return _replies.decode(line)


class WorkerEnd:
    """The worker's end of the socket: blocking, in the worker's one thread."""

    def __init__(self, handle: int) -> None:
        self._socket = socket.socket(fileno=handle)
        # Processes started by candidates must not inherit it, or write there by accident.
        self._socket.set_inheritable(False)
        self._lines = self._socket.makefile("rb")

    def receive(self) -> Request | None:
        """The next request; None if the parent has closed its end or is gone."""
        line = self._lines.readline()
        return _requests.decode(line) if line.endswith(b"\n") else None

    def send(self, message: Reply) -> None:
        self._socket.sendall(encode(message))
