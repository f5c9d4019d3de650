"""Read a run file to judge or draw it: by the rules of `runfile`, in half the time and memory.

Nearly all of a run file is samples. Each timing's samples become an array as soon as they are read;
no Python numbers are kept. What must be changed or saved is read by `runfile.read`.
"""

import gc
from array import array
from pathlib import Path

import msgspec
import numpy as np

from flashbench.damaged_files import UNREADABLE, damage
from flashbench.operations.case_document import decode_case
from flashbench.run_validation import (
    bad_result,
    check_lists,
    check_references,
    check_times,
    possible_times,
)
from flashbench.runfile import Launch, Result, RunFile, Timing, content, decode_as

# The types of the run file, with a timing's numbers still as raw JSON.


class _WrittenTiming(Timing, kw_only=True, gc=False):
    seconds: msgspec.Raw  # type: ignore[assignment]
    block: msgspec.Raw = msgspec.Raw(b"[]")  # type: ignore[assignment]


class _WrittenResult(Result, kw_only=True, gc=False):
    timings: list[_WrittenTiming] = msgspec.field(default_factory=list)  # type: ignore[assignment]


class _WrittenLaunch(Launch, kw_only=True):
    results: list[_WrittenResult] = msgspec.field(default_factory=list)  # type: ignore[assignment]


class _WrittenRunFile(RunFile, kw_only=True):
    launches: list[_WrittenLaunch] = msgspec.field(default_factory=list)  # type: ignore[assignment]


_run = msgspec.json.Decoder(_WrittenRunFile, dec_hook=decode_case)
_seconds = msgspec.json.Decoder(list[float])
_block = msgspec.json.Decoder(list[int])


def read_for_analysis(path: Path) -> RunFile:
    """Read and validate a run file; InvalidInputError says what is wrong and where."""
    return decode_for_analysis(content(path), str(path))


def decode_for_analysis(document: bytes, name: str) -> RunFile:
    """`runfile.decode`, with samples as arrays and equal block lists as one list."""
    # Everything allocated here is kept and has no cycles: the collector would only rescan it as it
    # grows. Reference counting frees it.
    collecting = gc.isenabled()
    gc.disable()
    try:
        run = decode_as(document, _run, name)
        _read_numbers(run, name)
    finally:
        if collecting:
            gc.enable()
    check_references(run, name)
    return run


def _read_numbers(run: _WrittenRunFile, name: str) -> None:
    """Replace the raw JSON by checked numbers."""
    blocks: dict[bytes, list[int]] = {}
    for launch in run.launches:
        samples = array("d")
        for result in launch.results:
            for written in result.timings:
                try:
                    seconds = array("d", _seconds.decode(written.seconds))
                    block = _block_list(written.block, blocks)
                except UNREADABLE as error:
                    problem = f"{written.metric}: {damage(error)}"
                    raise bad_result(launch, result, name, problem) from None
                timing: Timing = written
                timing.seconds, timing.block = seconds, block
                samples.extend(seconds)
            check_lists(launch, result, name)
        together = np.frombuffer(samples)
        if len(together) and not possible_times(together.min(), together.max()):
            for result in launch.results:
                check_times(launch, result, name)  # says which


def _block_list(written: msgspec.Raw, known: dict[bytes, list[int]]) -> list[int]:
    text = bytes(written)
    block = known.get(text)
    if block is None:
        block = known[text] = _block.decode(text)
    return block
