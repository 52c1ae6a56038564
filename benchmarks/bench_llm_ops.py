"""Computations of language-model training outside the network: group advantages and token KL.

P10 measures group advantages, P11 the k3 estimator of KL over sequences, P19 k3 and the exact KL of one
sequence.

    pip install -c constraints.txt -e '.[peers]'
    python benchmarks/bench_llm_ops.py --install-original
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from harness.case import Case, Goal, System, Tolerance
from harness.cli import Context, run
from harness.systems import (
    function_make,
    local_system,
    original_function_system,
    rlox_function_make,
)
from numpy.typing import NDArray

Array = NDArray[Any]
P10_SIZES = {(16, 4): 1.5, (256, 16): 4.0, (1_024, 32): 4.0}  # groups x completions: goal
P11_SIZES = {
    (1, 128): 1.2,
    (1, 8_192): 1.5,
    (32, 2_048): 1.5,
}  # sequences x tokens: goal in float32
P11_FLOAT64_GOAL = 1.2
P19_SIZES = (128, 8_192, 65_536)  # tokens
P19_GOAL = 1.2


def draw_rewards(groups: int, completions: int) -> Array:
    """Draw uniform rewards, flat `[groups * completions]`."""
    return np.random.default_rng(groups).random(groups * completions)


def draw_log_probs(sequences: int, tokens: int, dtype: type[np.floating[Any]]) -> tuple[Array, ...]:
    """Draw log-probabilities of a policy and of a reference that differs a little, flat."""
    rng = np.random.default_rng(tokens)
    policy = np.log(rng.random(sequences * tokens) * 0.999 + 0.001)
    reference = policy + rng.normal(scale=0.1, size=policy.size)
    return policy.astype(dtype), reference.astype(dtype)


def p10(context: Context) -> Iterator[Case]:
    """Yield GRPO's advantages: the z-score within each group, with the population deviation, float64."""
    for (groups, completions), goal in P10_SIZES.items():
        rewards = draw_rewards(groups, completions)
        name = "compute_batch_group_advantages"
        call = rlox_function_make(name, (rewards, completions), "advantages")
        yield Case(
            row="P10",
            work="group advantages, float64",
            size=f"{groups:,} x {completions}",
            ours=(local_system("rlox", "rlox", call, Goal(goal)),),
            peers=(
                original_function_system(context.original, name, [rewards], (completions,), "advantages"),
                local_system("NumPy", "numpy", numpy_advantages(rewards, completions)),
                local_system("torch", "torch", partial(torch_advantages, rewards, completions)),
            ),
            tolerance=Tolerance(1e-9, 1e-9),
            elements=rewards.size,
        )


def numpy_advantages(rewards: Array, completions: int) -> Any:
    """Compute the z-score of every row with NumPy."""

    def call() -> Array:
        grouped = rewards.reshape(-1, completions)
        centred = grouped - grouped.mean(axis=1, keepdims=True)
        return (centred / grouped.std(axis=1, keepdims=True)).ravel()

    return function_make(call, "advantages")


def torch_advantages(rewards: Array, completions: int) -> Any:
    """Compute the z-score of every row with torch on the CPU."""
    import torch

    tensor = torch.from_numpy(rewards)

    def call() -> Any:
        grouped = tensor.view(-1, completions)
        std, mean = torch.std_mean(grouped, dim=1, correction=0, keepdim=True)
        return ((grouped - mean) / std).view(-1)

    return function_make(call, "advantages")()


def p11(context: Context) -> Iterator[Case]:
    """Yield k3 = exp(d) - d - 1, d = log q - log p, summed over each sequence (Schulman 2020)."""
    for dtype in (np.float32, np.float64):
        for (sequences, tokens), goal in P11_SIZES.items():
            policy, reference = draw_log_probs(sequences, tokens, dtype)
            single = dtype is np.float32
            yield Case(
                row="P11",
                work=f"k3 token KL, {dtype.__name__}",
                size=f"{sequences} x {tokens:,}",
                ours=tuple(our_kl(policy, reference, tokens, goal if single else P11_FLOAT64_GOAL)),
                peers=(
                    original_kl(context, policy, reference, tokens),
                    local_system("NumPy", "numpy", numpy_kl(policy, reference, tokens)),
                    local_system("torch", "torch", partial(torch_kl, policy, reference, tokens)),
                ),
                tolerance=Tolerance(1e-3, 1e-3) if single else Tolerance(1e-9, 1e-9),
                elements=policy.size,
            )


def our_kl(policy: Array, reference: Array, tokens: int, goal: float) -> Iterator[System]:
    """Yield the batch call; one sequence is also computed by the call for a single sequence."""
    batch_call = rlox_function_make("compute_batch_token_kl_schulman", (policy, reference, tokens), "kl")
    if policy.size != tokens:
        yield local_system("rlox", "rlox", batch_call, Goal(goal))
        return
    single_call = rlox_function_make("compute_token_kl_schulman", (policy, reference), "kl")
    yield local_system("rlox", "rlox", single_call, Goal(goal))
    yield local_system("rlox, batch of one", "rlox", batch_call)


def original_kl(context: Context, policy: Array, reference: Array, tokens: int) -> System:
    """Return the original's fastest call for the size."""
    suffix = "_f32" if policy.dtype == np.float32 else ""
    is_single = policy.size == tokens
    return original_function_system(
        context.original,
        f"compute_token_kl_schulman{suffix}" if is_single else f"compute_batch_token_kl_schulman{suffix}",
        [reference, policy],
        () if is_single else (tokens,),
        "kl",
        note="takes the two arrays in the opposite sense, so they are exchanged here",
    )


def numpy_kl(policy: Array, reference: Array, tokens: int) -> Any:
    """Compute the formula over whole NumPy arrays."""

    def call() -> Array:
        d = reference - policy
        result: Array = (np.exp(d) - d - 1.0).reshape(-1, tokens).sum(axis=1)
        return result

    return function_make(call, "kl")


def torch_kl(policy: Array, reference: Array, tokens: int) -> Any:
    """Compute the formula over whole tensors."""
    import torch

    p, q = torch.from_numpy(policy), torch.from_numpy(reference)

    def call() -> Any:
        d = q - p
        return (torch.exp(d) - d - 1.0).view(-1, tokens).sum(dim=1)

    return function_make(call, "kl")()


def p19(context: Context) -> Iterator[Case]:
    """Yield one sequence in float64: the exact estimator, sum of p (log p - log q), and k3."""
    for tokens in P19_SIZES:
        policy, reference = draw_log_probs(1, tokens, np.float64)
        peers = (
            original_function_system(context.original, "compute_token_kl", [policy, reference], (), "kl"),
            local_system("NumPy", "numpy", numpy_exact_kl(policy, reference)),
            local_system("torch", "torch", partial(torch_exact_kl, policy, reference)),
        )
        yield p19_case("exact token KL", "compute_token_kl", (policy, reference), peers)
    for tokens in P19_SIZES:
        policy, reference = draw_log_probs(1, tokens, np.float64)
        peers = (
            original_kl(context, policy, reference, tokens),
            local_system("NumPy", "numpy", numpy_kl(policy, reference, tokens)),
            local_system("torch", "torch", partial(torch_kl, policy, reference, tokens)),
        )
        yield p19_case("k3 token KL", "compute_token_kl_schulman", (policy, reference), peers)


def p19_case(work: str, name: str, pair: tuple[Array, ...], peers: tuple[System, ...]) -> Case:
    """Make a case of rlox's public function `name` on log-probabilities of policy and reference."""
    return Case(
        row="P19",
        work=f"{work} of one sequence, float64",
        size=f"{pair[0].size:,}",
        ours=(local_system("rlox", "rlox", rlox_function_make(name, pair, "kl"), Goal(P19_GOAL)),),
        peers=peers,
        tolerance=Tolerance(1e-9, 1e-9),
        elements=pair[0].size,
    )


def numpy_exact_kl(policy: Array, reference: Array) -> Any:
    """Compute the formula over whole NumPy arrays."""
    return function_make(lambda: (np.exp(policy) * (policy - reference)).sum(), "kl")


def torch_exact_kl(policy: Array, reference: Array) -> Any:
    """Compute the formula over whole tensors."""
    import torch

    p, q = torch.from_numpy(policy), torch.from_numpy(reference)
    return function_make(lambda: (torch.exp(p) * (p - q)).sum(), "kl")()


ROWS = {"P10": p10, "P11": p11, "P19": p19}

if __name__ == "__main__":
    sys.exit(run(ROWS, "llm_ops", __doc__))
