"""Have MKL choose its vector-math kernels before a candidate is called.

At the first call in a process of exp, log, sqrt and others on float tensors, MKL 2024.2, which is
in torch's CPU wheels, keeps for a moment the CPU's number where it keeps its choice. A second
thread of that call may read it: on an Intel CPU with AVX-512 it takes the kernel of lowest accuracy
for its share, with errors of 1e-4, and a right candidate is found wrong
(https://github.com/pytorch/pytorch/issues/188792).
"""

import torch


def choose_kernels() -> None:
    """Call such a function on one element, so on one thread. One is enough for all of them."""
    torch.zeros(1, dtype=torch.float32, device="cpu").exp()
