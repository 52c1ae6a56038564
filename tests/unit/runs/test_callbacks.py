"""Tests which methods of callbacks are called, which states are restored, and what callbacks may not do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from helpers.tiny_lm import PROMPTS, TinyLM

from rlox.algorithms import GRPO, PPO
from rlox.callbacks import (
    Callback,
    EarlyStoppingCallback,
    LoggerCallback,
    make_callbacks,
    require_logger,
)
from rlox.errors import ConfigError, RloxError

SMALL: dict[str, Any] = {
    "n_envs": 1, "n_steps": 8, "batch_size": 8, "n_epochs": 1, "net_arch": (4,), "backend": "native",
}  # fmt: skip


def make_callback(*names: str, base: type[Callback] = Callback) -> Callback:
    """Makes a callback with these further methods, which do nothing."""
    cls = type("Watch", (base,), {name: lambda self, **kwargs: True for name in names})
    return cls()  # type: ignore[no-any-return]


STRAY_METHODS = {
    "_on_step": "'on_step'",
    "_on_training_start": "'on_training_start'",
    "_on_rollout_end": "'on_rollout_end'",
    "_on_training_end": "'on_training_end'",
    "_on_rollout_start": "",
    "_init_callback": "'on_training_start'",
    "on_steps": "'on_step'",
    "on_stpe": "'on_step'",
    "onStep": "'on_step'",
    "on_rollout": "'on_rollout_end'",
    "on_train_begin": "'on_training_start'",
    "on_train_end": "'on_training_end'",
    "on_episode_end": "",
    "on_epoch_begin": "",
}


@pytest.mark.parametrize(("name", "meant"), STRAY_METHODS.items())
def test_a_method_named_like_a_hook_is_refused_by_name(name: str, meant: str) -> None:
    told = (
        f"callbacks: a Watch defines {name}, which nothing calls: rlox calls on_training_start, "
        "on_rollout_end, on_step, on_training_end"
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(told)}.*{re.escape(meant)}"):
        make_callbacks(make_callback(name))


def test_ppo_refuses_a_callback_with_hooks_of_another_library_at_construction() -> None:
    with pytest.raises(ConfigError, match=r"a Watch defines _on_step, .* did you mean 'on_step'"):
        PPO("CartPole-v1", callbacks=[make_callback("_on_step")], **SMALL)


class SelfCallingCallback(Callback):
    """Calls each of its methods whose name begins like a hook's."""

    def __init__(self, on_episode: Callable[[], None] = print) -> None:
        self.on_update = on_episode

    def on_step(self, **kwargs: Any) -> bool:
        kwargs["algo"].watch(self.on_episode_end)
        getattr(self, "on_batch")()  # noqa: B009  # a name in a text
        return all(self._on_update() for _ in range(2))

    def _on_update(self) -> bool:
        return True

    def on_episode_end(self) -> None:
        """Is called by the function that receives it."""

    def on_batch(self) -> None:
        """Is called by its name."""


class ForeignCallback:
    """A callback of another library; that library calls it."""

    def on_epoch_end(self) -> None:
        """Is called by the other library."""


class MixedCallback(Callback, LoggerCallback, ForeignCallback):
    """Is a callback of training, of loggers and of another library."""

    def on_epoch_end(self) -> None:
        """Overrides the method of the other library."""


@pytest.mark.parametrize(
    "callback",
    [
        SelfCallingCallback(),
        MixedCallback(),
        make_callback("on_message", "on_new_best", "once", "_step"),
    ],
)
def test_callbacks_may_have_methods_with_callers_and_methods_of_other_events(callback: Any) -> None:
    assert make_callbacks([callback]) == (callback,)


def test_a_hook_of_loggers_is_refused_in_a_callback_that_is_none() -> None:
    with pytest.raises(ConfigError, match=r"defines on_train_step, .* pass it as logger="):
        make_callbacks(make_callback("on_train_step"))
    logger = type("Log", (LoggerCallback,), {"on_training_step": lambda self, step, metrics: None})
    with pytest.raises(ConfigError, match=r"^logger: a Log defines on_training_step, which nothing"):
        require_logger(logger())


WRONG_HOOKS: dict[str, tuple[Any, str]] = {
    "on_training_end": (lambda self: None, "does not take algo, step"),
    "on_step": (lambda self, algo: True, "does not take algo, step, metrics, episodes"),
    "on_rollout_end": (lambda self, locals_, globals_: None, "does not take algo, step, metrics"),
    "on_training_start": (lambda self, *args: None, "does not take algo, total_timesteps"),
}


@pytest.mark.parametrize("name", WRONG_HOOKS)
def test_a_hook_that_cannot_be_called_is_refused_before_training(name: str) -> None:
    hook, told = WRONG_HOOKS[name]
    callback = type("Watch", (Callback,), {name: hook})()
    told = f"callbacks: {name} of a Watch {told}"
    with pytest.raises(ConfigError, match=rf"^{told}.*write def {name}\(self, \*\*kwargs\)$"):
        make_callbacks(callback)


def test_a_hook_whose_body_would_never_run_is_refused() -> None:
    class Waits(Callback):
        async def on_step(self, **kwargs: Any) -> bool:  # type: ignore[override]
            return False

    class Yields(Callback):
        def on_step(self, **kwargs: Any) -> Any:
            yield False

    for callback in (Waits(), Yields()):
        with pytest.raises(ConfigError, match=r"on_step of a \w+ is async or a generator, expected"):
            make_callbacks(callback)


def make_duck_callback(*names: str) -> Any:
    """Makes an object with the hooks of a callback and with these methods, which is no `Callback`."""
    hooks = ("on_training_start", "on_rollout_end", "on_step", "on_training_end", *names)
    return type("Half", (), {name: lambda self, **kwargs: {} for name in hooks})()


def hide_state() -> Any:
    callback: Any = Callback()
    callback.state = {"best": 0.0}
    return callback


LOST_STATES: dict[str, tuple[Callable[[], Any], str]] = {
    "a state alone": (
        lambda: make_callback("state"), "a Watch defines state() without restore(): what it remembers",
    ),
    "its return alone": (
        lambda: make_callback("restore"), "a Watch defines restore() without state(): what it remembers",
    ),
    "a state in its place": (hide_state, "state of a Callback is no method, and hides state() of Callback"),
    "a state of no callback": (
        lambda: make_duck_callback("state", "restore"),
        "a Half has state() and restore(), which are called for a Callback",
    ),
    "one twice": (
        lambda: [EarlyStoppingCallback()] * 2,
        "the same EarlyStoppingCallback is given twice, and would be called twice",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LOST_STATES)
def test_a_callback_that_cannot_save_its_state_is_refused(case: str) -> None:
    make, told = LOST_STATES[case]
    with pytest.raises(ConfigError, match=f"^callbacks: {re.escape(told)}"):
        make_callbacks(make())
    assert (
        len(make_callbacks([make_duck_callback("state"), EarlyStoppingCallback(), EarlyStoppingCallback()]))
        == 3
    )


@pytest.mark.parametrize("answer", ["stop", "", np.zeros(2), torch.ones(2)])
def test_an_answer_that_is_neither_true_nor_false_is_refused(answer: Any) -> None:
    watch = type("Watch", (Callback,), {"on_step": lambda self, **kwargs: answer})()
    with pytest.raises(ConfigError, match=r"^on_step returned .* expected True, or False") as raised:
        PPO("CartPole-v1", callbacks=[watch], **SMALL).train(16)
    assert raised.value.__notes__ == ["raised by the callback Watch"]


def test_an_error_of_a_logger_says_whose_it_is() -> None:
    class Log(LoggerCallback):
        def on_train_step(self, step: int, metrics: dict[str, Any]) -> None:
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine") as raised:
        PPO("CartPole-v1", logger=Log(), **SMALL).train(16)
    assert raised.value.__notes__ == ["raised by the logger Log"]


@pytest.mark.parametrize("hook", ["on_training_start", "on_step", "on_rollout_end", "on_training_end"])
def test_an_error_of_any_hook_says_whose_it_is(hook: str) -> None:
    def fail(self: Any, **kwargs: Any) -> bool:
        raise RuntimeError("mine")

    watch = type("Watch", (Callback,), {hook: fail})()
    with pytest.raises(RuntimeError, match="mine") as raised:
        PPO("CartPole-v1", callbacks=[watch], **SMALL).train(16)
    assert raised.value.__notes__ == ["raised by the callback Watch"]


@pytest.mark.parametrize("given", [{"patience": "3"}, {"patience": 0}, {"patience": True}])
def test_early_stopping_takes_a_whole_number_of_updates(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"^patience=.*: expected a whole number of at least 1$"):
        EarlyStoppingCallback(**given)


@pytest.mark.parametrize("given", [float("nan"), "0.1", None])
def test_early_stopping_takes_a_number_for_the_least_rise(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"^min_delta=.*: expected a number$"):
        EarlyStoppingCallback(min_delta=given)


@pytest.mark.parametrize("hook", ["on_training_start", "on_step", "on_rollout_end", "on_training_end"])
@pytest.mark.parametrize("again", ["train", "learn", "fit"])
def test_training_within_its_own_training_is_refused(hook: str, again: str) -> None:
    def train(self: Any, **kwargs: Any) -> bool:
        getattr(kwargs["algo"], again)(32)
        return True

    watch = type("Watch", (Callback,), {hook: train})()
    algorithm = PPO("CartPole-v1", callbacks=[watch], **SMALL)
    with pytest.raises(
        RloxError, match=r"^training is under way, .*; this call comes from within another"
    ) as raised:
        algorithm.train(16)
    assert "raised by the callback Watch" in raised.value.__notes__


def test_a_refused_training_within_training_changes_neither() -> None:
    told: list[str] = []

    class Tries(Callback):
        def on_step(self, **kwargs: Any) -> bool:
            try:
                kwargs["algo"].train(64)
            except RloxError as error:
                told.append(str(error))
            return True

    algorithm = PPO("CartPole-v1", callbacks=[Tries()], **SMALL)
    plain = PPO("CartPole-v1", **SMALL)
    assert algorithm.train(24) == plain.train(24)
    assert (len(told), algorithm.config.total_steps) == (3, 24)
    assert algorithm.train(32) == plain.train(32)


def test_a_refused_train_step_within_training_on_texts_changes_nothing() -> None:
    class Tries(Callback):
        def on_step(self, **kwargs: Any) -> bool:
            with pytest.raises(
                RloxError, match=r"^training is under way, .*; this call comes from within another"
            ):
                kwargs["algo"].train_step(PROMPTS[:1])
            return True

    def low(completions: Any) -> list[float]:
        return [float((row < 5).double().mean()) for row in completions]

    made, plain = (
        GRPO(TinyLM(), None, low, batch_size=2, learning_rate=0.1, callbacks=callbacks)
        for callbacks in (Tries(), None)
    )
    assert made.train(PROMPTS, n_epochs=2) == plain.train(PROMPTS, n_epochs=2)
    assert torch.equal(made.policy.table, plain.policy.table)
