"""Architecture lists: what they hold, and where a project keeps its own."""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from flashbench.preflight.fixes import edit
from flashbench.preflight.source.tree import SourceTree

# From torch.utils.cpp_extension, which replaces them in this order.
_TORCH_NAMES = {
    "Kepler+Tesla": "3.7",
    "Kepler": "3.5+PTX",
    "Maxwell+Tegra": "5.3",
    "Maxwell": "5.0;5.2+PTX",
    "Pascal": "6.0;6.1+PTX",
    "Volta+Tegra": "7.2",
    "Volta": "7.0+PTX",
    "Turing": "7.5+PTX",
    "Ampere+Tegra": "8.7",
    "Ampere": "8.0;8.6+PTX",
    "Ada": "8.9+PTX",
    "Hopper": "9.0+PTX",
    "Blackwell+Tegra": "11.0",
    "Blackwell": "10.0;10.3;12.0;12.1+PTX",
}
# Only in torch's CMake modules: what nvcc knows, and what is here.
_OF_CMAKE = ("All", "Common", "Auto")
_TORCH_ENTRY = re.compile(r"\A(?P<number>\d+\.\d[af]?)(?P<ptx>\+PTX)?\Z|.+")
_NAMED = re.compile(r"(?:sm_|compute_)?(\d+)([af]?)(-real|-virtual)?")  # by CMake or nvcc
_FLAG = re.compile(r"-gencode|arch=compute_|-arch[= ]+[\"']?sm_")
_BUILD = re.compile(r"(^|/)(setup\.py|CMakeLists\.txt|meson\.build|(GNU)?[Mm]akefile)$")


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a project sets what it is built for. place: file and line, "" for the environment;
    build: the command that builds it, "" if unknown."""

    name: str = "-gencode"
    place: str = ""
    build: str = ""

    def cover(self, chip: int) -> str:
        """Say how to make the build cover a chip, given as 90."""
        if self.name == "FLASHBENCH_CUDA_ARCHS":
            return f"{self.name}={chip}-real python -m pip install --no-build-isolation ."
        if self.name == "TORCH_CUDA_ARCH_LIST":
            value = f"{self.name}={torch_name(chip)}"
            return f"{value} {self.build}" if self.build else f"export {value}  # and build again"
        if self.name == "CMAKE_CUDA_ARCHITECTURES":
            what = f"add {chip} to {self.name}, and build again"
        else:
            what = (
                f"add -gencode=arch=compute_{chip},code=sm_{chip} to nvcc's flags, and build again"
            )
        return edit(self.place, what) if self.place else f"git grep -n -i cuda  # {what}"


def setting_of(tree: SourceTree, *, ours: bool, build: str = "") -> Setting:
    """Find the setting that decides what a project is built for, in the build file nearest the
    root."""
    if ours:
        return Setting("FLASHBENCH_CUDA_ARCHS")
    files = sorted(filter(_BUILD.search, tree.build_files), key=lambda file: file.count("/"))
    for file in files:
        text = tree.read(file).text
        for name in ("CMAKE_CUDA_ARCHITECTURES", "TORCH_CUDA_ARCH_LIST"):
            if name in text:
                return Setting(name, _place(file, text, text.index(name)), build)
        if flag := _FLAG.search(text):
            return Setting("-gencode", _place(file, text, flag.start()), build)
        if "cpp_extension" in text:
            return Setting("TORCH_CUDA_ARCH_LIST", "", build)
    cmake = any(PurePosixPath(file).name == "CMakeLists.txt" for file in files)
    return Setting("CMAKE_CUDA_ARCHITECTURES" if cmake else "-gencode", "", build)


def _place(file: str, text: str, at: int) -> str:
    return f"{file}:{text.count(chr(10), 0, at) + 1}"


def torch_name(chip: int) -> str:
    """Format 90 as 9.0."""
    return f"{chip // 10}.{chip % 10}"


def holds(variable: str, value: str, chip: int, *, by_cmake: bool = False) -> bool | None:
    """Whether the value of an environment variable builds code that runs on a chip; None if it
    names something unknown here. by_cmake: torch's CMake modules read it."""
    if variable == "TORCH_CUDA_ARCH_LIST" and by_cmake and value in _OF_CMAKE and chip >= 80:
        return True
    entries = _of_torch(value) if variable == "TORCH_CUDA_ARCH_LIST" else value.split(";")
    if {"native", "all", "all-major"} & set(entries):
        return True  # what is here, or all that nvcc knows and PTX of its newest
    if any(covers(entry, chip) for entry in entries):
        return True
    return False if all(map(_NAMED.fullmatch, filter(None, entries))) else None


def _of_torch(value: str) -> list[str]:
    """Translate torch's entries to CMake's names; entries torch does not know stay as they are."""
    if value == "native":
        return [value]
    for name, entries in _TORCH_NAMES.items():
        value = value.replace(name, entries)
    return [_TORCH_ENTRY.sub(_as_cmake, entry) for entry in value.replace(" ", ";").split(";")]


def _as_cmake(match: "re.Match[str]") -> str:
    if match["number"] is None:
        return f"{match[0]} of torch"
    return match["number"].replace(".", "") + ("" if match["ptx"] else "-real")


def covers(arch: str, chip: int) -> bool:
    """Whether code under CMake's name (80, 80-real, 90a-real, 80-virtual) runs on sm_`chip`.

    `80` is machine code and PTX. Architecture-specific code (`a`) runs on that architecture alone,
    family-specific code (`f`) on those of one major version.
    """
    match = _NAMED.fullmatch(arch)
    if match is None:
        return False
    built = int(match[1])
    if match[2] == "a":
        return built == chip
    same = built // 10 == chip // 10 and built <= chip
    ptx = match[3] != "-real" and built <= chip and not match[2]
    return same or ptx
