"""Tests which argument each parameter of a reward function gets by its name, and the refused functions."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rlox.algorithms import GRPO, SFT
from rlox.errors import ConfigError
from rlox.llm import CharacterCodec
from rlox.llm.completion_rewards import FunctionReward
from rlox.llm.decoding import GeneratedTokens
from rlox.llm.prompts import Prompt
from rlox.llm.reward_arguments import RewardArguments, bind_arguments

CODEC = CharacterCodec("abcd")
COMPLETIONS = GeneratedTokens(
    torch.tensor([[2, 3, 1], [4, 1, 0]]),
    torch.tensor([[True, True, True], [True, True, False]]),
    torch.zeros(2, 3),
    torch.tensor([True, True]),
)
COLUMNS: dict[str, list[Any]] = {
    "prompt": ["a", "b"],
    "solution": ["ab", "d"],
    "answer": ["x", None],
    "length": [7, 8],
}
PROMPTS = [
    Prompt(torch.tensor([2 + i]), columns={name: column[i] for name, column in COLUMNS.items()})
    for i in range(2)
]
ARGUMENT_VALUES: dict[str, Any] = {
    "completions": [[2, 3, 1], [4, 1]],
    "prompts": [[2], [3]],
    "texts": ["ab", "c"],
    **COLUMNS,
}
ARGUMENT_NAMES = tuple(ARGUMENT_VALUES)


class ArgumentRecorder(dict[str, Any]):
    """Records the arguments of a function by their names."""

    def __call__(self, **kwargs: Any) -> list[float]:
        self.update(kwargs)
        return [0.0, 1.0]


recorder = ArgumentRecorder()


class CallableReward:
    def __call__(self, completions: Any, solution: Any) -> list[float]:
        return recorder(completions=completions, solution=solution)

    def method(self, texts: Any, answer: Any) -> list[float]:
        return recorder(texts=texts, answer=answer)

    @staticmethod
    def static_method(prompts: Any, completions: Any) -> list[float]:
        return recorder(prompts=prompts, completions=completions)

    @classmethod
    def class_method(cls, completions: Any) -> list[float]:
        return recorder(completions=completions)


class Net(nn.Module):
    def forward(self, completions: Any, solution: Any) -> list[float]:
        return recorder(completions=completions, solution=solution)


def length_reward(completions: Any, length: Any = 1) -> list[float]:
    return recorder(completions=completions, length=length)


def pass_through(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that passes on all arguments."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def with_texts(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator with its own parameters."""

    @functools.wraps(function)
    def wrapper(completions: Any, prompts: Any) -> Any:
        return function(texts=completions, prompts=prompts)

    return wrapper


def kwargs_reward(completions: Any, **kwargs: Any) -> list[float]:
    return recorder(completions=completions, **kwargs)


# The arguments that the parameters get, or a part of the error.
Expected = dict[str, Any] | str
SIGNATURES: dict[str, tuple[Any, Expected]] = {
    "f(completions, prompts)": (
        lambda completions, prompts: recorder(completions=completions, prompts=prompts),
        {"completions": "completions", "prompts": "prompts"},
    ),
    "f(prompts, completions)": (
        lambda prompts, completions: recorder(completions=completions, prompts=prompts),
        {"completions": "completions", "prompts": "prompts"},
    ),
    "f(completions, prompts, texts, answer)": (
        lambda completions, prompts, texts, answer: recorder(
            completions=completions, prompts=prompts, texts=texts, answer=answer
        ),
        {name: name for name in ("completions", "prompts", "texts", "answer")},
    ),
    "f(completions, solution)": (
        lambda completions, solution: recorder(completions=completions, solution=solution),
        {"completions": "completions", "solution": "solution"},
    ),
    "f(solution, completions)": (
        lambda solution, completions: recorder(completions=completions, solution=solution),
        {"completions": "completions", "solution": "solution"},
    ),
    "f(texts, answer)": (
        lambda texts, answer: recorder(texts=texts, answer=answer),
        {"texts": "texts", "answer": "answer"},
    ),
    "f(prompts, texts)": (
        lambda prompts, texts: recorder(prompts=prompts, texts=texts),
        {"prompts": "prompts", "texts": "texts"},
    ),
    "f(completions, texts)": (
        lambda completions, texts: recorder(completions=completions, texts=texts),
        {"completions": "completions", "texts": "texts"},
    ),
    "f(completions)": (
        lambda completions: recorder(completions=completions),
        {"completions": "completions"},
    ),
    "f(texts)": (lambda texts: recorder(texts=texts), {"texts": "texts"}),
    "f(completions, prompt)": (
        lambda completions, prompt: recorder(completions=completions, prompt=prompt),
        {"completions": "completions", "prompt": "prompt"},
    ),
    "f(completions, **kwargs)": (kwargs_reward, {name: name for name in ARGUMENT_NAMES}),
    "f(completions, solution, **kwargs)": (
        lambda completions, solution, **kwargs: recorder(
            completions=completions, solution=solution, **kwargs
        ),
        {name: name for name in ARGUMENT_NAMES},
    ),
    "f(prompts, completions, **kwargs)": (
        lambda prompts, completions, **kwargs: recorder(prompts=prompts, completions=completions, **kwargs),
        {name: name for name in ARGUMENT_NAMES},
    ),
    "f(**kwargs)": (lambda **kwargs: recorder(**kwargs), {name: name for name in ARGUMENT_NAMES}),
    "f(*, completions, solution)": (
        lambda *, completions, solution: recorder(completions=completions, solution=solution),
        {"completions": "completions", "solution": "solution"},
    ),
    "f(completions, solution, /)": (
        lambda completions, solution, /: recorder(completions=completions, solution=solution),
        {"completions": "completions", "solution": "solution"},
    ),
    "f(completions, *rest)": (
        lambda completions, *rest: recorder(completions=completions, rest=list(rest)),
        {"completions": "completions", "rest": []},
    ),
    "f(completions, scale=2)": (
        lambda completions, scale=2: recorder(completions=completions, scale=scale),
        {"completions": "completions", "scale": 2},
    ),
    "f(completions=None, prompts=None)": (
        lambda completions=None, prompts=None: recorder(completions=completions, prompts=prompts),
        {"completions": "completions", "prompts": "prompts"},
    ),
    "f(completions, length=1)": (length_reward, {"completions": "completions", "length": "length"}),
    "f(c, p)": (
        lambda c, p: recorder(c=c, p=p),
        {"c": "completions", "p": "prompts"},
    ),
    "f(rows, _)": (
        lambda rows, _: recorder(rows=rows, _=_),
        {"rows": "completions", "_": "prompts"},
    ),
    "f(rows, prompts)": (
        lambda rows, prompts: recorder(rows=rows, prompts=prompts),
        {"rows": "completions", "prompts": "prompts"},
    ),
    "an object with __call__": (
        CallableReward(),
        {"completions": "completions", "solution": "solution"},
    ),
    "a bound method": (CallableReward().method, {"texts": "texts", "answer": "answer"}),
    "a static method": (
        CallableReward.static_method,
        {"prompts": "prompts", "completions": "completions"},
    ),
    "a class method": (CallableReward.class_method, {"completions": "completions"}),
    "a module": (Net(), {"completions": "completions", "solution": "solution"}),
    "a partial with an argument": (
        functools.partial(length_reward, length=5),
        {"completions": "completions", "length": 5},
    ),
    "a partial of f(completions, **kwargs)": (
        functools.partial(kwargs_reward, length=5),
        {**{name: name for name in ARGUMENT_NAMES}, "length": 5},
    ),
    "a partial with its first argument": (
        functools.partial(lambda scale, completions: recorder(c=completions, scale=scale), 3),
        {"c": "completions", "scale": 3},
    ),
    "a configured argument": (
        bind_arguments("long", length_reward, {"length": 5}, "algo.rewards[0]"),
        {"completions": "completions", "length": 5},
    ),
    "a configured argument of **kwargs": (
        bind_arguments("open_ended", kwargs_reward, {"length": 5}, "algo.rewards[0]"),
        {**{name: name for name in ARGUMENT_NAMES}, "length": 5},
    ),
    "a decorated f(completions, solution)": (
        pass_through(lambda completions, solution: recorder(completions=completions, solution=solution)),
        {"completions": "completions", "solution": "solution"},
    ),
    "a decorator with its own parameters": (
        with_texts(lambda texts, prompts: recorder(texts=texts, prompts=prompts)),
        {"texts": "completions", "prompts": "prompts"},
    ),
    "f(completions, target)": (
        lambda completions, target: [],
        "reward f asks for target, and there is completions, prompts, texts, answer, length, prompt, "
        "solution: expected f(completions, prompts), f(completions, COLUMN), f(texts, COLUMN) or",
    ),
    "f(labels, prompts)": (lambda labels, prompts: [], "reward f asks for labels, and there is"),
    "f(label, _)": (lambda label, _: [], "reward f asks for label, and there is"),
    "f(ground_truths, p)": (lambda ground_truths, p: [], "asks for ground_truths, and there is"),
    "f(gold_answers, prompts)": (lambda gold_answers, prompts: [], "asks for gold_answers, and"),
    "f(correct_answer, p)": (lambda correct_answer, p: [], "asks for correct_answer, and"),
    "f(outputs, solutions)": (lambda outputs, solutions: [], "asks for outputs, and there is"),
    "f(completion, prompts)": (lambda completion, prompts: [], "did you mean 'completions'"),
    "f(p, c)": (lambda p, c: [], "asks for p, and there is"),
    "f(p, _)": (lambda p, _: [], "asks for p, and there is"),
    "f(c)": (lambda c: [], "asks for c, and there is"),
    "f(a, b, c)": (lambda a, b, c: [], "asks for a, and there is"),
    "f()": (lambda: [], "takes neither completions nor texts by name"),
    "f(*args)": (lambda *args: [], "takes neither completions nor texts by name"),
    "f(prompts, solution)": (
        lambda prompts, solution: [],
        "takes neither completions nor texts by name",
    ),
    "a class": (
        CallableReward,
        "reward f is a class, expected a function, or an object with __call__",
    ),
    "a builtin": (max, "reward f has no readable signature"),
}


# Common names of the right answer and of the question, of one row or of all.
REFERENCE_NAMES = (
    "answer", "answers", "correct_answer", "correct_answers", "expected", "expected_answer", "gold", "golds",
    "gold_answer", "gold_answers", "golden", "gt", "gts", "ground_truth", "ground_truths", "groundtruth",
    "label", "labels", "reference", "references", "ref", "refs", "reference_answer", "right", "right_answer",
    "solution", "solutions", "target", "targets", "target_text", "truth", "truths", "y_true", "true_answer",
    "correct", "expected_output", "expected_outputs", "ideal", "ideals", "goldAnswer", "answer_key", "GT",
    "question", "questions", "query", "queries", "inputs", "problems",
)  # fmt: skip


@pytest.mark.parametrize("second", ["prompts", "p", "_"])
def test_parameters_named_like_an_answer_or_a_question_get_no_completions(second: str) -> None:
    for name in REFERENCE_NAMES:
        space: dict[str, Any] = {}
        exec(f"def f({name}, {second}): return []", space)
        with pytest.raises(ConfigError, match=f"asks for {name}, and there is"):
            RewardArguments("f", space["f"], {"completions", "prompts", "texts"})
        known = {"completions", "prompts", "texts", name}
        with pytest.raises(ConfigError, match=r"asks for|takes neither"):
            RewardArguments("f", space["f"], known)


@pytest.mark.parametrize("name", ["c", "rows", "outputs", "responses", "xs", "ids", "tokens", "generated"])
def test_parameters_with_other_names_get_completions(name: str) -> None:
    space: dict[str, Any] = {}
    exec(f"def f({name}, prompts): return {name}", space)
    taken = RewardArguments("f", space["f"], {"completions", "prompts"})
    assert taken.call(space["f"], {"completions": [1], "prompts": [2]}) == [1]


@pytest.mark.parametrize("form", SIGNATURES)
def test_a_reward_function_gets_each_parameter_by_name_or_is_refused(form: str) -> None:
    function, expected = SIGNATURES[form]
    if isinstance(expected, str):
        with pytest.raises(ConfigError) as told:
            FunctionReward([("f", function)], CODEC, COLUMNS)
        assert expected in str(told.value)
        return
    recorder.clear()
    found = FunctionReward([("f", function)], CODEC, COLUMNS)(PROMPTS, COMPLETIONS)
    assert found.tolist() == [[0.0], [1.0]]
    assert set(recorder) == set(expected)
    for parameter, name in expected.items():
        there = recorder[parameter]
        if isinstance(there, Tensor):
            there = there.tolist()
        elif isinstance(there, list):
            there = [of.tolist() if isinstance(of, Tensor) else of for of in there]
        expected_value = ARGUMENT_VALUES[name] if isinstance(name, str) else name
        assert there == expected_value, parameter


def test_texts_are_refused_where_nothing_makes_them() -> None:
    with pytest.raises(ConfigError, match=r"asks for texts, and there .* need a task or a tokenizer"):
        FunctionReward([("f", lambda texts: [])], None, ())
    with pytest.raises(ConfigError, match="asks for solution, and there is completions, prompts:"):
        FunctionReward([("f", lambda completions, solution: [])], None, ())


def test_a_column_that_a_batch_lacks_is_none_for_each_of_its_rows() -> None:
    bare = [Prompt(torch.tensor([2]), columns={"prompt": "a"})] * 2
    recorder.clear()
    FunctionReward([("f", CallableReward())], CODEC, COLUMNS)(bare, COMPLETIONS)
    assert recorder["solution"] == [None, None]


def test_a_column_is_refused_for_prompts_that_are_handed_over() -> None:
    judge = FunctionReward([("f", CallableReward())], CODEC, COLUMNS)
    with pytest.raises(ConfigError, match="asks for solution, and there is completions, prompts"):
        judge([Prompt(torch.tensor([2]))] * 2, COMPLETIONS)


def test_a_reward_function_that_changes_a_column_leaves_the_dataset_as_it_is() -> None:
    row = {"prompt": "a", "notes": [{"of": ["one"]}]}
    prompts = [Prompt(torch.tensor([2]), columns=row)] * 2

    def scribbling(completions: Any, notes: Any) -> list[float]:
        for note in notes:
            note[0]["of"].append("two")
            note.clear()
        return [0.0] * len(completions)

    FunctionReward([("f", scribbling)], CODEC, row)(prompts, COMPLETIONS)
    assert row["notes"] == [{"of": ["one"]}]


@pytest.mark.parametrize("name", ["completions", "prompts", "texts"])
def test_a_configured_argument_must_not_have_a_reserved_name(name: str) -> None:
    with pytest.raises(ConfigError, match=f"algo.rewards=f: {name} is a reserved argument"):
        bind_arguments("f", kwargs_reward, {name: 5}, "algo.rewards")


def solution_reward(completions: list[Tensor], solution: list[str]) -> list[float]:
    return [float(text == "here") for text in solution]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    lines = [{"prompt": f"{i}", "solution": "here"} for i in range(20)]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def test_a_reward_function_gets_a_column_of_the_file(rows: Path) -> None:
    grpo = GRPO(dataset=rows, reward_fn=solution_reward, max_new_tokens=2, batch_size=4, group_size=2)
    assert grpo.train(4)["mean_reward"] == 1.0
    assert np.mean(grpo.evaluate(4).returns) == 1.0


def test_a_reward_function_is_refused_before_the_first_step(rows: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"reward <.*wants> asks for level, and there is"):

        def wants(completions: Any, level: Any) -> list[float]:
            return []

        SFT(dataset=rows, reward_fn=wants).train(4)
    other = tmp_path / "other.jsonl"
    other.write_text('{"prompt": "a"}\n')
    with pytest.raises(ConfigError, match="asks for solution, and there is"):
        GRPO(dataset=rows, eval_dataset=other, reward_fn=solution_reward).train(4)


def test_a_run_whose_file_is_gone_is_exported_with_a_reward_of_a_column(rows: Path, tmp_path: Path) -> None:
    grpo = GRPO(dataset=rows, reward_fn=solution_reward, max_new_tokens=2, batch_size=4, group_size=2)
    grpo.train(4)
    grpo.save(tmp_path / "run")
    rows.unlink()
    again = GRPO.from_checkpoint(tmp_path / "run", reward_fn=solution_reward, replay=False)
    again.save_pretrained(tmp_path / "learned")
    assert (tmp_path / "learned" / "model.safetensors").is_file()
