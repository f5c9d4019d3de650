"""The example of training learns the same with flashbench's attention as with SDPA's."""

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent.parent / "examples/train_transformer.py"


@pytest.mark.parametrize(("dtype", "tolerance"), [("fp32", 1e-3), ("bf16", 0.05)])
def test_the_losses_overlay(
    dtype: str, tolerance: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the same weights both losses fall alike, step for step."""
    example = runpy.run_path(str(EXAMPLE))
    sizes = ["--steps", "25", "--width", "64", "--length", "96", "--batch", "2", "--dtype", dtype]
    trainings = example["train"](example["arguments"](sizes))
    ours, sdpa = trainings["ours"].losses, trainings["sdpa"].losses
    assert len(ours) == len(sdpa) == 25
    assert sum(ours[-5:]) < 0.75 * sum(ours[:5])
    assert max(abs(a - b) / b for a, b in zip(ours, sdpa, strict=True)) < tolerance
    assert "step   20  loss: ours" in capsys.readouterr().out
