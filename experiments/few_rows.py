"""Count right gradients of few rows that the rule calls wrong, with orders of head dims or not.

python experiments/few_rows.py [problems]

It judges flashbench's gradients and those of SDPA's default with the head dims reversed, as in
every run (`baseline_results` of attention), for 2 heads on 1, 2 queries, 147 keys, D 64, fp32.
"""

import sys
from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from flashbench import attention
from flashbench.measuring.problem import Problem
from flashbench.operations import parse_case
from flashbench.operations.attention import operation

CASE = parse_case("attention-backward-b1-h2-g1-q2-k147-d64-fp32-causal-cpu")


def gradients(forward: Callable[..., Tensor], inputs: list[Tensor]) -> tuple[Tensor, ...]:
    """dq, dk and dv of a causal forward."""
    leaves = [x.detach().requires_grad_() for x in inputs[:3]]
    return torch.autograd.grad(forward(*leaves, is_causal=True, enable_gqa=True), leaves, inputs[3])


def main(problems: int) -> None:
    """Print how many problems each has wrong."""
    torch.set_num_threads(1)
    for most in (0, operation._MOST_ORDERS):
        operation._MOST_ORDERS = most
        wrong: Counter[str] = Counter()
        for seed in range(problems):
            problem = Problem(CASE, seed, full_check=True)
            inputs = list(problem.inputs)
            turned = gradients(scaled_dot_product_attention, [x.flip(3) for x in inputs])
            found = {
                "flashbench": gradients(attention, inputs),
                "SDPA reversed": tuple(x.flip(3) for x in turned),
            }
            for name, result in found.items():
                wrong[name] += not problem.check(result, 1).correct
        print(f"up to {most} orders, of {problems} problems wrong: {dict(wrong)}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
