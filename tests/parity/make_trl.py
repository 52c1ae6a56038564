"""Writes `golden/trl.npz`: TRL's losses and gradients for the batch of `parity.text`.

`python tests/parity/make_trl.py` with `tests` on the path and TRL installed. A trainer without a run gets
the attributes that its loss reads, and the log-probabilities of the small model. TRL computes advantages
and mismatch weights in the middle of its generation; the script executes those lines of its source.

| name | of |
|---|---|
| `meta/made_by` | the library and its version |
| `grpo/CASE/loss`, `grpo/CASE/gradient` | the concatenated gradient of all parameters, float32 |
| `dpo/CASE/loss`, `dpo/CASE/gradient` | |
| `rloo/loss`, `rloo/gradient`, `rloo/advantages` | |
| `advantages/REWARDS/SCALE`, `.../normalize_then_sum` | REWARDS: `whole`, or `missing` (some are missing) |
"""

from __future__ import annotations

import inspect
import math
import textwrap
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import trl
from torch import Tensor
from trl.trainer import dpo_trainer, grpo_trainer, rloo_trainer
from trl.trainer.utils import selective_log_softmax

from parity import text

BATCH = text.batch()
IDS = torch.cat([BATCH.prompts, BATCH.completions], 1)


def scored(of: text.TinyLM, ids: Tensor, keep: int) -> Tensor:
    """Return log-probabilities by TRL's function."""
    return selective_log_softmax(of(ids)[:, -keep - 1 : -1], ids[:, -keep:])


def lines(function: Any, begin: str, end: str) -> str:
    """Return the source of a function from the line with `begin` to before the line with `end`."""
    source = inspect.getsource(function).splitlines()
    first = next(i for i, line in enumerate(source) if begin in line)
    last = next(i for i, line in enumerate(source) if end in line and i > first)
    return textwrap.dedent("\n".join(source[first:last]))


def accelerator() -> SimpleNamespace:
    return SimpleNamespace(
        num_processes=1, process_index=0, device=torch.device("cpu"), sync_gradients=True,
        gather=lambda x: x, gather_for_metrics=lambda x: x, reduce=lambda x, reduction: x,
    )  # fmt: skip


def trainer(kind: type, of: text.TinyLM, **more: Any) -> Any:
    """Make a trainer without a run that takes log-probabilities from the model."""

    class Trainer(kind):  # type: ignore[misc, valid-type]
        accelerator, current_gradient_accumulation_steps = accelerator(), 1

        def _get_per_token_logps_and_entropies(self, model: Any, ids: Tensor, *given: Any, **_: Any) -> Any:
            return scored(of, ids, given[1]), torch.zeros(len(ids), given[1]), None

    made = object.__new__(Trainer)
    common = {
        "model": of, "aux_loss_enabled": False, "top_entropy_quantile": 1.0, "epsilon_low": 0.2,
        "off_policy_mask_threshold": None, "_entropy_bonus_enabled": False, "epsilon_high": 0.2,
        "_metrics": defaultdict(lambda: defaultdict(list)), "max_completion_length": text.MAX_LENGTH,
    }  # fmt: skip
    vars(made).update(common | more)
    return made


def mismatch(case: text.Case, mask: Tensor) -> Tensor:
    """Return TRL's importance weights."""
    mode, least, most = case.mismatch  # type: ignore[misc]
    self = SimpleNamespace(
        use_vllm=True, vllm_importance_sampling_correction=True, vllm_importance_sampling_mode=mode,
        vllm_importance_sampling_clip_min=least, vllm_importance_sampling_clip_max=most,
    )  # fmt: skip
    names = {
        "self": self, "torch": torch, "math": math, "tool_mask": None, "completion_mask": mask,
        "old_per_token_logps": BATCH.old, "sampling_per_token_logps": BATCH.sampled,
    }  # fmt: skip
    of = grpo_trainer.GRPOTrainer._generate_and_score_completions
    begin = "# Compute the importance sampling ratio when using vLLM"
    exec(lines(of, begin, "# Compute the per-token log probabilities for the reference"), names)
    found: Tensor = names["vllm_importance_sampling_ratio"]
    return found


def grpo(case: text.Case) -> tuple[Tensor, Tensor]:
    """Return the loss, and the gradient of all parameters."""
    of, given = text.model(), {"kl_coef": 0.0, "kl_correction": True, **case.loss}
    kind, cispo = given["loss_type"], given["loss_type"] == "cispo"
    low = given.get("clip_eps", 0.2)
    high = given.get("clip_eps_high", low)
    made = trainer(
        grpo_trainer.GRPOTrainer,
        of,
        loss_type="grpo" if kind == "gspo" else kind,
        importance_sampling_level="sequence" if kind == "gspo" else "token",
        epsilon_low=low,
        epsilon_high=1 + high if cispo else high,
        beta=given["kl_coef"],
        use_vllm=case.mismatch is not None,
        vllm_importance_sampling_correction=True,
        args=SimpleNamespace(
            delta=given.get("delta"),
            use_bias_correction_kl=given["kl_correction"],
            steps_per_generation=1,
        ),
    )
    mask = BATCH.mask.float()
    inputs = {
        "prompt_ids": BATCH.prompts, "prompt_mask": torch.ones_like(BATCH.prompts),
        "completion_ids": BATCH.completions, "completion_mask": mask, "advantages": BATCH.advantages,
        "old_per_token_logps": BATCH.old if case.old else None, "ref_per_token_logps": BATCH.ref,
        "num_items_in_batch": torch.tensor(text.TOKENS),
    }  # fmt: skip
    if case.tool_mask:
        inputs["tool_mask"] = BATCH.tool_mask.float()
    if case.mismatch is not None:
        inputs["importance_sampling_ratio"] = mismatch(case, mask)
    return learned(of, made._compute_loss(of, inputs))


def dpo(loss: dict[str, Any], reference: bool) -> tuple[Tensor, Tensor]:
    """Return the loss and its gradient; even rows are chosen, odd rows rejected."""
    of = text.model()
    order = torch.cat([torch.arange(0, len(IDS), 2), torch.arange(1, len(IDS), 2)])
    ids, mask = IDS[order], BATCH.mask[order].long()
    full = torch.cat([torch.zeros(len(ids), text.PROMPT, dtype=torch.long), mask], 1)
    ref = ((BATCH.ref[order] * mask).sum(1) * reference).chunk(2)

    def forward(input_ids: Tensor, labels: Tensor, **_: Any) -> SimpleNamespace:
        said = scored(of, input_ids, input_ids.shape[1] - 1)
        return SimpleNamespace(log_probs=said * (labels[:, 1:] != -100))

    made = trainer(
        dpo_trainer.DPOTrainer, of, loss_types=[loss["loss_type"]], loss_weights=[1.0], ld_alpha=None,
        beta=loss["beta"], label_smoothing=loss.get("label_smoothing", 0.0), precompute_ref_logps=True,
        f_divergence_type="reverse_kl", use_weighting=False, _total_train_tokens=0,
    )  # fmt: skip
    # after the loss, TRL computes metrics from model outputs that do not exist here
    source = lines(dpo_trainer.DPOTrainer._compute_loss, "mode =", "# Log the metrics")
    names = vars(dpo_trainer) | {
        "self": made, "return_outputs": False, "model": SimpleNamespace(),
        "inputs": {
            "input_ids": ids, "completion_mask": full,
            "ref_chosen_logps": ref[0], "ref_rejected_logps": ref[1],
        },
    }  # fmt: skip
    names["model"] = forward
    made.model = SimpleNamespace(training=True)
    exec(source, names)
    return learned(of, names["loss"])


def learned(of: text.TinyLM, loss: Tensor) -> tuple[Tensor, Tensor]:
    found = torch.autograd.grad(loss, list(of.parameters()))
    return loss.detach(), torch.cat([g.flatten() for g in found])


def advantages(scale: str, missing: bool, aggregation: str = "sum_then_normalize") -> Tensor:
    """Return TRL's advantages of the rewards."""
    self = SimpleNamespace(
        multi_objective_aggregation=aggregation, scale_rewards=scale, reward_funcs=[None, None],
        reward_weights=torch.tensor(text.WEIGHTS),
    )  # fmt: skip
    names = vars(grpo_trainer) | {
        "self": self, "rewards_per_func": text.rewards(missing), "num_generations": text.GROUP,
        "device": torch.device("cpu"),
    }  # fmt: skip
    of = grpo_trainer.GRPOTrainer._generate_and_score_completions
    exec(lines(of, "unscorable_mask = ", "# Slice to keep only the local part"), names)
    found: Tensor = names["advantages"]
    return found


def rloo() -> dict[str, Tensor]:
    """Return RLOO's advantages and loss."""
    of, mask = text.model(), BATCH.mask.float()
    self = SimpleNamespace(normalize_advantages=False, num_generations=text.GROUP)
    scores = text.rewards().sum(1)
    names = vars(rloo_trainer) | {
        "self": self, "rewards": scores, "num_generations": text.GROUP, "device": torch.device("cpu"),
        "grouped_rewards": scores.view(-1, text.GROUP), "std_rewards": torch.zeros(text.PROMPTS),
    }  # fmt: skip
    source = rloo_trainer.RLOOTrainer._generate_and_score_completions
    exec(lines(source, "# RLOO advantages computation", "# Slice to keep only the local part"), names)
    made = trainer(rloo_trainer.RLOOTrainer, of)
    inputs = {
        "prompt_ids": BATCH.prompts, "prompt_mask": torch.ones_like(BATCH.prompts),
        "completion_ids": BATCH.completions, "completion_mask": mask, "advantages": BATCH.advantages,
        "old_logps": (BATCH.old * mask).sum(1),
    }  # fmt: skip
    loss, gradient = learned(of, made._compute_loss(of, inputs))
    return {"rloo/loss": loss, "rloo/gradient": gradient, "rloo/advantages": names["advantages"]}


def main() -> None:
    """Write the file."""
    assert trl.__version__ == text.TRL_VERSION
    found: dict[str, Any] = {"meta/made_by": f"trl {trl.__version__}"}
    for name, case in text.grpo_cases():
        found[f"grpo/{name}/loss"], found[f"grpo/{name}/gradient"] = grpo(case)
    for name, loss, reference in text.dpo_cases():
        found[f"dpo/{name}/loss"], found[f"dpo/{name}/gradient"] = dpo(loss, reference)
    for missing, word in ((True, "missing"), (False, "whole")):
        for scale in text.SCALES:
            found[f"advantages/{word}/{scale}"] = advantages(scale, missing)
        summed = advantages("group", missing, "normalize_then_sum")
        found[f"advantages/{word}/normalize_then_sum"] = summed
    found |= rloo()
    np.savez_compressed(text.GOLDEN, **{name: np.asarray(value) for name, value in found.items()})
    print(f"{len(found)} arrays, {text.GOLDEN.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
