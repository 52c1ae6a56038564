"""One batch of text, a small language model, and the losses that TRL and rlox compute for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

TRL_VERSION = "1.16.0"
GOLDEN = Path(__file__).parent / "golden" / "trl.npz"
VOCABULARY, WIDTH, PROMPT, LENGTH, GROUP, PROMPTS = 11, 6, 3, 7, 4, 3
MAX_LENGTH = 9  # the longest possible completion, in tokens
LENGTHS = (7, 4, 1, 6, 2, 7, 7, 5, 3, 1, 6, 7)  # of the completions
TOKENS = 80.0  # of the optimizer step's batch, of which this batch is a part
RATIO_TYPES = ("grpo", "dr_grpo", "dapo", "bnpo", "gspo")


class TinyLM(nn.Module):
    """A model in which each position sees the mean of the earlier ones."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.hidden = nn.Linear(2 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        """Map token ids `[B, L]` to logits `[B, L, V]`."""
        x = self.embed(ids)
        before = x.cumsum(1) / torch.arange(1, ids.shape[1] + 1).unsqueeze(-1)
        logits: Tensor = self.head(self.hidden(torch.cat([x, before], -1)).tanh())
        return logits


def model(seed: int = 0) -> TinyLM:
    """Make a model from a seed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return TinyLM()


@dataclass(frozen=True)
class Batch:
    """The inputs of a loss; `[B, ...]` each."""

    prompts: Tensor
    completions: Tensor
    mask: Tensor
    tool_mask: Tensor
    advantages: Tensor
    old: Tensor  # log-probabilities
    ref: Tensor
    sampled: Tensor


def batch() -> Batch:
    """Draw completions of the lengths `LENGTHS`, with the slightly different scores of three other models."""
    g = torch.Generator().manual_seed(5)
    count = GROUP * PROMPTS
    ids = torch.randint(VOCABULARY, (count, PROMPT + LENGTH), generator=g)
    mask = torch.arange(LENGTH) < torch.tensor(LENGTHS).unsqueeze(1)
    tool_mask = torch.rand(count, LENGTH, generator=g) > 0.3
    scored = log_probs(model(), ids).detach()
    noise = (0.25 * torch.randn(3, count, LENGTH, generator=g)).unbind()
    advantages = torch.randn(count, generator=g)
    old, ref, sampled = scored + noise[0], scored + 2 * noise[1], scored + noise[0] + noise[2]
    return Batch(ids[:, :PROMPT], ids[:, PROMPT:], mask, tool_mask, advantages, old, ref, sampled)


def log_probs(of: nn.Module, ids: Tensor) -> Tensor:
    """Return log-probabilities of the tokens after the prompt by torch alone, `[B, LENGTH]`."""
    said = of(ids)[:, PROMPT - 1 : -1].log_softmax(-1)
    return said.gather(-1, ids[:, PROMPT:].unsqueeze(-1)).squeeze(-1)


@dataclass(frozen=True)
class Case:
    """A GRPO loss: the arguments of `GRPOLoss` and its other inputs."""

    loss: dict[str, Any] = field(default_factory=dict)
    old: bool = True  # False: the first step, in which the old log-probabilities are the model's own
    tool_mask: bool = False
    mismatch: tuple[str, float | None, float | None] | None = None  # correction, lower bound, upper bound


def grpo_cases() -> Iterator[tuple[str, Case]]:
    """Yield every loss type with each of its options, by name."""
    high = {"clip_eps": 0.1, "clip_eps_high": 0.28}
    kl = {"kl_coef": 0.3, "kl_estimator": "k3"}
    for of in (*RATIO_TYPES, "cispo"):
        plain = {"loss_type": of}
        yield of, Case(plain)
        yield f"{of}, first step", Case(plain, old=False)
        yield f"{of}, two ranges", Case(plain | high)
        yield f"{of}, KL corrected", Case(plain | kl | {"kl_correction": True})
        yield f"{of}, KL as it is", Case(plain | kl | {"kl_correction": False})
        yield f"{of}, tool mask and KL", Case(plain | kl, tool_mask=True)
        if of != "cispo":
            yield f"{of}, delta", Case(plain | {"clip_eps": 0.05, "delta": 1.08})
        for level in ("token", "sequence"):
            yield f"{of}, {level}_truncate", Case(plain, mismatch=(f"{level}_truncate", 0.9, 1.2))
            yield (
                f"{of}, {level}_mask and KL",
                Case(plain | kl, mismatch=(f"{level}_mask", None, 1.3)),
            )


def dpo_cases() -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Yield the name, the arguments of `DPOLoss`, and whether there is a reference."""
    for of in ("sigmoid", "ipo", "hinge", "robust"):
        for beta in (0.1, 1.5):
            smoothing = {"label_smoothing": 0.2} if of == "robust" else {}
            yield f"{of}, beta {beta}", {"loss_type": of, "beta": beta, **smoothing}, True
    yield "sigmoid, no reference", {"loss_type": "sigmoid", "beta": 0.5}, False


SCALES = ("group", "batch", "none")


def rewards(missing: bool = True) -> Tensor:
    """Draw rewards of two functions, `[B, 2]`; a group has no spread; `missing`: one row has no score."""
    g = torch.Generator().manual_seed(6)
    found = torch.rand(GROUP * PROMPTS, 2, generator=g)
    found[GROUP : 2 * GROUP] = 0.5
    if not missing:
        return found
    found[1] = torch.nan
    found[2, 1] = torch.nan
    return found


WEIGHTS = (1.0, 0.4)
