"""Case: one problem of an operation to measure candidates on.

Does not import torch: `compare` and `show` read cases without that cost.
"""

from typing import Literal, get_args

DtypeName = Literal["fp32", "fp16", "bf16"]
DTYPES: tuple[DtypeName, ...] = get_args(DtypeName)
DEFAULT_DTYPES: dict[str, tuple[DtypeName, ...]] = {
    "cpu": ("fp32", "fp16", "bf16"),
    "cuda": ("fp16", "bf16"),
}
BYTES_PER_ELEMENT: dict[str, int] = {"fp32": 4, "fp16": 2, "bf16": 2}


class Case:
    """One cell of a grid: the parameters of an operation, a dtype, a device ("cpu" or "cuda").

    operation: its name, or `module:name`. sizes: whole numbers by name, in the operation's order.
    options: words by name, such as a mask. id: the name in files, tables and flags. flops: what the
    definition needs, 0 if unknown. bytes: least to move, inputs read and result written once.
    exponentials: those of the definition.

    Operations make cases: `Operation.case`. Only what identifies one is compared.
    """

    __slots__ = (
        "bytes",
        "device",
        "dtype",
        "exponentials",
        "flops",
        "id",
        "operation",
        "options",
        "sizes",
    )

    def __init__(
        self,
        operation: str,
        sizes: dict[str, int],
        dtype: DtypeName,
        device: str,
        *,
        id: str,
        options: dict[str, str] | None = None,
        flops: int = 0,
        bytes: int = 0,
        exponentials: int = 0,
    ) -> None:
        self.operation = operation
        self.sizes = sizes
        self.options = options or {}
        self.dtype = dtype
        self.device = device
        self.id = id
        self.flops = flops
        self.bytes = bytes
        self.exponentials = exponentials

    def _identity(self) -> tuple[str, str]:
        return self.operation, self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Case) and self._identity() == other._identity()

    def __lt__(self, other: "Case") -> bool:
        return self._identity() < other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        return f"Case({self.id})"
