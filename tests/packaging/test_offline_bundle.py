"""The wheels that travel to a machine without a network."""

import importlib.util
import zipfile
from pathlib import Path

import pytest

PATH = Path(__file__).resolve().parents[2] / "scripts" / "offline_bundle.py"
spec = importlib.util.spec_from_file_location("offline_bundle", PATH)
assert spec is not None
assert spec.loader is not None
offline_bundle = importlib.util.module_from_spec(spec)
spec.loader.exec_module(offline_bundle)


def _wheel(directory: Path, name: str, *requires: str) -> None:
    with zipfile.ZipFile(directory / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        needs = "".join(f"Requires-Dist: {text}\n" for text in requires)
        folder = f"{name}-1.0.dist-info"
        wheel.writestr(
            f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}"
        )
        wheel.writestr(f"{folder}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{folder}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all that pip finds."""
    found = tmp_path / "index"
    found.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(found))
    return found


def test_wheels_come_with_what_they_need(index: Path, tmp_path: Path) -> None:
    """The bundle has transitive dependencies, but none that exist already or belong to other
    systems or extras."""
    _wheel(index, "top", "middle>=1", "torch", 'other; sys_platform == "win32"', 'x; extra == "x"')
    _wheel(index, "middle", "bottom")
    _wheel(index, "bottom", "top")
    offline_bundle.download(["top>=1"], {"torch"}, "3.12", tmp_path / "out")
    names = {path.name.split("-")[0] for path in (tmp_path / "out").glob("*.whl")}
    assert names == {"top", "middle", "bottom"}


def test_a_wheel_that_does_not_exist_is_named(index: Path, tmp_path: Path) -> None:
    """An unavailable package ends it with the requirement's name."""
    with pytest.raises(SystemExit, match="nosuch"):
        offline_bundle.download(["nosuch"], set(), "3.12", tmp_path / "out")
