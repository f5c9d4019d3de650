"""The pytest plugin: `benchmark` tests of attention or another operation, checked first and then
timed by our clock.

pytest loads this module at every start, so it imports neither torch nor pytest-benchmark. Usage:
docs/pytest.md.
"""

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from flashbench import operations
from flashbench.baseline_names import is_baseline_name
from flashbench.candidates import parse_candidate
from flashbench.case import DTYPES
from flashbench.errors import InvalidInputError
from flashbench.operations.attention.operation import masks

if TYPE_CHECKING:
    from flashbench.pytest_plugin.prepared import Prepared

# Their fixtures have the same names.
ATTENTION, OPERATION = MARKERS = ("attention", "operation")
_OPTIONS = ("dtype", "device", "candidates", "samples", "metric")
_DEVICES = ("auto", "cpu", "cuda")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers for --markers and --strict-markers."""
    shared = "device='auto', candidates=None, samples=40, metric=None)"
    docs = "its `benchmark` runs on flashbench's clock (docs/pytest.md of flashbench)."
    config.addinivalue_line(
        "markers",
        f"{ATTENTION}(*shapes, dtype='fp32', causal=False, {shared}: attention problems for the "
        f"fixture `{ATTENTION}`; {docs}",
    )
    config.addinivalue_line(
        "markers",
        f"{OPERATION}(name, *shapes, dtype='fp32', {shared}: problems of another operation for the "
        f"fixture `{OPERATION}`; {docs}",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test per shape, dtype, mask and candidate of the marker; candidates vary fastest."""
    marker = _marker_of(metafunc.definition)
    if marker is None:
        return
    if marker.name not in metafunc.fixturenames:
        pytest.fail(
            f"a test with the marker `{marker.name}` needs its fixture `{marker.name}`", False
        )
    known = ("dtype", "causal", *_OPTIONS[1:]) if marker.name == ATTENTION else _OPTIONS
    unknown = [name for name in marker.kwargs if name not in known]
    if unknown:
        listed = ", ".join(known)
        pytest.fail(f"the marker `{marker.name}` has no {unknown[0]!r}; it has {listed}", False)
    options = marker.kwargs
    if options.get("device", "auto") not in _DEVICES:
        pytest.fail(f"device {options['device']!r} is not one of {', '.join(_DEVICES)}", False)
    parameters, ids = [], []
    try:
        operation, shapes, wanted = _asked(marker)
        for sizes, dtype, one, candidate in product(
            shapes,
            _listed(options.get("dtype", "fp32")),
            wanted,
            _listed(options.get("candidates")),
        ):
            if dtype not in DTYPES:
                raise InvalidInputError(f"dtype {dtype!r} is not one of {', '.join(DTYPES)}")
            case = operation.case(sizes, dtype, "", one)
            # Plain values, because pytest-benchmark writes them into its file.
            parameters.append([operation.name, dict(sizes), dtype, dict(one), candidate])
            shown = case.id.removesuffix("-")  # the device is not known before the test runs
            ids.append(shown if candidate is None else f"{shown}-{_name(candidate)}")
    except InvalidInputError as error:
        pytest.fail(str(error), False)
    metafunc.parametrize(marker.name, parameters, ids=ids, indirect=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Set the timer that passes our clock's times to pytest-benchmark."""
    if _marker_of(item) is None or "benchmark" not in getattr(item, "fixturenames", ()):
        return
    from flashbench.pytest_plugin.timer import Timer

    own = item.get_closest_marker("benchmark")
    settings = {**(own.kwargs if own else {}), "timer": Timer()}
    item.add_marker(pytest.mark.benchmark(**settings), append=False)


@pytest.fixture
def attention(request: pytest.FixtureRequest) -> "Prepared":
    """q, k, v and the case of the marker; call it for the candidate's output."""
    return _prepared(request, ATTENTION)


@pytest.fixture
def operation(request: pytest.FixtureRequest) -> "Prepared":
    """The inputs, keywords and case of the marker; call it for the candidate's output."""
    return _prepared(request, OPERATION)


def _prepared(request: pytest.FixtureRequest, name: str) -> "Prepared":
    marker = request.node.get_closest_marker(name)
    if marker is None:
        pytest.fail(f"the fixture `{name}` needs its marker: @pytest.mark.{name}(...)", False)
    from flashbench.pytest_plugin.prepared import set_up

    asked, sizes, dtype, options, candidate = request.param
    device = marker.kwargs.get("device", "auto")
    prepared = set_up(asked, sizes, dtype, options, device, candidate)
    if "benchmark" in request.fixturenames:
        from flashbench.pytest_plugin.benchmark import adopt

        adopt(
            request.getfixturevalue("benchmark"),
            prepared,
            samples=marker.kwargs.get("samples", 40),
            metric=marker.kwargs.get("metric"),
        )
    return prepared


def _marker_of(item: Any) -> pytest.Mark | None:
    """The first of our markers on a test."""
    found = (item.get_closest_marker(name) for name in MARKERS)
    return next(filter(None, found), None)


def _asked(
    marker: pytest.Mark,
) -> tuple[operations.Operation, list[operations.Sizes], Sequence[operations.Options]]:
    """Operation, shapes and options of a marker. Raises InvalidInputError."""
    known: operations.Operation = operations.ATTENTION
    texts: Sequence[object] = marker.args
    if marker.name == ATTENTION:
        causal = [
            one if one == "bottom_right" else bool(one)
            for one in _listed(marker.kwargs.get("causal", False))
        ]
        options: Sequence[operations.Options] = masks(causal)
    else:
        if not marker.args or not isinstance(marker.args[0], str):
            raise InvalidInputError(f"the marker `{OPERATION}` names no operation")
        name, *texts = marker.args
        if ":" in name and name not in operations.of_projects:
            from flashbench.operations.of_project import imported

            operations.know(imported(name, ""))
        known = operations.named(name)
        options = known.options
    shapes = [sizes for text in texts for sizes in known.parse(str(text))]
    return known, shapes or known.preset("headline"), options


def _listed(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _name(candidate: object) -> str:
    text = str(candidate)
    return text if is_baseline_name(text) else parse_candidate(text).name
