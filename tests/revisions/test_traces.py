"""What one revision leaves in a process for another to find is seen, wherever that is."""

import gc
import json
import os
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace

import pytest
import torch

from flashbench.revisions import traces


class _Settings:
    def __init__(self) -> None:
        self.seconds = 0.0
        self.found: dict[str, object] = {}


@pytest.fixture(autouse=True)
def _no_garbage_collection() -> Iterator[None]:
    """Hypothesis, which other tests load, keeps the time of each collection in a module."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An installed module with state at all depths that are looked at."""
    module = ModuleType("hub")
    module.registry = {"a": 1}  # type: ignore[attr-defined]
    module.names = ["a"]  # type: ignore[attr-defined]
    module.settings = _Settings()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hub", module)
    return module


CHANGES: dict[str, tuple[Callable[[ModuleType], object], str]] = {
    "attribute": (lambda hub: setattr(hub, "settings", 1), "hub's settings was changed"),
    "new attribute": (lambda hub: setattr(hub, "mine", 1), "hub's mine was added"),
    "entry": (lambda hub: hub.registry.update(b=2), "in hub.registry b was added"),
    "changed entry": (lambda hub: hub.registry.update(a=2), "in hub.registry a was changed"),
    "list": (lambda hub: hub.names.append("b"), "in hub.names an entry (int) was added"),
    "removed": (lambda hub: hub.registry.clear(), "in hub.registry a was removed"),
    "object": (
        lambda hub: setattr(hub.settings, "seconds", 5),
        "hub.settings's seconds was changed",
    ),
    "its entry": (
        lambda hub: hub.settings.found.update(a=1),
        "in hub.settings.found a was added",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_a_module_holds(hub: ModuleType, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """A change in another package's module is named. To save time no other module is looked at."""
    alone = SimpleNamespace(modules={"hub": hub}, stdlib_module_names=sys.stdlib_module_names)
    monkeypatch.setattr(traces, "sys", alone)
    change, told = CHANGES[what]
    before = traces.state()
    assert traces.difference(before, traces.state()) == ""
    change(hub)
    assert traces.difference(before, traces.state()) == told


class _Lazy(dict[str, object]):
    """Loads on demand, and not here."""

    def _absent(self, *_: object) -> Iterator[str]:
        raise ImportError("no backend")

    keys = items = values = __iter__ = __getitem__ = copy = _absent  # type: ignore[assignment]


class _LazyList(list[object]):
    def __iter__(self) -> Iterator[object]:
        raise ImportError("no backend")


class _LazySet(set[object]):
    def __iter__(self) -> Iterator[object]:
        raise ImportError("no backend")


def test_containers_are_not_asked(hub: ModuleType) -> None:
    """Containers with methods of their own are looked at without calling these."""
    lazy, names, found = _Lazy(a=1), _LazyList(["a"]), _LazySet({"a"})
    hub.mapping, hub.names, hub.found = lazy, names, found  # type: ignore[attr-defined]
    before = traces.state()
    assert traces.difference(before, traces.state()) == ""
    dict.__setitem__(lazy, "b", 2)
    assert traces.difference(before, traces.state()) == "in hub.mapping b was added"
    before = traces.state()
    names.append("b")
    assert traces.difference(before, traces.state()) == "in hub.names an entry (int) was added"
    before = traces.state()
    found.add("b")
    assert traces.difference(before, traces.state()) == "in hub.found an entry (int) was added"


def test_what_torch_and_python_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators, environment variables and functions that are replaced are seen; a module that is
    imported is none of them."""
    before = traces.state()
    monkeypatch.setitem(sys.modules, "new", ModuleType("new"))
    assert traces.difference(before, traces.state()) == ""
    library = torch.library.Library("traces", "DEF")
    library.define("one(Tensor x) -> Tensor")
    assert traces.difference(before, traces.state()) == "the operator traces::one was added"
    library._destroy()
    before = traces.state()
    monkeypatch.setitem(os.environ, "TRACES_TEST", "1")
    told = "the environment variable TRACES_TEST was added"
    assert traces.difference(before, traces.state()) == told
    before = traces.state()
    monkeypatch.setattr(json, "dumps", lambda value: "")
    assert traces.difference(before, traces.state()) == "json's dumps was changed"
    before = traces.state()
    monkeypatch.setattr(torch.Tensor, "cos", lambda value: value)
    assert traces.difference(before, traces.state()) == "torch.Tensor's cos was added"
