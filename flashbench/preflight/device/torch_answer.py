"""What torch reports about the GPU, from a process of its own."""

import json
import sys
from dataclasses import dataclass

from flashbench.preflight.finding import CannotCheck
from flashbench.preflight.programs import ask

_SECONDS = 120.0  # the first import of torch from a slow disk takes long


@dataclass(frozen=True)
class TorchAnswer:
    """cuda: the version torch is built for, "" without; archs: those it has kernels for, as sm_90;
    chips: of the devices, as 9.0; error: why it cannot be imported, sees no device or fails on it;
    missing: SDPA backends that accept no call."""

    version: str = ""
    cuda: str = ""
    available: bool = False
    archs: tuple[str, ...] = ()
    chips: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    error: str = ""


_TORCH = """
import json
found = {}
try:
    import torch
    found = {"version": torch.__version__, "cuda": torch.version.cuda or ""}
    torch.cuda.init()
    found |= {"available": torch.cuda.is_available(), "archs": torch.cuda.get_arch_list()}
    chips = map(torch.cuda.get_device_capability, range(torch.cuda.device_count()))
    found["chips"] = [f"{major}.{minor}" for major, minor in chips]
    from torch.nn.attention import SDPBackend, sdpa_kernel
    q = torch.randn(1, 2, 128, 64, device="cuda", dtype=torch.float16)
    torch.cuda.synchronize()
    missing = []
    for name in ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH"):
        try:
            with sdpa_kernel(getattr(SDPBackend, name)):
                torch.nn.functional.scaled_dot_product_attention(q, q, q)
            torch.cuda.synchronize()
        except Exception:
            missing.append(name.removesuffix("_ATTENTION").lower())
    found["missing"] = missing
except BaseException as error:
    first = (str(error).splitlines() or [""])[0]
    found["error"] = f"{type(error).__name__}: {first}"
print(json.dumps(found))
"""


def ask_torch() -> TorchAnswer | None:
    """Ask torch; None if it is not installed."""
    try:
        answer = ask([sys.executable, "-W", "ignore", "-c", _TORCH], _SECONDS)
    except CannotCheck as reason:
        return TorchAnswer(error=f"import torch: {reason}")
    try:
        said = json.loads(answer.output.splitlines()[-1])
    except (ValueError, IndexError):
        return TorchAnswer(error=f"it ended with {answer.code}: {answer.first_line}")
    if "No module named 'torch'" in said.get("error", ""):
        return None
    return TorchAnswer(
        version=said.get("version", ""),
        cuda=said.get("cuda", ""),
        available=said.get("available", False),
        archs=tuple(said.get("archs", ())),
        chips=tuple(said.get("chips", ())),
        missing=tuple(said.get("missing", ())),
        error=said.get("error", ""),
    )
