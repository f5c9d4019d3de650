"""Checks of the GPU and its software, from what they report. They touch no setting."""

from flashbench.preflight.device import chips, gpu, software
from flashbench.preflight.device.answers import Answers, ask_machine
from flashbench.preflight.device.torch_answer import TorchAnswer
from flashbench.preflight.finding import Check

__all__ = ["CHECKS", "Answers", "TorchAnswer", "ask_machine"]

CHECKS: tuple[Check[Answers], ...] = (
    Check("driver", "without it no GPU is seen", software.driver),
    Check("driver against torch", "torch sees no GPU, after everything was built", software.fits),
    Check("torch sees the GPU", "every case would be measured on nothing", software.torch_sees),
    Check(
        "chip is covered",
        "no kernel image is available for execution on the device",
        chips.chip_covered,
    ),
    Check(
        "torch covers the chip",
        "the baseline ends with: no kernel image is available",
        chips.torch_covered,
    ),
    Check("SDPA backends", "the baseline that is beaten is not the best one", software.backends),
    Check("nvcc", "no revision can be built here", software.nvcc),
    Check("ncu", "where the time goes stays unknown", software.ncu),
    Check("other processes", "times are shared with them, and memory", gpu.other_processes),
    Check("MIG", "a slice is measured, not the chip", gpu.mig),
    Check("compute mode", "only one process, or none, may use the GPU", gpu.compute_mode),
    Check("ECC", "results may be wrong, or the GPU about to be lost", gpu.ecc),
    Check("throttling", "the chip is measured slower than it is", gpu.throttling),
    Check("clocks", "the chip would be measured at a fixed clock", gpu.clocks),
    Check("power limit", "long kernels are slower than on other machines", gpu.power),
    Check("persistence", "each first call pays for waking the driver", gpu.persistence),
    Check("free memory", "long cases end with out of memory", gpu.memory),
    Check("free disk", "builds and run files cannot be written", gpu.disk),
)
