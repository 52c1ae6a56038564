"""Tests how text algorithms treat tokens, models and functions that the caller passes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from helpers.tiny_lm import ANSWERS, GENERATING, PROMPTS, REJECTED, TinyLM, low_token_reward, step
from torch import Tensor, nn

from rlox.algorithms import DPO, GRPO, RLOO, SFT, BestOfN, OnlineDPO
from rlox.callbacks import Callback
from rlox.errors import ConfigError
from rlox.llm import Sampling, TextModel, generate_completions

END_SETTINGS: dict[str, Any] = {"eos_token_id": (8,), "learning_rate": 0.02}


def pad_rows(rows: list[Tensor], pad_id: int) -> Tensor:
    """Pad rows to one length; the padding token follows each row."""
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=float(pad_id))


@pytest.mark.parametrize("by", [0, 5, 8])
def test_nothing_is_learned_of_the_tokens_behind_an_end(by: int) -> None:
    answers, others = pad_rows(ANSWERS, by), pad_rows(REJECTED, by)
    one, same = SFT(TinyLM(), **END_SETTINGS), SFT(TinyLM(), **END_SETTINGS)
    assert one.train_step(PROMPTS, ANSWERS)["loss"] == same.train_step(PROMPTS, answers)["loss"]
    assert torch.equal(one.policy.table, same.policy.table)
    assert one.loss(PROMPTS, ANSWERS) == one.loss(PROMPTS, answers)
    one, same = DPO(TinyLM(), **END_SETTINGS), DPO(TinyLM(), **END_SETTINGS)
    assert one.train_step(PROMPTS, ANSWERS, REJECTED)["loss"] == pytest.approx(
        same.train_step(PROMPTS, answers, others)["loss"], abs=1e-7
    )
    assert torch.allclose(one.policy.table, same.policy.table, atol=1e-6)
    for own, of in zip(
        one.reference_log_probs(PROMPTS, ANSWERS, REJECTED),
        one.reference_log_probs(PROMPTS, answers, others),
        strict=True,
    ):
        assert torch.allclose(own, of, atol=1e-6)


def test_the_end_itself_is_learned_and_without_known_ends_all_tokens_are() -> None:
    prompt, answer = PROMPTS[:1], torch.tensor([[4, 8, 1]])
    said = TextModel(TinyLM()).log_probs(torch.cat([prompt, answer], 1), start=3)[0].detach()
    for given, count in ((END_SETTINGS, 2), ({}, 3)):
        found = SFT(TinyLM(), **given).loss(prompt, answer)
        assert found == pytest.approx(-float(said[:count].mean()), abs=1e-6)


def test_dpo_refuses_pairs_that_differ_only_after_their_ends() -> None:
    one, other = torch.tensor([[4, 8, 1]]), torch.tensor([[4, 8, 2]])
    with pytest.raises(ConfigError, match="the same in all 1 rows"):
        DPO(TinyLM(), **END_SETTINGS).train_step(PROMPTS[:1], one, other)


MASKED_IDS = np.ma.array([3, 4], mask=[0, 1])
MASKED_CALLS: dict[str, Callable[[], Any]] = {
    "an array of prompts": lambda: GRPO(TinyLM(), reward_fn=low_token_reward).train(
        np.ma.array([[3, 4], [5, 6]], mask=[[0, 1], [0, 0]])
    ),
    "a row of prompts": lambda: OnlineDPO(TinyLM(), reward_fn=low_token_reward).train_step([MASKED_IDS, [3]]),
    "a prompt to complete": lambda: RLOO(TinyLM(), reward_fn=low_token_reward).generate([MASKED_IDS]),
    "a completion": lambda: SFT(TinyLM()).train_step([[3]], [MASKED_IDS]),
    "a chosen completion": lambda: DPO(TinyLM()).train_step([[3]], [MASKED_IDS], [[5]]),
    "log-probabilities": lambda: DPO(TinyLM()).compute_loss(
        [[3], [4]], [[4], [3]], [[5], [6]], ref_log_probs=[MASKED_IDS, MASKED_IDS]
    ),
    "a prompt of completions": lambda: generate_completions(
        TextModel(TinyLM()), [MASKED_IDS], Sampling(2, 0.0), None
    ),
}


@pytest.mark.parametrize("kind", MASKED_CALLS)
def test_arrays_with_masked_entries_are_refused_by_name(kind: str) -> None:
    told = "(prompts|completions|ref_log_probs): some of it is masked, expected numbers"
    with pytest.raises(ConfigError, match=told):
        MASKED_CALLS[kind]()


class InPlaceWords(TinyLM):
    """A model whose forward writes to its arguments."""

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        if attention_mask is not None:
            attention_mask.zero_()
        logits = super().forward(ids.clone())
        ids.zero_()
        return logits


MAKERS: dict[str, Callable[[nn.Module], Any]] = {
    "sft": lambda model: SFT(model, **END_SETTINGS),
    "dpo": lambda model: DPO(model, **END_SETTINGS),
    "grpo": lambda model: GRPO(model, reward_fn=low_token_reward, **GENERATING),
    "rloo": lambda model: RLOO(model, reward_fn=low_token_reward, **GENERATING),
    "online_dpo": lambda model: OnlineDPO(model, reward_fn=low_token_reward, **GENERATING),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_forward_that_overwrites_its_input_does_not_change_learning(name: str) -> None:
    plain, writing = (MAKERS[name](kind()) for kind in (TinyLM, InPlaceWords))
    assert step(plain)["loss"] == step(writing)["loss"]
    assert torch.equal(plain.policy.table, writing.policy.table)
    assert torch.equal(plain.generate(PROMPTS)[0], writing.generate(PROMPTS)[0])


@pytest.mark.parametrize("name", ["grpo", "rloo", "online_dpo"])
def test_a_callback_that_overwrites_prompts_does_not_change_training(name: str) -> None:
    class Overwriting(Callback):
        def on_step(self, **_: Any) -> bool:
            given.fill_(1)
            return True

    given = PROMPTS.clone()
    seen: list[list[int]] = []

    def watched(completions: list[Tensor], prompts: Any) -> list[float]:
        seen.extend(row.tolist() for row in prompts)
        return [float(row[0] < 5) for row in completions]

    kind = {"grpo": GRPO, "rloo": RLOO, "online_dpo": OnlineDPO}[name]
    made: Any = kind(TinyLM(), reward_fn=watched, callbacks=[Overwriting()], batch_size=2, max_new_tokens=2)
    made.train(given)
    assert given.tolist() == torch.ones_like(PROMPTS).tolist()
    assert {tuple(row) for row in seen} == {tuple(row) for row in PROMPTS.tolist()}


class NonCausalWords(TinyLM):
    """A model whose logits at each position depend on all tokens."""

    def forward(self, ids: Tensor) -> Tensor:
        logits = super().forward(ids)
        return logits + logits.mean(1, keepdim=True)


class FlippedWords(TinyLM):
    """A model whose logits at each position depend on the token at the mirrored position."""

    def forward(self, ids: Tensor) -> Tensor:
        logits = super().forward(ids)
        return logits + logits.flip(1)


class NoisyWords(TinyLM):
    """A model whose logits have random noise."""

    def forward(self, ids: Tensor) -> Tensor:
        logits = super().forward(ids)
        return logits + torch.rand(logits.shape, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("kind", [NonCausalWords, FlippedWords])
def test_a_model_whose_logits_depend_on_later_tokens_is_refused(name: str, kind: type[nn.Module]) -> None:
    with pytest.raises(ConfigError, match=f"^model: the logits that {kind.__name__} returns"):
        MAKERS[name](kind())


def test_a_reference_and_a_sampler_that_see_later_tokens_are_refused_too() -> None:
    with pytest.raises(ConfigError, match=r"^ref_model: the logits that FlippedWords returns"):
        DPO(TinyLM(), ref_model=FlippedWords())
    with pytest.raises(ConfigError, match=r"^model: the logits that FlippedWords returns"):
        BestOfN(FlippedWords(), low_token_reward)


def test_the_causality_check_keeps_train_modes_and_accepts_noisy_models() -> None:
    model = nn.Sequential(nn.Embedding(9, 4), nn.Dropout(0.9), nn.Linear(4, 9))
    model[1].eval()
    BestOfN(model, low_token_reward)
    assert [part.training for part in model] == [True, False, True]
    SFT(NoisyWords())


class OwnLoss(DPO):
    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        return super().compute_loss(*args, **kwargs)


class OwnReference(DPO):
    def reference_log_probs(self, *args: Any) -> Any:
        return super().reference_log_probs(*args)


class OwnCrossEntropy(SFT):
    def loss(self, *args: Any) -> Any:
        return super().loss(*args)


class UnrelatedComputeLoss(GRPO):
    def compute_loss(self) -> None:
        """A method with the same name as a method of other algorithms."""


class OwnStep(OwnLoss):
    def train_step(self, *args: Any, **kwargs: Any) -> Any:
        return self.compute_loss(*args, **kwargs)[1]


@pytest.mark.parametrize("kind", [OwnLoss, OwnReference, OwnCrossEntropy, UnrelatedComputeLoss])
def test_a_method_that_no_training_calls_cannot_be_overridden(kind: Any) -> None:
    name = next(iter(set(vars(kind)) & {"loss", "compute_loss", "reference_log_probs"}))
    told = f"{kind.__name__}.{name}: train and train_step of {kind.name} never call it"
    with pytest.raises(ConfigError, match=re.escape(told)):
        kind(TinyLM())


def test_a_step_of_ones_own_may_call_a_loss_of_ones_own() -> None:
    own, plain = OwnStep(TinyLM()), DPO(TinyLM())
    expected = plain.compute_loss(PROMPTS, ANSWERS, REJECTED)[1]["loss"]
    assert own.train_step(PROMPTS, ANSWERS, REJECTED)["loss"] == expected
    assert torch.equal(own.policy.table, TinyLM().table)


WRONG_PREFERENCES: dict[str, tuple[Callable[..., Any], str]] = {
    "prompts and both": (lambda prompts, a, b: [0], "(prompts, a, b)"),
    "nothing": (lambda: [0], "()"),
    "by name alone": (lambda *, pairs: [0], "(*, pairs)"),
}


@pytest.mark.parametrize("kind", WRONG_PREFERENCES)
def test_a_preference_function_of_other_arguments_is_refused_before_the_first_step(
    kind: str,
) -> None:
    function, told = WRONG_PREFERENCES[kind]
    with pytest.raises(ConfigError, match=re.escape(f" takes {told} (") + ".*list of pairs"):
        OnlineDPO(TinyLM(), preference_fn=function)


def test_a_preference_function_may_have_more_parameters_with_defaults() -> None:
    for function in (lambda pairs, least=0: [0] * len(pairs), lambda *all: [0] * len(all[0])):
        assert step(OnlineDPO(TinyLM(), preference_fn=function, **GENERATING))["samples"] == len(PROMPTS)
