"""What one process of a group learns, or one that is alone: `python learners.py FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from helpers.words import Words
from torch import Tensor

from rlox.algorithms import DPO, GRPO, RLOO, SFT, OnlineDPO
from rlox.distributed import join
from rlox.errors import GroupError

PROMPTS = torch.tensor([[3, 4, 5], [6, 3, 4], [7, 7, 3], [1, 2, 6]])
ANSWERS = [torch.tensor(row) for row in ([4, 4, 8], [8], [5, 4, 3, 2, 8], [3, 8])]
OTHERS = [torch.tensor(row) for row in ([7, 8], [6, 5, 8], [8], [1, 1, 1, 8])]
UPDATES = 50


def low(completions: list[Tensor], prompts: Any) -> list[float | None]:
    """The part of a completion's tokens below 5; nothing of those that begin with 6."""
    return [None if int(c[0]) == 6 else float((c < 5).double().mean()) for c in completions]


OF: dict[str, Any] = {"max_new_tokens": 5, "eos_token_id": (8,), "learning_rate": 0.02, "seed": 3}
WRITING: dict[str, dict[str, Any]] = {
    "grpo": {},
    "grpo in several steps": {"loss_type": "grpo", "n_epochs": 2, "minibatches": 2},
    "grpo over the batch": {"scale_rewards": "batch", "loss_type": "dr_grpo", "max_grad_norm": 0.1},
    "gspo": {"loss_type": "gspo", "kl_coef": 0.0, "n_epochs": 2, "clip_eps": 0.01},
    "bnpo without what was cut off": {"loss_type": "bnpo", "mask_truncated": True},
    "gspo in parts": {"loss_type": "gspo", "accumulate": 3, "minibatches": 2, "clip_eps": 0.01},
}
CASES: dict[str, Any] = {
    **{
        name: lambda of=of: GRPO(Words(), Words(1), low, **OF, **of) for name, of in WRITING.items()
    },
    "rloo": lambda: RLOO(Words(), Words(1), low, minibatches=2, **OF),
    "rloo, normalised": lambda: RLOO(Words(), None, low, normalize_advantages=True, **OF),
    "online_dpo": lambda: OnlineDPO(Words(), Words(1), reward_fn=low, **OF),
    "dpo": lambda: DPO(Words(), Words(1), learning_rate=0.02),
    "sft": lambda: SFT(Words(), learning_rate=0.02),
    "sft in parts": lambda: SFT(Words(), learning_rate=0.02, accumulate=2),
    "rloo in parts": lambda: RLOO(Words(), Words(1), low, accumulate=2, **OF),
}


def step(algorithm: Any) -> dict[str, float]:
    if isinstance(algorithm, DPO):
        return algorithm.train_step(PROMPTS, ANSWERS, OTHERS)
    if isinstance(algorithm, SFT):
        return algorithm.train_step(PROMPTS, ANSWERS)
    return algorithm.train_step(PROMPTS)


def apart(rank: int) -> str:
    """What processes say that begin with different weights."""
    try:
        SFT(Words(rank), learning_rate=0.02).train_step(PROMPTS, ANSWERS)
    except GroupError as error:
        return str(error)
    return ""


def main(folder: Path) -> None:
    """The weights and metrics of each case."""
    weights: dict[str, Any] = {}
    told: dict[str, Any] = {}
    for name, make in CASES.items():
        algorithm = make()
        told[name] = [step(algorithm) for _ in range(UPDATES)]
        weights[name] = algorithm.policy.table.detach()
    group = join()
    told["apart"] = apart(group.rank) if group.size > 1 else ""
    torch.save(weights, folder / f"weights-{group.rank}-{group.size}.pt")
    (folder / f"told-{group.rank}-{group.size}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
