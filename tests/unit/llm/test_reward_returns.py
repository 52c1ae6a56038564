"""Tests that results of users' reward and preference functions are numbers, or that an error names them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.cli import Cli, only_run
from helpers.tiny_lm import PROMPTS, TinyLM

from rlox.algorithms import GRPO, RLOO, SFT, BestOfN, OnlineDPO
from rlox.errors import ConfigError, RewardError
from rlox.llm.completion_rewards import FunctionReward
from rlox.llm.decoding import GeneratedTokens
from rlox.llm.prompts import Prompt

COMPLETIONS = GeneratedTokens(
    torch.tensor([[2], [4]]), torch.ones(2, 1).bool(), torch.zeros(2, 1), torch.ones(2).bool()
)
TWO_PROMPTS = [Prompt(torch.tensor([2])), Prompt(torch.tensor([3]))]


def judge(function: Callable[..., Any]) -> list[float]:
    """Returns the function's rewards of two completions."""
    return FunctionReward([("mine", function)])(TWO_PROMPTS, COMPLETIONS)[:, 0].tolist()


VALID_RETURNS: dict[str, tuple[Any, list[float]]] = {
    "numbers": ([1, 0.5], [1.0, 0.5]),
    "a tuple": ((1.0, 2.0), [1.0, 2.0]),
    "truths": ([True, np.bool_(False)], [1.0, 0.0]),
    "an array": (np.array([1, 2], np.int8), [1.0, 2.0]),
    "a tensor": (torch.tensor([0.5, -1.0]).requires_grad_(), [0.5, -1.0]),
    "tensors": ([torch.tensor(1), torch.tensor([2.0])], [1.0, 2.0]),
    "a column": (np.array([[1.0], [2.0]]), [1.0, 2.0]),
    "fractions": ([Fraction(1, 4), np.float16(2)], [0.25, 2.0]),
    "a generator": ((float(i) for i in range(2)), [0.0, 1.0]),
    "none": ([None, 1.0], [float("nan"), 1.0]),
}


@pytest.mark.parametrize("kind", VALID_RETURNS)
def test_rewards_may_be_any_numbers_and_none_means_no_reward(kind: str) -> None:
    said, expected = VALID_RETURNS[kind]
    assert judge(lambda completions: said) == pytest.approx(expected, nan_ok=True)


INVALID_RETURNS: dict[str, tuple[Any, str]] = {
    "too few": ([1.0], "returned 1 numbers for 2 completions, expected one each"),
    "too many": ([1.0, 2.0, 3.0], "returned 3 numbers for 2 completions"),
    "nothing": (None, "returned None, expected a list: a number, or None, for each completion"),
    "one number": (0.5, "returned 0.5, expected a list"),
    "a tensor of one number": (torch.tensor(0.5), r"returned tensor\(0.5"),
    "a text": ("01", "returned '01', expected a list"),
    "bytes": (b"01", "returned b'01', expected a list"),
    "a dict": ({0: 1.0, 1: 1.0}, r"returned \{0: 1.0, 1: 1.0\}, expected a list"),
    "a set": ({0.0, 1.0}, r"returned \{0.0, 1.0\}, expected a list"),
    "texts that read as numbers": (
        [1.0, "0.5"],
        "returned '0.5' for completion 1, expected a number",
    ),
    "texts in an array": (np.array(["1", "2"]), r"returned np.str_\('1'\) for completion 0"),
    "complex numbers": ([np.complex64(1 + 1j), 1.0], "for completion 0, expected a number"),
    "rows of two": (torch.ones(2, 2), r"returned tensor\(\[1., 1.\]\) for completion 0"),
    "nan": (
        [1.0, float("nan")],
        "returned nan for completion 1, expected a finite number, or None",
    ),
    "an array with masked entries": (
        np.ma.array([100.0, 1.0], mask=[1, 0]),
        "returned an array: some of it is masked, expected numbers",
    ),
    "a masked entry": ([np.ma.masked, 1.0], "returned masked for completion 0, expected a number"),
    "infinity": ([-np.inf, 1.0], "returned -inf for completion 0, expected a finite number"),
    "more than a float holds": ([10**400, 1.0], "for completion 0, expected a number"),
}


@pytest.mark.parametrize("kind", INVALID_RETURNS)
def test_a_value_that_is_no_reward_is_refused_with_its_completion(kind: str) -> None:
    said, told = INVALID_RETURNS[kind]
    with pytest.raises(RewardError, match=f"^reward mine .*{told}"):
        judge(lambda completions: said)


def raise_in_library(completions: Any) -> Any:
    return json.loads("{")


def raise_in_generator(completions: Any) -> Any:
    yield {}["word"]


def exit_process(completions: Any) -> Any:
    sys.exit(0)


def raise_config_error(completions: Any) -> Any:
    raise ConfigError("mine")


RAISING_FUNCTIONS: dict[Callable[..., Any], str] = {
    raise_in_library: "fails: JSONDecodeError: Expecting .*",
    raise_in_generator: "fails: KeyError: 'word'",
    exit_process: "fails: SystemExit: 0",
    raise_config_error: "fails: ConfigError: mine",
}


@pytest.mark.parametrize("function", RAISING_FUNCTIONS)
def test_the_error_of_a_raising_reward_function_names_the_users_line(
    function: Callable[..., Any],
) -> None:
    line = function.__code__.co_firstlineno + 1
    told = rf"^reward mine {RAISING_FUNCTIONS[function]} \(.*{Path(__file__).name}, line {line}\)$"
    with pytest.raises(RewardError, match=told) as raised:
        judge(function)
    assert raised.value.__cause__ is not None  # with the traceback of the user's error


INVALID_PREFERENCES: dict[str, tuple[Any, str]] = {
    "a truth": (True, r"returned True, expected 0 or 1 \(the index of the better completion\) or -1"),
    "a truth of NumPy": (np.bool_(True), "returned np.True_, expected 0 or 1"),
    "a truth of torch": (torch.tensor(True), r"returned tensor\(True\), expected 0 or 1"),
    "a text": ("1", "returned '1', expected 0 or 1"),
    "none": (None, "returned None, expected 0 or 1"),
    "nan": (float("nan"), "returned nan, expected 0 or 1"),
    "both": (0.5, "returned 0.5, expected 0 or 1"),
    "a masked entry": (np.ma.masked, "returned masked, expected 0 or 1"),
}


@pytest.mark.parametrize("kind", INVALID_PREFERENCES)
def test_a_preference_that_is_not_0_1_or_minus_1_is_refused(kind: str) -> None:
    said, told = INVALID_PREFERENCES[kind]
    with pytest.raises(RewardError, match=f"^preference_fn {told}"):
        OnlineDPO(TinyLM(), None, lambda pairs: [said] * len(pairs)).train_step(PROMPTS)


def test_preferences_and_samplers_refuse_arrays_with_masked_entries() -> None:
    def hiding(completions: Any) -> Any:
        return np.ma.array(np.arange(len(completions)), mask=np.arange(len(completions)) == 1)

    told = "an array: some of it is masked, expected numbers"
    with pytest.raises(RewardError, match=f"^preference_fn returned {told}"):
        OnlineDPO(TinyLM(), None, hiding).train_step(PROMPTS)
    with pytest.raises(RewardError, match=f"returned {told}"):
        BestOfN(TinyLM(), hiding).generate(PROMPTS)


def test_preferences_are_whole_numbers_of_any_kind() -> None:
    for said in (1, np.int64(0), torch.tensor(1), 1.0, -1):
        online = OnlineDPO(TinyLM(), None, lambda pairs, said=said: [said] * len(pairs))
        assert online.train_step(PROMPTS)["samples"] == 4


def test_functions_that_reward_nothing_are_refused_wherever_they_are_asked() -> None:
    def nothing(completions: Any) -> list[None]:
        return [None] * len(completions)

    grpo = GRPO(TinyLM(), None, nothing)
    for ask in (
        lambda: grpo.train_step(PROMPTS),
        lambda: grpo.evaluate(PROMPTS),
        lambda: BestOfN(TinyLM(), nothing).generate(PROMPTS),
        lambda: SFT(task="copy", reward_fn=nothing).evaluate(4),
    ):
        with pytest.raises(RewardError, match="got a reward, expected"):
            ask()


def test_groups_and_pairs_of_equal_rewards_are_counted_among_the_metrics() -> None:
    def same(completions: Any) -> list[float]:
        return [0.5] * len(completions)

    for kind in (GRPO, RLOO):
        metrics = kind(TinyLM(), None, same).train_step(PROMPTS)
        assert (metrics["reward/zero_std"], metrics["loss/policy"]) == (1.0, 0.0)
    assert OnlineDPO(TinyLM(), reward_fn=same).train_step(PROMPTS)["reward/told_apart"] == 0.0


def test_a_faulty_reward_function_fails_the_run_and_the_log_has_the_traceback(
    cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "faulty.py").write_text(
        "def short(completions):\n    return [1.0]\n"
        "def texts(completions):\n    return ['0.5'] * len(completions)\n"
        "def raising(completions):\n    return looked_up({})\n"
        "def looked_up(words):\n    return words['good']\n"
    )
    small = ("tuned=null", "algo.batch_size=4", "total_steps=8", "algo.max_new_tokens=2")
    for name, told in {
        "short": "reward faulty:short returned 1 numbers for 16 completions",
        "texts": "reward faulty:texts returned '0.5' for completion 0",
        "raising": "reward faulty:raising fails: KeyError: 'good'",
    }.items():
        rewards = f"algo.rewards=[faulty:{name}]"
        ran = cli("train", "algo=grpo", "env=text/copy", rewards, *small, f"run_root={name}")
        assert ran.code == 1
        assert told in ran.err
        log = (only_run(tmp_path / name) / "log.txt").read_text()
        assert told in log
        if name == "raising":
            assert "in raising\n" in log and "in looked_up\n" in log
