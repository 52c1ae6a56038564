"""Group advantages and token KL beside the formulas of TRL's GRPO trainer, written out in torch.

TRL itself is not needed: its trainer computes both with a few tensor operations.

    pip install -c constraints.txt -e '.[peers]'
    python benchmarks/bench_trl_comparison.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from bench_llm_ops import (
    P10_SIZES,
    P11_SIZES,
    Array,
    draw_log_probs,
    draw_rewards,
    numpy_advantages,
    numpy_kl,
)
from harness.case import Case, Tolerance
from harness.cli import Context, run
from harness.systems import function_make, local_system, rlox_function_make


def advantages(context: Context) -> Iterator[Case]:
    """Yield the advantages of rewards, in float32 as in TRL."""
    for groups, completions in P10_SIZES:
        rewards = draw_rewards(groups, completions).astype(np.float32)
        name, arguments = "compute_batch_group_advantages", (rewards, completions)
        yield Case(
            row="T1",
            work="group advantages beside TRL's formula, float32",
            size=f"{groups:,} x {completions}",
            ours=(local_system("rlox", "rlox", rlox_function_make(name, arguments, "advantages")),),
            peers=(
                local_system(
                    "TRL-style torch",
                    "torch",
                    lambda r=rewards, c=completions: trl_advantages(r, c)(),
                    is_compared=False,
                    note="divides by the sample standard deviation + 1e-4, so its numbers differ",
                ),
                local_system("NumPy", "numpy", numpy_advantages(rewards, completions)),
            ),
            tolerance=Tolerance(1e-3, 1e-4),
            elements=rewards.size,
        )


def trl_advantages(rewards: Array, completions: int) -> Any:
    """Compute TRL's advantages; means and deviations of the groups are repeated for each completion."""
    import torch

    tensor = torch.from_numpy(rewards)

    def call() -> Any:
        grouped = tensor.view(-1, completions)
        mean = torch.nanmean(grouped, dim=1)
        count = torch.sum(~torch.isnan(grouped), dim=1)
        variance = torch.nanmean((grouped - mean.unsqueeze(1)) ** 2, dim=1)
        std = torch.sqrt(variance * count / (count - 1))
        mean = mean.repeat_interleave(completions, dim=0)
        std = std.repeat_interleave(completions, dim=0)
        return (tensor - mean) / (std + 1e-4)

    return function_make(call, "advantages")


def token_kl(context: Context) -> Iterator[Case]:
    """Yield the masked sum of k3 over each sequence, from log-probabilities in float32."""
    for sequences, tokens in P11_SIZES:
        policy, reference = draw_log_probs(sequences, tokens, np.float32)
        name, arguments = "compute_batch_token_kl_schulman", (policy, reference, tokens)
        yield Case(
            row="T2",
            work="k3 token KL beside TRL's formula, float32",
            size=f"{sequences} x {tokens:,}",
            ours=(local_system("rlox", "rlox", rlox_function_make(name, arguments, "kl")),),
            peers=(
                local_system(
                    "TRL-style torch",
                    "torch",
                    lambda p=policy, q=reference, t=tokens: trl_kl(p, q, t)(),
                    note="with a completion mask of ones, as TRL always multiplies by it",
                ),
                local_system("NumPy", "numpy", numpy_kl(policy, reference, tokens)),
            ),
            tolerance=Tolerance(1e-3, 1e-3),
            elements=policy.size,
        )


def trl_kl(policy: Array, reference: Array, tokens: int) -> Any:
    """Compute the sum on `[B, T]` tensors and a mask."""
    import torch

    p, q = (torch.from_numpy(a).view(-1, tokens) for a in (policy, reference))
    mask = torch.ones_like(p)

    def call() -> Any:
        per_token = torch.exp(q - p) - (q - p) - 1
        return (per_token * mask).sum(-1)

    return function_make(call, "kl")


ROWS = {"T1": advantages, "T2": token_kl}

if __name__ == "__main__":
    sys.exit(run(ROWS, "trl_comparison", __doc__))
