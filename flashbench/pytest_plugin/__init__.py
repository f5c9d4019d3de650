"""The pytest plugin: `benchmark` tests of attention, checked first and then timed by our clock.

pytest loads this module at every start, so it imports neither torch nor pytest-benchmark. Usage:
docs/pytest.md.
"""

from itertools import product
from typing import TYPE_CHECKING

import pytest

from flashbench.candidates import SDPA, parse_candidate
from flashbench.case import DTYPES
from flashbench.errors import InvalidInputError
from flashbench.operations.attention.operation import grid
from flashbench.operations.attention.shapes import parse_shape

if TYPE_CHECKING:
    from flashbench.pytest_plugin.attention import Attention

MARKER = "attention"
_OPTIONS = ("dtype", "causal", "device", "candidates", "samples", "metric")
_DEVICES = ("auto", "cpu", "cuda")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker for --markers and --strict-markers."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(*shapes, dtype='fp32', causal=False, device='auto', candidates=None, "
        "samples=40, metric=None): attention problems for the fixture `attention`; its `benchmark` "
        "runs on flashbench's clock (docs/pytest.md of flashbench).",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test per shape, dtype, mask and candidate of the marker; candidates vary fastest."""
    marker = metafunc.definition.get_closest_marker(MARKER)
    if marker is None:
        return
    if MARKER not in metafunc.fixturenames:
        pytest.fail(f"a test with the marker `{MARKER}` needs its fixture `{MARKER}`", False)
    unknown = [name for name in marker.kwargs if name not in _OPTIONS]
    if unknown:
        known = ", ".join(_OPTIONS)
        pytest.fail(f"the marker `{MARKER}` has no {unknown[0]!r}; it has {known}", False)
    options = marker.kwargs
    if options.get("device", "auto") not in _DEVICES:
        pytest.fail(f"device {options['device']!r} is not one of {', '.join(_DEVICES)}", False)
    parameters, ids = [], []
    try:
        for shape, dtype, causal, candidate in product(
            marker.args or ("1,8,512,64",),
            _listed(options.get("dtype", "fp32")),
            _listed(options.get("causal", False)),
            _listed(options.get("candidates")),
        ):
            if dtype not in DTYPES:
                raise InvalidInputError(f"dtype {dtype!r} is not one of {', '.join(DTYPES)}")
            if causal != "bottom_right":
                causal = bool(causal)
            (case,) = grid([parse_shape(shape)], [dtype], [causal], "")
            # Plain values, because pytest-benchmark writes them into its file.
            parameters.append([shape, dtype, causal, candidate])
            shown = case.id.removesuffix("-")  # the device is not known before the test runs
            ids.append(shown if candidate is None else f"{shown}-{_name(candidate)}")
    except InvalidInputError as error:
        pytest.fail(str(error), False)
    metafunc.parametrize(MARKER, parameters, ids=ids, indirect=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Set the timer that passes our clock's times to pytest-benchmark."""
    if item.get_closest_marker(MARKER) is None or "benchmark" not in getattr(
        item, "fixturenames", ()
    ):
        return
    from flashbench.pytest_plugin.timer import Timer

    own = item.get_closest_marker("benchmark")
    settings = {**(own.kwargs if own else {}), "timer": Timer()}
    item.add_marker(pytest.mark.benchmark(**settings), append=False)


@pytest.fixture
def attention(request: pytest.FixtureRequest) -> "Attention":
    """q, k, v and the case of the marker; call it for the candidate's output."""
    marker = request.node.get_closest_marker(MARKER)
    if marker is None:
        pytest.fail(f"the fixture `{MARKER}` needs its marker: @pytest.mark.{MARKER}(...)", False)
    from flashbench.pytest_plugin.attention import prepare

    shape, dtype, causal, candidate = request.param
    device = marker.kwargs.get("device", "auto")
    prepared = prepare(parse_shape(shape), dtype, causal, device, candidate)
    if "benchmark" in request.fixturenames:
        from flashbench.pytest_plugin.benchmark import adopt

        adopt(
            request.getfixturevalue("benchmark"),
            prepared,
            samples=marker.kwargs.get("samples", 40),
            metric=marker.kwargs.get("metric"),
        )
    return prepared


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _name(candidate: object) -> str:
    text = str(candidate)
    return text if text.partition(":")[0] == SDPA else parse_candidate(text).name
