"""The GPUs that CUDA sees: CUDA_VISIBLE_DEVICES hides others, and what is wrong with them."""

from collections.abc import Sequence

from flashbench.preflight.device.nvidia_smi import GpuState


def visible(gpus: Sequence[GpuState], chosen: str | None, order: str = "") -> list[GpuState]:
    """The GPUs that a value of CUDA_VISIBLE_DEVICES leaves, all of them without one.

    chosen: indices, beginnings of UUIDs, MIG instances; CUDA ignores what follows a name that it
    does not know. order: CUDA_DEVICE_ORDER, without which CUDA numbers GPUs of different models in
    an order of its own: then any may be meant by an index.
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
        elif name.startswith("MIG-GPU-"):  # of drivers before 470: MIG-GPU-UUID/instance/instance
            named = [gpu for gpu in gpus if gpu.uuid == name[4:].partition("/")[0]]
        elif name.startswith("MIG-"):
            named = [gpu for gpu in gpus if gpu.instances]
        else:
            named = []
        if not named:
            break
        found += [gpu for gpu in named if gpu not in found]
    return found
