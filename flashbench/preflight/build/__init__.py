"""Checks that compile, on a machine without a GPU: the tools, and HEAD from a clean export."""

from flashbench.preflight.build import (
    architecture_list,
    block_size,
    head_build,
    shared_memory,
    stale,
    tools,
)
from flashbench.preflight.build.subject import BuildSubject
from flashbench.preflight.finding import Check

CHECKS: tuple[Check[BuildSubject], ...] = (
    Check("C++ compiler", "nothing can be built", tools.compiler),
    Check("Python headers", "the bindings do not compile", tools.python_headers),
    Check("nvcc", "the CUDA units are left out, or nothing is built", tools.nvcc),
    Check(
        "architecture list",
        "the build leaves out the chip of this machine",
        architecture_list.architecture_list,
    ),
    Check("pip", "packages go nowhere, or to another Python than the one that runs", tools.pip),
    Check(
        "build requirements", "the first build ends with an import error", tools.build_requirements
    ),
    Check("torch", "there is no baseline, and nothing to compile against", tools.torch),
    Check("clean build", "what builds here builds nowhere else", head_build.clean_build),
    Check(
        "shared memory", "the kernel is refused when it is launched", shared_memory.shared_memory
    ),
    Check("block size", "the kernel is refused when it is launched", block_size.block_size),
    Check("spills", "registers that do not fit go through memory", head_build.spills),
    Check("stale library", "old code is measured as new", stale.stale_library),
)
