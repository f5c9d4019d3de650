"""Dynamic shared memory as sources state it: sizes beyond the chip's are found, none is guessed."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from revisions.repository import Repository

from flashbench.preflight import run
from flashbench.preflight.build import resources
from flashbench.preflight.build.resources import KernelUse
from flashbench.preflight.build.shared_memory import dynamic, shared_memory
from flashbench.preflight.build.subject import BuildSubject
from flashbench.preflight.finding import Finding
from flashbench.preflight.source.arithmetic import Constants
from flashbench.preflight.source.tree import read_tree

_ASK = "cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, {});"
_HEADER = """\
#pragma once
#define STAGES 4
#define TILE_BYTES (128 * 128 * sizeof(half))
#ifdef WIDE
#define WIDTH 256
#endif
namespace tile {
constexpr int kRows = 0x80;
static constexpr size_t kColumns{1'28u};
}
using element = __nv_bfloat16;
struct alignas(128) Stage {
    static constexpr int kDepth = 2;
    element q[tile::kRows][64], k[tile::kRows * 64];
    float scale;
};
union Either { Stage stage; char bytes[100000]; };
struct Shared { Stage stages[STAGES]; Either either; unsigned long long barrier[2 * STAGES]; };
template <typename T, int kDim> struct Buffer { T data[kDim]; static constexpr int kBytes = 8; };
struct Derived : Shared { int more; };
"""


def _tree(root: Path, unit: str) -> Path:
    (root / "csrc").mkdir(parents=True)
    (root / "csrc/config.h").write_text(_HEADER)
    (root / "csrc/kernel.cu").write_text(f'#include "config.h"\n{unit}\n')
    return root


def _findings(root: Path, unit: str, uses: list[KernelUse] | None = None) -> list[Finding]:
    looked = dynamic(read_tree(_tree(root, unit)), uses or ())
    return [one for one in looked if isinstance(one, Finding)]


def _found(root: Path, unit: str) -> list[str]:
    findings = _findings(root, unit)
    return [f"{one.where} {one.found.split(' bytes')[0]}" for one in findings]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("232449", 232449),
        ("48 << 10", 48 << 10),
        ("(int)(2 * 64 + 10 % 4) / 3", 43),
        ("static_cast<int>(STAGES * TILE_BYTES)", 131072),
        ("tile::kRows * tile::kColumns + 1ul", 16385),
        ("std::max(STAGES, 7) - 1", 6),
        ("sizeof(float4) * size_t(2)", 32),
        ("sizeof(Either)", 100096),
        ("sizeof(const float*)", 8),
        # Not known, so not guessed.
        ("WIDTH", None),
        ("rows * 2", None),
        ("Tile::kBytes", None),
        ("tile::kNothing", None),
        ("sizeof(T)", None),
        ("sizeof(Buffer)", None),
        ("sizeof(Derived)", None),
        ("sizeof(local)", None),
        ("STAGES > 2 ? 1 : 2", None),
        ("1 / 0", None),
        ("1 << 9999", None),
        ("f(3)", None),
        ("010", None),
        ("(" * 300, None),
    ],
)
def test_expressions(tmp_path: Path, expression: str, value: int | None) -> None:
    """Arithmetic of constants has its value in C++; what the text does not tell has none."""
    constants = Constants(read_tree(_tree(tmp_path, "")), "csrc/kernel.cu")
    assert constants.value(expression) == value


def test_size_of_structs_is_the_compiler_s(tmp_path: Path) -> None:
    """Arrays, alignment, padding, unions and aliases as g++ lays them out."""
    constants = Constants(read_tree(_tree(tmp_path, "")), "csrc/kernel.cu")
    types = "typedef unsigned short half; typedef unsigned short __nv_bfloat16;\n"
    names = ("Stage", "Either", "Shared")
    shown = " ".join(f'printf("%zu ", sizeof({name}));' for name in names)
    text = f"#include <cstddef>\n#include <cstdio>\n{types}{_HEADER}\nint main() {{ {shown} }}\n"
    (tmp_path / "sizes.cpp").write_text(text)
    program = tmp_path / "sizes"
    subprocess.run(["g++", "-w", tmp_path / "sizes.cpp", "-o", program], check=True)
    said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert [constants.value(f"sizeof({name})") for name in names] == [*map(int, said.split())]


@pytest.mark.parametrize(
    ("unit", "found"),
    [
        (_ASK.format("232449"), "232449"),
        (_ASK.format("8 * TILE_BYTES"), "262144"),
        (_ASK.format("static_cast<int>(3 * sizeof(Either))"), "300288"),
        ("constexpr int kAll = STAGES * 64 << 10;\n" + _ASK.format("kAll"), "262144"),
        (f"kernel<<<grid, Traits<4>::kThreads, sizeof(Shared) * 2, s>>>(q); {_ASK}", "463616"),
        ("kernel<<<dim3(1, 2), block, 240 * 1024>>>(q);", "245760"),
        ("kernel<<<1, 32, 3 * 1024 * 32>>>(q);", "98304"),  # nothing asks for more than 48 KiB
    ],
)
def test_too_much_is_found(tmp_path: Path, unit: str, found: str) -> None:
    """By an attribute or a launch, once per size; also a launch without a permission."""
    (line,) = _found(tmp_path, f"void launch() {{\n{unit}\n}}")
    assert line.partition(" ")[0].startswith("csrc/kernel.cu:")
    assert line.endswith(f" {found}")


@pytest.mark.parametrize(
    "unit",
    [
        _ASK.format("227 << 10") + " kernel<<<grid, block, 227 << 10>>>(q);",
        "kernel<<<grid, 999999>>>(q); kernel<<<grid, block, 0, 999999>>>(q);",
        "kernel<<<grid, block, 48 * 1024>>>(q);",
        _ASK.format("bytes") + " int bytes = 999999;",
        "template <int STAGES> void f() { " + _ASK.format("STAGES * 999999") + " }",
        "void f(int STAGES) { " + _ASK.format("STAGES * 999999") + " }",
        "struct A { static constexpr int kB = 1; }; struct B { static constexpr int kB = 999999; };"
        + _ASK.format("A::kB"),
        "#ifdef BLACKWELL\n" + _ASK.format("999999") + "\n#endif",
        "// " + _ASK.format("999999"),
        "kernel<<<size<1, 999999, 2>(), block, 1>>>(q);",
        "constexpr int kA = kB; constexpr int kB = kA;" + _ASK.format("kA * 999999"),
    ],
)
def test_what_fits_or_is_not_known_is_no_defect(tmp_path: Path, unit: str) -> None:
    """The chip's limit itself, another argument, a name with several meanings, a condition."""
    assert _found(tmp_path, unit) == []


_OTHER = "__global__ void other(float* o) {} __global__ void kernel(float* o) {}\n"
_LAUNCH = "void f() {{ kernel<<<1, 32, {}>>>(q); }}"


@pytest.mark.parametrize(
    ("ask", "found"),
    [
        (_ASK.replace("kernel", "other"), 1),
        (_ASK, 0),
        (_ASK.replace("kernel", "(const void*)kernel"), 0),
        (_ASK.replace("kernel", "chosen"), 0),  # a variable: any kernel
        ("#define ALLOW(k, n) " + _ASK.replace("kernel", "k"), 0),
    ],
)
def test_an_attribute_is_of_one_kernel(tmp_path: Path, ask: str, found: int) -> None:
    """What another kernel is allowed, this one is not."""
    unit = f"{_OTHER}void g() {{\n{ask.format(1 << 16)}\n}}\n{_LAUNCH.format(1 << 16)}"
    assert len(_found(tmp_path, unit)) == found


def _use(arch: int, shared: int) -> KernelUse:
    return KernelUse("_Z6kernelPf", arch, 8, shared, 0)


@pytest.mark.parametrize(
    ("size", "uses", "found"),
    [
        (200 << 10, [_use(80, 0), _use(90, 1024)], ("warning", "sm_80, which it is built for too")),
        (200 << 10, [_use(90, 1024)], None),
        (200 << 10, [_use(80, 0), _use(86, 0)], ("error", "the chips built for have 166912")),
        (220 << 10, [_use(90, 41 << 10)], ("error", "225280 bytes and 40960 of static arrays")),
        (227 << 10, [_use(90, 1 << 10)], None),  # the system's own
    ],
)
def test_limits_of_the_chips(
    tmp_path: Path, size: int, uses: list[KernelUse], found: tuple[str, str] | None
) -> None:
    """Each chip of the build has its limit, which static and dynamic memory share."""
    unit = f"{_OTHER}void g() {{ {_ASK.format(size)} }}\n"
    findings = _findings(tmp_path, unit, uses)
    assert [one.severity for one in findings] == ([found[0]] if found else [])
    assert found is None or found[1] in findings[0].found


def test_sizes_that_only_run_time_knows_are_not_ok(tmp_path: Path) -> None:
    """A variable and a condition are left out, and the check says where."""
    unit = _ASK.format("bytes") + "\n#ifdef WIDE\n" + _ASK.format(8) + "\n#endif"
    (unknown,) = dynamic(read_tree(_tree(tmp_path, unit)))
    assert str(unknown).startswith("csrc/kernel.cu:2 and 1 more: the text leaves the number")


def test_static_and_dynamic_without_an_attribute(tmp_path: Path) -> None:
    """48 KiB are for both together."""
    tree = read_tree(_tree(tmp_path, _OTHER + _LAUNCH.format(40 << 10)))
    assert list(dynamic(tree, [_use(80, 8 << 10)])) == []
    (finding,) = dynamic(tree, [_use(80, 9 << 10)])
    assert isinstance(finding, Finding)
    assert "40960 bytes and 9216 of static arrays" in finding.found


def test_sizes_are_judged_without_cuobjdump(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What no chip has is known from the sources alone."""
    monkeypatch.setattr(resources, "cuda_program", lambda name: None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    library = tmp_path / "_C.so"
    library.write_bytes(b"ELF .nv_fatbin")
    tree = read_tree(_tree(tmp_path, "void f() {\n" + _ASK.format(240 << 10) + "\n}"))
    subject = BuildSubject(tree, 60)
    monkeypatch.setitem(vars(subject), "built", SimpleNamespace(reason=""))
    monkeypatch.setitem(vars(subject), "libraries", [library])
    unknown, finding = shared_memory(subject)
    assert isinstance(finding, Finding)
    assert str(unknown).startswith("cuobjdump is not installed")
    assert finding.found == "asks for 245760 bytes a block; no chip has more than 232448"


def test_against_the_chips_of_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fits the largest chip and none of those that HEAD is built for is found."""
    monkeypatch.setenv("FLASHBENCH_CACHE", str(tmp_path / "cache"))
    project = Repository(tmp_path / "flash")
    kernel = (
        '{"name": "k", "arch": "86", "registers": 8, "static_shared_bytes": 0, "stack_bytes": 0}'
    )
    project.write(
        "build.sh",
        "g++ -shared -fPIC csrc/api.cpp -o flash/kernel.so\n"
        f"echo '{{\"kernels\": [{kernel}]}}' > flash/_build.json\n",
    )
    project.write(
        "pyproject.toml",
        '[tool.flashbench.project]\ncallable = "flash:f"\nbuild = ["sh", "build.sh"]\n',
    )
    project.write("flash/__init__.py", "def f(q, k, v, **others): return q\n")
    project.write("csrc/api.cpp", 'extern "C" int answer() { return 42; }\n')
    project.write("csrc/kernel.cu", f"#define KIB 1024\nvoid f() {{ {_ASK.format('100 * KIB')} }}")
    project.commit("A kernel for one chip")
    report = run(project.root, "build", timeout=60)
    (done,) = (one for one in report.checks if one.name == "shared memory")
    assert [(one.where, one.found) for one in done.findings] == [
        ("csrc/kernel.cu:2", "asks for 102400 bytes a block; the chips built for have 101376")
    ]
