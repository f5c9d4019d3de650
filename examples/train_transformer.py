"""Train a small transformer with flashbench.attention and with SDPA, from the same weights.

    python examples/train_transformer.py            # on a CPU: 7 seconds on two idle cores
    python examples/train_transformer.py --device cuda --dtype bf16 --steps 200 \\
        --layers 4 --width 1024 --heads 8 --length 4096

The text is this repository's LICENSE, byte by byte. Both models take each step in turn, on the same
batch. Printed are the losses of about ten steps side by side, the largest difference of all steps
and, after 30 steps or more, the tokens a second of each and their ratio, with 95 % intervals by a
bootstrap over the steps after the tenth. `--control again` trains a third model, with SDPA's
again: its losses differ from SDPA's by what differs from run to run, with `--control math` by the
roundings of SDPA's MATH backend. `--save FILE` writes all losses and the rates as JSON.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from flashbench import attention
from flashbench.extension import build_info
from flashbench.machine import cpu_name

TEXT = Path(__file__).parent.parent / "LICENSE"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WARM_UP, BLOCK, LEAST_FOR_RATES = 10, 5, 30  # steps
Attend = Callable[..., Tensor]
ATTENTIONS: dict[str, Attend] = {"ours": attention, "sdpa": scaled_dot_product_attention}


def math_backend(*qkv: Tensor, is_causal: bool) -> Tensor:
    """SDPA by operations of torch, whose roundings differ from those of its other backends."""
    with sdpa_kernel(SDPBackend.MATH):
        return scaled_dot_product_attention(*qkv, is_causal=is_causal)


CONTROLS: dict[str, Attend] = {"again": scaled_dot_product_attention, "math": math_backend}


class Block(nn.Module):
    """Attention and a two-layer network, each added to its input."""

    def __init__(self, width: int, heads: int, attend: Attend) -> None:
        super().__init__()
        self.heads, self.attend = heads, attend
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        projected = self.qkv(self.before_attention(x)).chunk(3, dim=-1)
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in projected)
        attended = self.attend(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.mlp(self.before_mlp(x))


class Model(nn.Module):
    """Predicts the next byte at each position."""

    def __init__(self, width: int, heads: int, layers: int, length: int, attend: Attend) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(256, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads, attend) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 256))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        return self.head(self.blocks(x))  # type: ignore[no-any-return]


class Training:
    """A model and its optimiser; every training of the same sizes starts from the same weights."""

    def __init__(self, sizes: argparse.Namespace, attend: Attend) -> None:
        torch.manual_seed(0)
        model = Model(sizes.width, sizes.heads, sizes.layers, sizes.length, attend)
        model = model.to(sizes.device, DTYPES[sizes.dtype])
        self.optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.model: Callable[[Tensor], Tensor] = model
        if sizes.compile:
            self.model = torch.compile(model, fullgraph=True, mode=sizes.compile)
        self.losses: list[float] = []
        self.seconds: list[float] = []

    def step(self, tokens: Tensor) -> None:
        """Learn from tokens (batch, length + 1); `item` waits for the device."""
        start = time.perf_counter()
        predicted = self.model(tokens[:, :-1]).float()
        loss = cross_entropy(predicted.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.losses.append(loss.item())
        self.seconds.append(time.perf_counter() - start)


def batches(sizes: argparse.Namespace) -> Iterator[Tensor]:
    """Random pieces of the text, the same every time."""
    text = torch.frombuffer(bytearray(TEXT.read_bytes()), dtype=torch.uint8).long()
    generator = torch.Generator().manual_seed(0)
    for _ in range(sizes.steps):
        starts = torch.randint(len(text) - sizes.length, (sizes.batch,), generator=generator)
        yield torch.stack([text[i : i + sizes.length + 1] for i in starts]).to(sizes.device)


def train(sizes: argparse.Namespace) -> dict[str, Training]:
    """Train with each attention, a step of one after a step of the other."""
    attentions = dict(ATTENTIONS)
    if sizes.control:
        attentions[f"sdpa {sizes.control}"] = CONTROLS[sizes.control]
    trainings = {name: Training(sizes, attend) for name, attend in attentions.items()}
    for step, tokens in enumerate(batches(sizes)):
        for training in trainings.values():
            training.step(tokens)
        if step % max(10, sizes.steps // 10) == 0:
            losses = [f"{name} {x.losses[-1]:.4f}" for name, x in trainings.items()]
            print(f"step {step:4}  loss: {'  '.join(losses)}", flush=True)
    return trainings


def largest_difference(losses: list[float], sdpa: list[float]) -> tuple[int, float]:
    """The step whose losses differ most, and by how much, as a part of SDPA's."""
    parts = [abs(a - b) / b for a, b in zip(losses, sdpa, strict=True)]
    step = int(np.argmax(parts))
    return step, parts[step]


def interval(seconds: list[np.ndarray], statistic: Callable[..., float]) -> tuple[float, ...]:
    """A statistic of the steps' times with its 95 % interval. Steps are drawn in blocks of five,
    all trainings' at once: neighbours have disturbances in common."""
    blocks = [times[: len(times) // BLOCK * BLOCK].reshape(-1, BLOCK) for times in seconds]
    random = np.random.default_rng(0)
    found = [
        statistic(*(times[drawn] for times in blocks))
        for drawn in random.integers(len(blocks[0]), size=(2000, len(blocks[0])))
    ]
    low, high = np.quantile(found, (0.025, 0.975))
    return statistic(*blocks), low, high


def rates(
    sizes: argparse.Namespace, trainings: dict[str, Training]
) -> dict[str, tuple[float, ...]]:
    """Tokens a second of each, from the median step, and those of the others over sdpa's, with 95 %
    intervals."""
    tokens = sizes.batch * sizes.length
    seconds = {name: np.array(x.seconds[WARM_UP:]) for name, x in trainings.items()}
    found = {
        name: interval([times], lambda x: tokens / np.median(x)) for name, times in seconds.items()
    }
    for name in names_beside_sdpa(trainings):
        both = [seconds[name], seconds["sdpa"]]
        found[f"{name} / sdpa"] = interval(both, lambda x, sdpa: np.median(sdpa) / np.median(x))
    return found


def names_beside_sdpa(trainings: dict[str, Training]) -> list[str]:
    """Ours and, if it was trained, the control."""
    return [name for name in trainings if name != "sdpa"]


def machine(sizes: argparse.Namespace) -> str:
    """The GPU's name, or how many threads compute on what CPU."""
    if sizes.device != "cpu":
        return torch.cuda.get_device_name(sizes.device)
    return f"{cpu_name()}, {torch.get_num_threads()} threads"


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """The sizes of the model and of the training, the device and the file to write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    parser.add_argument("--dtype", default="fp32", choices=DTYPES, help="of weights; default fp32")
    modes = ("default", "reduce-overhead")
    parser.add_argument("--compile", choices=modes, help="by torch.compile, in this mode")
    parser.add_argument("--control", choices=CONTROLS, help="train with SDPA twice")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write losses and rates as JSON")
    for name, default in (
        ("steps", 100),
        ("batch", 2),
        ("length", 512),
        ("layers", 2),
        ("width", 128),
        ("heads", 2),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    return parser.parse_args(given)


def main() -> None:
    """Train, print losses and rates, and save them if asked to."""
    sizes = arguments()
    trainings = train(sizes)
    losses = {name: x.losses for name, x in trainings.items()}
    differences = {}
    for name in names_beside_sdpa(trainings):
        step, part = differences[name] = largest_difference(losses[name], losses["sdpa"])
        print(f"{name}: losses differ by at most {part:.2g} of sdpa's, at step {step}")
    found = rates(sizes, trainings) if sizes.steps >= LEAST_FOR_RATES else {}
    for name in trainings if found else ():
        rate, low, high = found[name]
        print(f"{name}: {rate:.0f} [{low:.0f}, {high:.0f}] tokens a second")
    for name in names_beside_sdpa(trainings) if found else ():
        ratio, low, high = found[f"{name} / sdpa"]
        print(f"{name}: {ratio:.3f} [{low:.3f}, {high:.3f}] steps in the time of one with sdpa")
    if not found:
        print(f"tokens a second need --steps {LEAST_FOR_RATES} or more")
    if sizes.save:
        given = {name: value for name, value in vars(sizes).items() if name != "save"}
        saved = {"commit": build_info().commit, "torch": torch.__version__}
        saved |= {"machine": machine(sizes), **given}
        saved |= {"losses": losses, "differences": differences, "rates": found}
        sizes.save.write_text(json.dumps(saved) + "\n")


if __name__ == "__main__":
    main()
