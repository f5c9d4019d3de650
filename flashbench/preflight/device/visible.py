"""The GPUs CUDA sees: CUDA_VISIBLE_DEVICES hides the others, and what is wrong with them."""

from collections.abc import Sequence

from flashbench.preflight.device.nvidia_smi import GpuState


def visible(gpus: Sequence[GpuState], chosen: str | None, order: str = "") -> list[GpuState]:
    """Select the GPUs that a value of CUDA_VISIBLE_DEVICES leaves visible; without one, all.

    chosen: indices, UUID prefixes, MIG instances; CUDA ignores what follows an unknown name. order:
    CUDA_DEVICE_ORDER; without it CUDA numbers GPUs of different models in its own order, so an
    index may mean any of them.
    """
    if chosen is None:
        return list(gpus)
    mixed = order != "PCI_BUS_ID" and len({gpu.name.rpartition(": ")[2] for gpu in gpus}) > 1
    found: list[GpuState] = []
    for name in map(str.strip, chosen.split(",")):
        if name.isdecimal() and int(name) < len(gpus):
            named = list(gpus) if mixed else [gpus[int(name)]]
        elif name.startswith("GPU-"):
            named = [gpu for gpu in gpus if gpu.uuid.startswith(name)]
        elif name.startswith("MIG-GPU-"):  # drivers before 470: MIG-GPU-UUID/instance/instance
            named = [gpu for gpu in gpus if gpu.uuid == name[4:].partition("/")[0]]
        elif name.startswith("MIG-"):
            named = [gpu for gpu in gpus if gpu.instances]
        else:
            named = []
        if not named:
            break
        found += [gpu for gpu in named if gpu not in found]
    return found
