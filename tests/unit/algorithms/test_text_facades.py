"""Tests text algorithms from Python: given prompts, rewards and pairs, and errors for wrong arguments."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from helpers.tiny_lm import TinyLM
from torch import Tensor, nn

import rlox.training.text_evaluation
from rlox.algorithms import DPO, GRPO, RLOO, SFT, BestOfN, OnlineDPO
from rlox.errors import CheckpointError, ConfigError, RewardError, RloxError, ShapeError
from rlox.llm import Llama, LlamaSize, load_llama, save_llama, task_of

CONF = Path(__file__).resolve().parents[3] / "conf"
PROMPTS = torch.tensor([[3, 4, 5], [6, 3, 4], [7, 7, 3]])


def low(completions: list[Tensor], prompts: Any) -> list[float]:
    """Return the fraction of each completion's tokens below 5."""
    return [float((c < 5).double().mean()) for c in completions]


def test_an_epoch_goes_through_all_prompts_in_batches_that_never_reach_into_the_next() -> None:
    grpo = GRPO(TinyLM(), reward_fn=low, batch_size=2, max_new_tokens=3)
    metrics = grpo.train(PROMPTS, n_epochs=2)
    assert (metrics["updates"], grpo.clock.samples) == (4, 6)
    assert grpo.train(PROMPTS, n_epochs=1)["updates"] == 6


def test_train_step_follows_the_schedule_over_the_runs_total() -> None:
    grpo = GRPO(TinyLM(), None, low, max_new_tokens=3, learning_rate=1.0, anneal_lr=True)
    grpo.set_total_steps(30)
    rates = [grpo.train_step(PROMPTS)["train/learning_rate"] for _ in range(4)]
    assert rates == pytest.approx([1.0, 0.9, 0.8, 0.7])
    alone = GRPO(TinyLM(), None, low, max_new_tokens=3, learning_rate=1.0, anneal_lr=True)
    assert alone.train(PROMPTS, n_epochs=4)["train/learning_rate"] == pytest.approx(0.25)


def test_reward_functions_receive_completions_up_to_the_end_and_their_prompts() -> None:
    seen: list[Any] = []

    def watching(completions: list[Tensor], prompts: Any) -> list[float]:
        seen.append((completions, prompts))
        return [0.0] * len(completions)

    GRPO(TinyLM(), None, watching, max_new_tokens=4, eos_token_id=(8,)).train_step(PROMPTS)
    (completions, prompts) = seen[0]
    assert torch.equal(prompts, PROMPTS.repeat_interleave(4, 0))
    for row in completions:
        assert 8 not in row[:-1].tolist()
        assert len(row) == 4 or row[-1] == 8
    GRPO(TinyLM(), None, watching, max_new_tokens=4).train_step([torch.tensor([3]), PROMPTS[0]])
    assert [len(prompt) for prompt in seen[1][1]] == [1] * 4 + [3] * 4


def test_grpo_weights_several_rewards_and_drops_completions_without_reward() -> None:
    def missing(completions: list[Tensor], prompts: Any) -> list[Any]:
        return [None, *low(completions[1:], prompts)]

    grpo = GRPO(TinyLM(), None, [low, low], reward_weights=(0.5, -0.25), max_new_tokens=4)
    batch, _ = grpo.source.batch_of(_prompts(), grpo.clock)
    found = grpo.train_step(PROMPTS)["mean_reward"]
    assert batch.rewards.shape == (12, 2)
    assert found == pytest.approx(0.25 * batch.rewards[:, 0].mean())
    one = GRPO(TinyLM(), None, missing, max_new_tokens=4)
    one.train_step(PROMPTS)
    assert one.recent.count == 11


def _prompts() -> list[Any]:
    from rlox.llm.prompts import FixedPrompts

    return FixedPrompts(PROMPTS).training_prompts(0, 3)


def test_evaluating_prompts_is_the_mean_reward_of_their_best_completions() -> None:
    grpo = GRPO(TinyLM(), None, low, max_new_tokens=4)
    best = grpo.generate(PROMPTS)
    assert grpo.evaluate(PROMPTS) == pytest.approx(np.mean(low(best, None)))
    table = grpo.policy.table.detach()
    by_hand = PROMPTS[:, -1]
    for at in range(4):
        by_hand = table[by_hand].argmax(-1)
        assert [int(row[at]) for row in best] == by_hand.tolist()
    drawn = [grpo.predict(PROMPTS, deterministic=False) for _ in range(2)]
    assert any(not torch.equal(a, b) for a, b in zip(*drawn, strict=True))


def test_a_run_with_objects_goes_on_bit_for_bit_when_they_are_given_again(tmp_path: Path) -> None:
    def made() -> Any:
        return GRPO(TinyLM(), None, low, max_new_tokens=4, learning_rate=0.05, n_epochs=2)

    whole, part = made(), made()
    whole.train(PROMPTS, n_epochs=4)
    part.train(PROMPTS, n_epochs=2)
    part.save(tmp_path / "saved")
    again = GRPO.from_checkpoint(tmp_path / "saved", TinyLM(), reward_fn=low)
    again.train(PROMPTS, n_epochs=2)
    assert torch.equal(whole.policy.table, again.policy.table)
    assert not torch.equal(whole.policy.table, part.policy.table)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "model=<TinyLM>: an object, which is not saved; give it again"),
        (
            {"model": TinyLM()},
            "algo.rewards[0]=<low>: an object, which is not saved; give it again",
        ),
        ({"env_id": "CartPole-v1"}, "env=CartPole-v1: grpo learns from text, without an environment; leave"),
        ({"env": "text/copy"}, "env=text/copy: grpo learns from text, without an environment; leave"),
    ],
)
def test_a_checkpoint_says_which_object_it_needs(given: Any, said: str, tmp_path: Path) -> None:
    GRPO(TinyLM(), None, low).save(tmp_path / "saved")
    with pytest.raises(ConfigError, match=re.escape(said)):
        GRPO.from_checkpoint(tmp_path / "saved", **given)


def test_rewards_that_a_command_named_are_given_again_in_python(tmp_path: Path) -> None:
    made = GRPO(TinyLM(), rewards=("helpers.tiny_lm:ended_reward",))  # an importable function
    made.save(tmp_path / "saved")
    with pytest.raises(ConfigError, match=r"names code: algo\.rewards=helpers\.tiny_lm:ended_reward"):
        GRPO.from_checkpoint(tmp_path / "saved", TinyLM())
    again = GRPO.from_checkpoint(tmp_path / "saved", TinyLM(), reward_fn=low)
    assert again.train_step(PROMPTS)["samples"] == 3


def test_a_preference_function_gets_the_arguments_that_are_configured_for_it() -> None:
    spec = {"name": "helpers.tiny_lm:prefer_first", "which": 1}
    made = OnlineDPO(TinyLM(), preference=spec)
    assert made.learner._preference([0, 1, 2]) == [1, 1, 1]
    with pytest.raises(ConfigError, match=r"algo.preference=helpers.tiny_lm:prefer_first takes no first"):
        OnlineDPO(TinyLM(), preference={"name": "helpers.tiny_lm:prefer_first", "first": 1})


def test_from_checkpoint_needs_a_given_ref_model_and_refuses_others(tmp_path: Path) -> None:
    GRPO(TinyLM(), TinyLM(), low).save(tmp_path / "given")
    with pytest.raises(CheckpointError, match="its ref_model was given, and is not saved: give it"):
        GRPO.from_checkpoint(tmp_path / "given", TinyLM(), reward_fn=low)
    GRPO(TinyLM(), None, low).save(tmp_path / "own")
    with pytest.raises(CheckpointError, match="leave ref_model out"):
        GRPO.from_checkpoint(tmp_path / "own", TinyLM(), TinyLM(), low)
    SFT(TinyLM()).save(tmp_path / "none")
    with pytest.raises(ConfigError, match="ref_model is given, but sft uses none"):
        SFT.from_checkpoint(tmp_path / "none", TinyLM(), TinyLM())


def failing(completions: list[Tensor], prompts: Any) -> list[float]:
    raise KeyError("no such word")


WRONG: dict[str, tuple[Callable[[], Any], type[RloxError], str]] = {
    "too few rewards": (
        lambda: GRPO(TinyLM(), None, lambda c, p: [1.0]).train_step(PROMPTS),
        RewardError,
        "returned 1 numbers for 12 completions, expected one each",
    ),
    "no numbers": (
        lambda: GRPO(TinyLM(), None, lambda c, p: ["good"] * len(c)).train_step(PROMPTS),
        RewardError,
        "expected a number, or None, for each",
    ),
    "infinite": (
        lambda: RLOO(TinyLM(), None, lambda c, p: [float("inf")] * len(c)).train_step(PROMPTS),
        RewardError,
        "returned inf for completion 0, expected a finite number",
    ),
    "failing": (
        lambda: GRPO(TinyLM(), None, failing).train_step(PROMPTS),
        RewardError,
        "reward <failing> fails: KeyError: 'no such word'",
    ),
    "no reward": (lambda: GRPO(TinyLM()), ConfigError, "grpo needs rewards: give it a reward_fn"),
    "no model": (lambda: GRPO(), ConfigError, "missing key 'task': grpo needs a text task"),
    "the model as its reference": (
        lambda: (lambda model: GRPO(model, model, low))(TinyLM()),
        ConfigError,
        "ref_model is the model that learns",
    ),
    "nothing ends, and what did not is left out": (
        lambda: GRPO(TinyLM(), None, low, mask_truncated=True),
        ConfigError,
        "algo.mask_truncated=true without a token that ends",
    ),
    "prompts of nobody's task": (
        lambda: GRPO(task="copy").train(PROMPTS),
        ConfigError,
        "a prompt has no right answer: prompts given as tokens have none",
    ),
    "nothing held out": (
        lambda: GRPO(TinyLM(), None, low).evaluate(10),
        ConfigError,
        "grpo has no held-out prompts: give evaluate() prompts",
    ),
    "nothing says what it is worth": (
        lambda: DPO(TinyLM()).evaluate(PROMPTS),
        ConfigError,
        "completions have no reward",
    ),
    "no reward at all": (
        lambda: GRPO(TinyLM(), None, lambda c, p: [None] * len(c)).evaluate(PROMPTS),
        RewardError,
        "no completion got a reward",
    ),
    "no prompts": (
        lambda: GRPO(TinyLM(), None, low).train(100),
        ConfigError,
        "no prompts to learn from: give train() some, or a task",
    ),
    "no number of epochs": (
        lambda: GRPO(TinyLM(), None, low).train(PROMPTS, n_epochs=0),
        ConfigError,
        "n_epochs=0: expected a value in [1, inf)",
    ),
    "prompts of numbers": (
        lambda: GRPO(TinyLM(), None, low).train_step(PROMPTS.float()),
        ConfigError,
        "prompts of torch.float32: expected whole numbers",
    ),
    "an empty prompt": (
        lambda: GRPO(TinyLM(), None, low).train_step([torch.tensor([], dtype=torch.long)]),
        ShapeError,
        "prompts [[0]]: expected token ids [P] each",
    ),
    "k1 without correction": (
        lambda: GRPO(TinyLM(), None, low, kl_estimator="k1", kl_correction=False),
        ConfigError,
        "algo.kl_estimator=k1 without algo.kl_correction",
    ),
    "unlike numbers of completions": (
        lambda: DPO(TinyLM()).train_step(PROMPTS, PROMPTS[:2], PROMPTS),
        ShapeError,
        "3 prompts and 2 completions, expected equal numbers",
    ),
    "log-probabilities of others": (
        lambda: DPO(TinyLM()).compute_loss(PROMPTS, PROMPTS, PROMPTS, (torch.zeros(2), torch.zeros(3))),
        ShapeError,
        "ref_log_probs have shapes [[2], [3]], expected two of [3]",
    ),
    "pairs without an answer": (
        lambda: DPO(TinyLM()).train(10),
        ConfigError,
        "no prompts to learn from",
    ),
    "a preference of three": (
        lambda: OnlineDPO(TinyLM(), None, lambda pairs: [2] * len(pairs)).train_step(PROMPTS),
        RewardError,
        "preference_fn returned 2, expected 0 or 1",
    ),
    "a preference between the two": (
        lambda: OnlineDPO(TinyLM(), None, lambda pairs: [0.9] * len(pairs)).train_step(PROMPTS),
        RewardError,
        "preference_fn returned 0.9, expected 0 or 1",
    ),
    "no reward in a whole batch": (
        lambda: GRPO(TinyLM(), None, lambda c, p: [None] * len(c)).train_step(PROMPTS),
        RewardError,
        "none of the 12 completions of a batch got a reward",
    ),
    "too few preferences": (
        lambda: OnlineDPO(TinyLM(), None, lambda pairs: [0]).train_step(PROMPTS),
        RewardError,
        "preference_fn returned 1 numbers for 3 pairs",
    ),
    "smoothing of hinge": (
        lambda: DPO(TinyLM(), loss_type="hinge", label_smoothing=0.1),
        ConfigError,
        "algo.label_smoothing=0.1 applies to algo.loss_type=sigmoid and robust only",
    ),
    "weights of others": (
        lambda: GRPO(TinyLM(), None, low, reward_weights=(1.0, 2.0)),
        ConfigError,
        "algo.reward_weights has 2 numbers for 1 of algo.rewards",
    ),
    "rewards by both names": (
        lambda: GRPO(TinyLM(), None, low, rewards=("close",)),
        ConfigError,
        "rewards=('close',) and a function are both given",
    ),
    "a word for a reward function": (
        lambda: GRPO(TinyLM(), None, "low"),
        ConfigError,
        "reward_fn='low': expected a function",
    ),
    "a folder for a reference": (
        lambda: GRPO(TinyLM(), "folder", low),
        ConfigError,
        "ref_model is a str, expected a torch.nn.Module",
    ),
    "a dict for a model": (
        lambda: GRPO({}, None, low),
        ConfigError,
        "model is a dict, expected a torch.nn.Module",
    ),
    "half of the model as its reference": (
        lambda: (lambda model: GRPO(model, nn.Sequential(model), low))(TinyLM()),
        ConfigError,
        "ref_model is the model that learns, or shares weights with it",
    ),
    "epochs of a number of prompts": (
        lambda: GRPO(task="copy").train(8, n_epochs=3),
        ConfigError,
        "n_epochs=3 applies to given prompts, and 8 is a number of",
    ),
    "a seed of prompts that are given": (
        lambda: GRPO(TinyLM(), None, low).evaluate(PROMPTS, seed=3),
        ConfigError,
        "evaluate(prompts) takes no other arguments",
    ),
    "masks of actions": (
        lambda: GRPO(TinyLM(), None, low).predict(PROMPTS, action_masks=[1]),
        ConfigError,
        "action_masks: grpo writes text",
    ),
    "nothing for prompts": (
        lambda: GRPO(TinyLM(), None, low).train_step(None),
        ConfigError,
        "prompts None: expected token ids, [B, P] or rows",
    ),
    "tokens of another vocabulary": (
        lambda: GRPO(TinyLM(), None, low).train_step(PROMPTS + 4),
        ConfigError,
        "TinyLM fails on token ids from 7 to 11",
    ),
    "completions of another vocabulary": (
        lambda: DPO(TinyLM()).train_step(PROMPTS, PROMPTS + 4, PROMPTS),
        ConfigError,
        "TinyLM fails on token ids from",
    ),
    "an end of another vocabulary": (
        lambda: GRPO(TinyLM(), None, low, eos_token_id=(20,)).train_step(PROMPTS),
        ConfigError,
        "eos=20: TinyLM has 9 tokens, expected a smaller id",
    ),
    "the best of none": (
        lambda: SFT(task="copy").best_of(0, 4),
        ConfigError,
        "n=0: expected a value in [1,",
    ),
    "an environment of text": (
        lambda: GRPO(task="copy", max_episode_steps=5),
        ConfigError,
        "env.max_episode_steps=5: grpo learns from text, expected null; leave it out",
    ),
    "a task in capitals": (lambda: SFT(task="Copy"), ConfigError, "did you mean 'copy'"),
    "no best of any": (lambda: BestOfN(TinyLM(), low, n=0), ConfigError, "n=0: expected a value"),
    "best by nothing": (lambda: BestOfN(TinyLM(), None), ConfigError, "BestOfN needs a reward_fn"),
    "an unknown task": (
        lambda: SFT(task="sums"),
        ConfigError,
        "unknown task 'sums', expected one of arithmetic",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_text_algorithms_refuse_wrong_rewards_models_and_prompts_by_name(case: str) -> None:
    act, kind, said = WRONG[case]
    with pytest.raises(kind) as raised:
        act()
    assert said in str(raised.value)


def test_a_held_out_completion_without_a_reward_is_left_out_of_an_evaluation() -> None:
    def long(completions: list[Tensor], prompts: Any) -> list[float | None]:
        return [None if len(p) < 6 else float(len(p)) for p in prompts]

    found = SFT(task="copy", reward_fn=long).evaluate(30)
    assert 0 < len(found.returns) < 30
    assert min(found.returns) >= 6.0
    with pytest.raises(RewardError, match="no completion of 5 held-out prompts got a reward"):
        SFT(task="copy", reward_fn=lambda c, p: [None] * len(c)).evaluate(5)


def test_generating_in_parts_does_not_change_the_learned_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def weights() -> Tensor:
        made = GRPO(TinyLM(), None, low, max_new_tokens=5, eos_token_id=(2,), learning_rate=0.1)
        made.train_step(PROMPTS)
        return made.policy.table.detach()

    whole = weights()
    monkeypatch.setattr(rlox.training.text_evaluation, "MAX_ROWS", 5)
    assert torch.equal(whole, weights())


def test_a_reward_function_may_write_to_what_it_is_given() -> None:
    def scribbling(completions: list[Tensor], prompts: Any) -> list[float]:
        worth = low(completions, prompts)
        for given in (*completions, prompts):
            given.fill_(0)
        return worth

    given = PROMPTS.clone()
    for functions in (low, [scribbling, low]):
        weights = {"reward_weights": (0.0, 1.0)} if functions is not low else {}
        made = GRPO(TinyLM(), None, functions, max_new_tokens=4, learning_rate=0.1, **weights)
        made.train_step(given)
        table = made.policy.table.detach()
        assert torch.equal(given, PROMPTS)
        if functions is low:
            first = table
    assert torch.equal(first, table)


def test_last_batch_returns_the_tokens_of_train_step() -> None:
    dpo = DPO(TinyLM())
    assert dpo.source.last_batch() == {}
    dpo.train_step(PROMPTS, PROMPTS.flip(1), PROMPTS)
    assert dpo.source.last_batch()["tokens"].tolist() == PROMPTS.flip(1).tolist()
    assert dpo.source.last_batch()["mask"].all()


def test_the_loss_of_pairs_has_a_gradient_as_often_as_it_is_asked_for() -> None:
    model = nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 9))
    loss, _ = DPO(model).compute_loss(PROMPTS, PROMPTS, PROMPTS.flip(1))
    once = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    again = torch.autograd.grad(loss, list(model.parameters()))
    assert all(map(torch.equal, once, again))
    assert any(part.abs().max() > 0 for part in once)


def test_tuned_gives_what_the_preset_of_text_has() -> None:
    made = GRPO.tuned(task="copy", group_size=2)
    preset = yaml.safe_load((CONF / "tuned" / "grpo" / "text.yaml").read_text())
    assert made.config.total_steps == preset["total_steps"]
    assert made.config.algo.learning_rate == preset["algo"]["learning_rate"]
    assert made.config.algo.group_size == 2


def test_learn_trains_on_a_number_of_prompts_and_shows_progress(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = GRPO(task="copy", batch_size=4, max_new_tokens=2)
    assert made.learn(8, progress=True)["samples"] == 8
    assert "8" in capsys.readouterr().out


def test_text_training_disables_dropout() -> None:
    def made() -> Any:
        model = nn.Sequential(nn.Embedding(9, 8), nn.Dropout(0.5), nn.Linear(8, 9))
        for number, parameter in enumerate(model.parameters()):
            torch.manual_seed(number)
            nn.init.normal_(parameter)
        return DPO(model, learning_rate=0.1)

    one, other = made(), made()
    for seed, dpo in enumerate((one, other)):
        torch.manual_seed(seed)
        assert dpo.train_step(PROMPTS, PROMPTS, PROMPTS.flip(1))["loss"] == pytest.approx(np.log(2))
        dpo.train_step(PROMPTS, PROMPTS, PROMPTS.flip(1))
    assert torch.equal(one.policy[2].weight, other.policy[2].weight)


def test_best_of_n_returns_prompts_with_the_completion_of_the_greatest_reward() -> None:
    sampler = BestOfN(TinyLM(), low, n=6, max_new_tokens=4, seed=1)
    found, worth = sampler.sample(PROMPTS)
    assert low(found, None) == pytest.approx(worth.max(1))
    assert (worth.max(1) > worth.min(1)).all()
    again = BestOfN(TinyLM(), low, n=6, max_new_tokens=4, seed=1)
    whole = again.generate(PROMPTS)
    assert whole.shape == (3, 7)
    assert torch.equal(whole, torch.cat([PROMPTS, torch.stack(found)], 1))
    assert not torch.equal(again.generate(PROMPTS), whole), "each call draws anew"


def test_the_best_of_four_completions_scores_above_one_sample() -> None:
    sft = SFT(task="copy", rewards=("close",))
    one, best = sft.best_of(1, 30), sft.best_of(4, 30)
    drawn = sft.evaluate(30, deterministic=False)
    assert one.returns == drawn.returns
    assert np.mean(best.returns) > np.mean(one.returns)
    assert len(best.returns) == len(best.lengths) == 30
    assert [s["reward"] for s in best.samples] == list(best.returns[:16])


def test_a_model_is_saved_as_a_folder_that_answers_alike(tmp_path: Path) -> None:
    sft = SFT("tiny", task="copy", learning_rate=2e-3)
    sft.train(64)
    sft.save_pretrained(tmp_path / "model")
    prompt = [torch.from_numpy(task_of("copy").codec.encode("abc>"))]
    again = SFT(str(tmp_path / "model"), task="copy")
    assert torch.equal(again.generate(prompt)[0], sft.generate(prompt)[0])
    module = load_llama(tmp_path / "model")
    assert torch.equal(module.lm_head.weight, sft.policy.lm_head.weight)
    with pytest.raises(ConfigError, match=r"has 11 tokens, text as characters or bytes has 14"):
        SFT(str(tmp_path / "model"), task="arithmetic")
    with pytest.raises(ConfigError, match="TinyLM has no save_pretrained, expected a Llama"):
        GRPO(TinyLM(), None, low).save_pretrained(tmp_path / "other")


def test_a_checkpoint_goes_on_without_the_folder_that_its_model_came_from(tmp_path: Path) -> None:
    torch.manual_seed(0)
    size = LlamaSize(vocab_size=len(task_of("copy").codec), hidden_size=32, num_hidden_layers=1)
    save_llama(Llama(size), tmp_path / "model")
    made = SFT(tmp_path / "model", task="copy", batch_size=4)
    made.train(8)
    made.save(tmp_path / "saved")
    shutil.rmtree(tmp_path / "model")
    again = SFT.from_checkpoint(tmp_path / "saved")
    for algorithm in (made, again):
        algorithm.train(16)
    assert again.policy.size == size
    assert torch.equal(again.policy.lm_head.weight, made.policy.lm_head.weight)


def test_a_task_is_evaluated_on_prompts_that_nothing_is_learned_from() -> None:
    sft = SFT(task="copy", learning_rate=2e-3, batch_size=64)
    prompts = sft.components.evaluate.prompts
    held_out = {p.columns["prompt"] for p in prompts.held_out(100_000, 0, 200)}
    assert not held_out & {p.columns["prompt"] for p in prompts.training_prompts(0, 2_000)}
    before = sft.evaluate(40)
    sft.train(64 * 60)
    after = sft.evaluate(40)
    assert after.mean > before.mean == 0.0
    assert len(after.returns) == 40
    assert after.returns == sft.evaluate(60).returns[:40]
