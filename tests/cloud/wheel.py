"""A wheel to send: this checkout."""

import hashlib
import zipfile
from pathlib import Path

import flashbench

_PACKAGE = Path(flashbench.__file__).parent
_ENTRY = "[console_scripts]\nflashbench = flashbench.__main__:main\n"


def checkout(folder: Path) -> Path:
    """The package as it lies here, its library with it."""
    files = {
        f"flashbench/{path.relative_to(_PACKAGE)}": path.read_bytes()
        for path in _PACKAGE.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    version = flashbench.__version__
    wheel = folder / f"flashbench-{version}-py3-none-any.whl"
    info = f"flashbench-{version}.dist-info"
    more = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: flashbench\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": _ENTRY,
    }
    content = files | {name: text.encode() for name, text in more.items()}
    rows = [f"{n},sha256={hashlib.sha256(b).hexdigest()},{len(b)}" for n, b in content.items()]
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
        archive.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,", ""]))
    return wheel
