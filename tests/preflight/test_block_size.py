"""Blocks that a chip refuses are found where the text tells their threads, and none is guessed."""

from pathlib import Path

import pytest

from flashbench.preflight.build.block_size import too_large
from flashbench.preflight.build.resources import KernelUse
from flashbench.preflight.finding import Finding
from flashbench.preflight.fixes import edit
from flashbench.preflight.source.tree import read_tree

_KERNEL = "constexpr int kWarps = 16;\n__global__ void scale(float* x) { x[threadIdx.x] *= 2; }\n"


def _found(root: Path, launch: str, *kernels: KernelUse) -> list[Finding]:
    (root / "scale.cu").write_text(f"{_KERNEL}void go(float* x) {{ {launch} }}\n")
    looked = too_large(read_tree(root), kernels)
    return [one for one in looked if isinstance(one, Finding)]


def _scale(registers: int, arch: int = 90) -> KernelUse:
    return KernelUse("_Z5scalePf", arch, registers, 0, 0)


@pytest.mark.parametrize(
    "launch",
    [
        "scale<<<8, 1025>>>(x);",
        "scale<<<8, dim3(32, 64)>>>(x);",
        "scale<<<dim3(8, 2), kWarps * 128, 0, stream>>>(x);",
        "dim3 block(32, 32, 2); scale<<<8, block>>>(x);",
    ],
)
def test_more_threads_than_any_chip_has(tmp_path: Path, launch: str) -> None:
    """Known without a build."""
    (finding,) = _found(tmp_path, launch)
    assert (finding.where, finding.severity) == ("scale.cu:3", "error")
    assert "no chip has more than 1024" in finding.found


def test_more_registers_than_a_block_has(tmp_path: Path) -> None:
    """ptxas gave a thread so many, as nothing told it how many threads there are."""
    (finding,) = _found(tmp_path, "scale<<<8, dim3(32, kWarps)>>>(x);", _scale(136))
    assert finding.found == (
        "launches 512 threads of 136 registers; a block has 65536, enough for 480"
    )
    what = "__launch_bounds__(512) at the kernel, or a smaller block"
    assert finding.fix == edit("scale.cu:3", what)
    assert _found(tmp_path, "scale<<<8, 480>>>(x);", _scale(136)) == []
    assert _found(tmp_path, "scale<<<8, 1024>>>(x);", _scale(64)) == []
    assert len(_found(tmp_path, "scale<<<8, 1024>>>(x);", _scale(65))) == 1


def test_one_chip_of_several_is_a_warning(tmp_path: Path) -> None:
    """A kernel for one chip may never be launched on the others."""
    (finding,) = _found(tmp_path, "scale<<<8, 1024>>>(x);", _scale(64), _scale(72, 80))
    assert finding.severity == "warning"
    assert "of 72 registers on sm_80" in finding.found


@pytest.mark.parametrize(
    "launch",
    [
        "scale<<<8, threads>>>(x);",
        "other<<<8, 1024>>>(x);",
        "dim3 block(32, 32); block.x = 4; scale<<<8, block>>>(x);",
        "dim3 block(n); scale<<<8, block>>>(x);",
        "int block = 1024; block /= 8; scale<<<8, block>>>(x);",
        "\n#ifdef WIDE\nscale<<<8, 1024>>>(x);\n#endif\n",
    ],
)
def test_what_the_text_does_not_tell_is_not_guessed(tmp_path: Path, launch: str) -> None:
    """Variables, other kernels, reassigned names and code under a condition."""
    assert _found(tmp_path, launch, _scale(255)) == []


def test_threads_that_only_run_time_knows_are_not_ok(tmp_path: Path) -> None:
    """The launch is left out, and the check says where it is."""
    (tmp_path / "scale.cu").write_text(f"{_KERNEL}void go(float* x) {{ scale<<<8, n>>>(x); }}\n")
    (unknown,) = too_large(read_tree(tmp_path))
    assert str(unknown) == "scale.cu:3: the text leaves the number of threads open"


def test_variant_with_the_fewest_registers_counts(tmp_path: Path) -> None:
    """Which variant of a template a launch takes is for the compiler to say."""
    variants = (
        KernelUse("_Z5scaleILi64EEvPf", 90, 200, 0, 0),
        KernelUse("_Z5scaleILi32EEvPf", 90, 40, 0, 0),
    )
    assert _found(tmp_path, "scale<64><<<8, 1024>>>(x);", *variants) == []
