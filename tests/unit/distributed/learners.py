"""Train all cases in one process of a group or in a single process: `python learners.py FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from helpers.tiny_lm import ANSWERS, GENERATING, PROMPTS, TinyLM, low_token_reward, step

from rlox.algorithms import DPO, GRPO, RLOO, SFT, OnlineDPO
from rlox.distributed import join
from rlox.errors import GroupError

UPDATES = 50


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
        name: lambda of=of: GRPO(TinyLM(), TinyLM(1), low_token_reward, **GENERATING, **of)
        for name, of in WRITING.items()
    },
    "rloo": lambda: RLOO(TinyLM(), TinyLM(1), low_token_reward, minibatches=2, **GENERATING),
    "rloo, normalised": lambda: RLOO(
        TinyLM(), None, low_token_reward, normalize_advantages=True, **GENERATING
    ),
    "online_dpo": lambda: OnlineDPO(TinyLM(), TinyLM(1), reward_fn=low_token_reward, **GENERATING),
    "dpo": lambda: DPO(TinyLM(), TinyLM(1), learning_rate=0.02),
    "sft": lambda: SFT(TinyLM(), learning_rate=0.02),
    "sft in parts": lambda: SFT(TinyLM(), learning_rate=0.02, accumulate=2),
}


def apart(rank: int) -> str:
    """Return the error of processes that begin with different weights."""
    try:
        SFT(TinyLM(rank), learning_rate=0.02).train_step(PROMPTS, ANSWERS)
    except GroupError as error:
        return str(error)
    return ""


def main(folder: Path) -> None:
    """Write the weights and metrics of each case into `folder`."""
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
