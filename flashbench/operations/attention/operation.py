"""Attention, softmax(q k^T / sqrt(head_dim)) v: the first operation, and the default."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from flashbench.callables import LAYOUTS
from flashbench.case import DTYPES, Case, DtypeName
from flashbench.errors import InvalidInputError
from flashbench.operations.attention import sdpa, words
from flashbench.operations.attention.shapes import PRESETS, Shape, parse_shape
from flashbench.operations.operation import Baseline, Inputs, Operation, Options, Sizes

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from flashbench.operations.operation import Output

# Mask requests: none, causal aligned at the top left, causal aligned at the bottom right. The
# causal mask hides key j from query i where j > i, or, at the bottom right, j > i + k_len - q_len.
Causal = bool | Literal["bottom_right"]
MASKS = ("full", "causal", "bottom_right")
# (length, head dim): kernels may take one alone.
_TRIED = ((64, 64), (128, 128), (128, 64), (64, 32), (256, 256), (128, 96), (512, 128))
_MAX_SCORES = 2**22  # that the math backend may write to memory
_ORDERED_ROWS, _MOST_ORDERS = 128, 32  # of all orders together, and orders of the head dims


class AttentionForward(Operation):
    """q: (batch, heads, q_len, head_dim); k, v: (batch, kv_heads, k_len, head_dim), N(0, 1).

    With another layout they are views of memory in that order: of "bshd", (batch, length, heads,
    head_dim)."""

    name = "attention"
    sizes = Shape.__struct_fields__
    presets: Mapping[str, Sequence[str]] = dict.fromkeys(PRESETS, ())
    options: Sequence[Options] = ({"mask": "full"}, {"mask": "causal"})
    baseline = "sdpa"
    backends: Mapping[str, Sequence[str]] = sdpa.OFFERED
    auto_backends: Mapping[str, Sequence[str]] = sdpa.AUTO
    row_dimension: int | None = 2
    change_negates = True

    def parse(self, text: str) -> list[Sizes]:
        """`1,8,512,64`, or `b1-h8-g2-q512-k1024-d64`."""
        return [parse_shape(text).sizes]

    def preset(self, name: str) -> list[Sizes]:
        if name not in self.presets:
            return super().preset(name)  # says which there are
        return [shape.sizes for shape in PRESETS[name]]

    def requested(self, causal: str, layout: str) -> Sequence[Options]:
        found = self.options if causal == "both" else [{"mask": causal}]
        return [{**one, **_laid_out(layout)} for one in found]

    def id(self, sizes: Sizes, dtype: DtypeName, device: str, options: Options) -> str:
        """Such as `b1-h8-q512-d64-fp16-causal-cpu`: `g<kv heads>` appears with grouped-query
        heads, `k<key length>` if it differs from q's, the layout after the mask if it is not the
        usual one."""
        s = Shape(**sizes)
        parts = [f"b{s.batch}", f"h{s.heads}"]
        if s.kv_heads != s.heads:
            parts.append(f"g{s.kv_heads}")
        parts.append(f"q{s.q_len}")
        if s.k_len != s.q_len:
            parts.append(f"k{s.k_len}")
        parts += [f"d{s.head_dim}", dtype, *options.values(), device]
        return "-".join(parts)

    def parse_id(self, text: str) -> Case:
        """Read a case id; InvalidInputError with the accepted form."""
        usual, layout = text, LAYOUTS[0]
        for other in LAYOUTS[1:]:
            if f"-{other}-" in text:
                usual, layout = text.replace(f"-{other}-", "-"), other
        shape, *rest = usual.rsplit("-", 3)
        if len(rest) == 3 and rest[0] in DTYPES and rest[1] in MASKS:
            dtype: DtypeName = next(name for name in DTYPES if name == rest[0])
            if rest[2] in ("cpu", "cuda"):
                options = {"mask": rest[1], **_laid_out(layout)}
                return self.case(parse_shape(shape).sizes, dtype, rest[2], options)
        example = self.id(PRESETS["headline"][0].sizes, "fp16", "cpu", self.options[0])
        raise InvalidInputError(
            f"invalid case {text[:100]!r}; write it as in tables, such as {example}"
        )

    def flops(self, sizes: Sizes, options: Options) -> int:
        """Operations of the two matrix products, counting exactly the unmasked pairs."""
        return 4 * sizes["head_dim"] * self.exponentials(sizes, options)

    def elements(self, sizes: Sizes) -> int:
        s = Shape(**sizes)
        rows = 2 * s.batch * s.heads * s.q_len + 2 * s.batch * s.kv_heads * s.k_len
        return rows * s.head_dim

    def exponentials(self, sizes: Sizes, options: Options) -> int:
        """One for each unmasked query-key pair, over batch and heads."""
        s = Shape(**sizes)
        if options["mask"] == "full":
            return s.batch * s.heads * s.q_len * s.k_len
        triangle = min(s.q_len, s.k_len)
        # Beside it the rows past the keys, or, at the bottom right, the keys that all rows see.
        beside = s.q_len * (s.k_len - triangle)
        if options["mask"] == "causal":
            beside = (s.q_len - triangle) * s.k_len
        return s.batch * s.heads * (triangle * (triangle + 1) // 2 + beside)

    shape_caption = words.CAPTION
    scales_with = "keys"

    def parts(self, case: Case) -> dict[str, str | int]:
        return {
            "shape": case.id.split(f"-{case.dtype}-")[0],
            "batch": case.sizes["batch"],
            "heads": case.sizes["heads"],
            "length": case.sizes["k_len"],
            "head_dim": case.sizes["head_dim"],
            "dtype": case.dtype,
            "mask": mask_of(case),
            "layout": layout_of(case),
            "device": case.device,
        }

    def order(self, case: Case) -> tuple[object, ...]:
        place = MASKS.index(mask_of(case)), LAYOUTS.index(layout_of(case))
        return (*case.sizes.values(), case.dtype, *place, case.device)

    def in_words(self, case: Case) -> str:
        return words.in_words(case)

    def grid_in_words(self, cases: Sequence[Case]) -> str:
        return words.grid_in_words(cases)

    def shape_panel(self, case: Case) -> tuple[tuple[str | int, ...], list[str]]:
        """One for a mask and head dim."""
        head_dim = case.sizes["head_dim"]
        return (mask_of(case), head_dim), [words.mask(case), f"head dim {head_dim}"]

    def shape_in_panel(self, case: Case) -> str:
        """`b1-h8-q512`: batch, heads, lengths."""
        return case.id.split(f"-d{case.sizes['head_dim']}-")[0]

    def scale(self, case: Case) -> int:
        return case.sizes["k_len"]

    def family(self, case: Case, *, strict: bool) -> tuple[str, ...]:
        return words.family(case, strict=strict)

    def small_shapes(self) -> Sequence[Sizes]:
        return [Shape(1, 2, 2, length, length, head_dim).sizes for length, head_dim in _TRIED]

    def import_ahead(self) -> None:
        import flashbench.operations.attention.truth  # noqa: F401

        sdpa.load("math")

    def load_baseline(self, backend: str) -> Baseline:
        return sdpa.load(backend)

    def baseline_refuses(self, error: Exception) -> bool:
        return sdpa.NO_BACKEND.search(str(error)) is not None

    def inputs(self, case: Case, dtype: "torch.dtype", random: "torch.Generator") -> Inputs:
        import torch

        s = shape_of(case)

        def normal(heads: int, length: int) -> "Tensor":
            size = (s.batch, heads, length, s.head_dim)
            drawn = torch.randn(size, generator=random, device=case.device).to(dtype)
            order = tuple(map(LAYOUTS[0].index, layout_of(case)))
            back = tuple(map(layout_of(case).index, LAYOUTS[0]))
            return drawn.permute(order).contiguous().permute(back)

        keywords: dict[str, object] = {"is_causal": mask_of(case) == "causal"}
        if mask_of(case) == "bottom_right":
            from torch.nn.attention.bias import causal_lower_right  # slow to import

            keywords = {"attn_mask": causal_lower_right(s.q_len, s.k_len)}
        if s.heads != s.kv_heads:
            keywords["enable_gqa"] = True
        q = normal(s.heads, s.q_len)
        return Inputs((q, normal(s.kv_heads, s.k_len), normal(s.kv_heads, s.k_len)), keywords)

    def truth(self, case: Case, inputs: Inputs, rows: "Tensor | None" = None) -> "Output":
        from flashbench.operations.attention.truth import attention

        mask = mask_of(case)
        causal, bottom_right = mask != "full", mask == "bottom_right"
        return attention(*inputs.tensors, is_causal=causal, bottom_right=bottom_right, rows=rows)

    def truth_work(self, case: Case) -> int:
        s = shape_of(case)
        return s.batch * s.heads * s.q_len * s.k_len * s.head_dim

    def rounding(self, case: Case, expected: "Tensor", dtype: "torch.dtype") -> float:
        from flashbench.operations.attention.truth import rounding

        return rounding(expected, dtype)

    def baseline_results(self, case: Case, inputs: Inputs) -> "list[Output]":
        """SDPA's by its default; of small fp32 problems also by its math backend; of those with few
        rows also by its default with the head dims in other orders.

        An error in fp32 is a few roundings, so with few numbers one implementation may be right by
        luck, and an equally exact one would then count as wrong. The order of the head dims changes
        no result, only the roundings.
        """
        found = super().baseline_results(case, inputs)
        s = shape_of(case)
        rows = s.batch * s.heads * s.q_len
        if case.dtype != "fp32" or rows * s.k_len > _MAX_SCORES:
            return found
        math = sdpa.load("math")
        with math.scope():
            found.append(self.bind(math.call, inputs)())
        default = self.load_baseline("").call
        for order in _orders(s.head_dim, min(_ORDERED_ROWS // rows, _MOST_ORDERS)):
            reordered = Inputs(tuple(x[..., order] for x in inputs.tensors), inputs.keywords)
            results = self.bind(default, reordered)()
            back = order.argsort()
            found.append(
                tuple(x[..., back] for x in results)
                if isinstance(results, tuple)
                else results[..., back]
            )
        return found

    def change(self, tensors: "Sequence[Tensor]") -> None:
        """v becomes -v, which negates the result."""
        tensors[2].data.neg_()


ATTENTION = AttentionForward()


def _orders(head_dim: int, count: int) -> "Iterable[Tensor]":
    """Orders of the head dims, the same ones every time."""
    import torch

    random = torch.Generator().manual_seed(0)
    return (torch.randperm(head_dim, generator=random) for _ in range(count))


def attention_case(
    shape: Shape,
    dtype: DtypeName,
    causal: bool,
    device: str,
    bottom_right: bool = False,
    layout: str = LAYOUTS[0],
) -> Case:
    """A case of attention. Raises ValueError for bottom_right without causal, and for a layout that
    is not one of `LAYOUTS`."""
    if bottom_right and not causal:
        raise ValueError("bottom_right is for causal cases alone")
    if layout not in LAYOUTS:
        raise ValueError(f"a layout is one of {', '.join(LAYOUTS)}")
    options = {"mask": MASKS[causal + bottom_right], **_laid_out(layout)}
    return ATTENTION.case(shape.sizes, dtype, device, options)


def shape_of(case: Case) -> Shape:
    """The shape of a case of attention."""
    return Shape(**case.sizes)


def mask_of(case: Case) -> str:
    """The case's mask, one of `MASKS`."""
    return case.options["mask"]


def layout_of(case: Case) -> str:
    """The case's layout, one of `LAYOUTS`."""
    return case.options.get("layout", LAYOUTS[0])


def _laid_out(layout: str) -> Options:
    """The usual layout is not said: cases without layouts keep their ids."""
    return {} if layout == LAYOUTS[0] else {"layout": layout}


def masks(causal: Iterable[Causal]) -> list[Options]:
    """The options of these mask requests."""
    return [{"mask": one if isinstance(one, str) else MASKS[one]} for one in causal]


def grid(
    shapes: Iterable[Shape], dtypes: Sequence[DtypeName], causal: Sequence[Causal], device: str
) -> list[Case]:
    """Every combination, without repeats, ordered by shape, then dtype, then mask."""
    return ATTENTION.grid([shape.sizes for shape in shapes], dtypes, masks(causal), device)
