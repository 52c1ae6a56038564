"""Tests that user code that changes its inputs or reuses its arrays trains to the same bits."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from helpers.factored_actions import SPACES
from helpers.mutating_envs import MutatingEnv, make_mutating
from helpers.selection import each_value_once
from torch import nn

from rlox.algorithms import A2C, DQN, PPO, SAC, TD3, RecurrentPPO
from rlox.algorithms.dqn import learner as torch_dqn
from rlox.algorithms.sac import learner as torch_sac
from rlox.algorithms.td3 import learner as torch_td3
from rlox.callbacks import Callback
from rlox.envs.actions import ActionCodec
from rlox.envs.base import copy_info
from rlox.policies import ActorCritic, DiscretePolicy
from rlox.runs.record import record

ROLLOUT_SETTINGS: dict[str, Any] = {"n_envs": 2, "n_steps": 8, "net_arch": (8,), "seed": 3}
REPLAY_SETTINGS: dict[str, Any] = {
    "n_envs": 2, "learning_starts": 16, "batch_size": 8, "buffer_size": 64, "net_arch": (8,), "seed": 3,
}  # fmt: skip
SETTINGS: dict[Any, dict[str, Any]] = {
    PPO: {**ROLLOUT_SETTINGS, "n_epochs": 2, "batch_size": 8},
    A2C: ROLLOUT_SETTINGS,
    RecurrentPPO: {**ROLLOUT_SETTINGS, "n_epochs": 1, "batch_size": 8, "lstm_hidden_size": 8},
    DQN: REPLAY_SETTINGS,
    SAC: REPLAY_SETTINGS,
}
TOTAL_STEPS = 48
VECTORIZATIONS = ("sync", "subprocess", *AutoresetMode)
MASKS = ("none", "info", "method", "observation")
ACTION_CODECS = {
    name: ActionCodec.of(space) for name, space in SPACES.items() if name not in ("Text", "DictWithSequence")
}
BOX_SPACES = ("Box", "BoxGrid", "BoxWhole", "BoxSingle", "DictOfBoxes")
DISCRETE_SPACES = ("Discrete", "DiscreteFromFive")
SPACES_BY_ALGORITHM: dict[Any, tuple[str, ...]] = {
    DQN: DISCRETE_SPACES,
    SAC: (*DISCRETE_SPACES, *BOX_SPACES),
}
MASKING_ALGORITHMS = (PPO, A2C, DQN)


def is_supported(facade: Any, space: str, vectorization: Any, mask: str) -> bool:
    """Whether the algorithm supports the space with that vectorization and mask."""
    if space not in SPACES_BY_ALGORITHM.get(facade, ACTION_CODECS):
        return False
    has_no_mask = (vectorization, mask) == (
        AutoresetMode.SAME_STEP,
        "method",
    )  # the last state of an episode has no mask there
    return mask == "none" or (
        facade in MASKING_ALGORITHMS and bool(ACTION_CODECS[space].choices) and not has_no_mask
    )


CASES = [case for case in product(SETTINGS, ACTION_CODECS, VECTORIZATIONS, MASKS) if is_supported(*case)]


def train(
    facade: Any, space: str, vectorization: Any, mask: str, is_safe: bool, **extra_settings: Any
) -> Any:
    """Train briefly and return the weights, the returns and the infos of the episodes."""
    infos: list[Any] = []
    is_single_env = isinstance(vectorization, str)
    source: Any = (
        partial(MutatingEnv, space, mask, is_safe)
        if is_single_env
        else lambda num_envs: make_mutating(num_envs, space, mask, is_safe, vectorization)
    )
    options = {"action_mask": mask, **({"workers": vectorization} if is_single_env else {})}
    algorithm = facade(
        source, callbacks=[InfoCollector(infos)], **SETTINGS[facade], **options, **extra_settings
    )
    algorithm.train(TOTAL_STEPS)
    weights = {name: w.numpy().tobytes() for name, w in algorithm.policy.state_dict().items()}
    outcome = weights, algorithm.recent.state(), infos
    algorithm.close()
    return outcome


class InfoCollector(Callback):
    """Collects the infos of the finished episodes."""

    def __init__(self, infos: list[Any]) -> None:
        self.infos = infos

    def on_rollout_end(self, **kwargs: Any) -> None:
        self.infos += [to_plain(episode.info) for episode in kwargs["episodes"]]


def to_plain(value: Any) -> Any:
    """Replace the arrays of an info by lists, which compare by value."""
    if isinstance(value, dict):
        return {key: to_plain(part) for key, part in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def test_the_campaign_has_two_hundred_cases() -> None:
    assert len(CASES) >= 200


@pytest.mark.parametrize(("facade", "space", "place", "mask"), each_value_once(CASES))
def test_environments_that_mutate_arrays_train_to_the_same_bits(
    facade: Any, space: str, place: Any, mask: str
) -> None:
    polite = train(facade, space, place, mask, True)
    assert train(facade, space, place, mask, False) == polite
    assert polite[2]


@pytest.mark.parametrize("repeats", [{"action_repeat": 2}, {"repeat_action_probability": 0.5}])
@pytest.mark.parametrize("space", ["Box", "Nested"])
def test_action_repeats_use_the_original_action_after_mutation(repeats: dict[str, Any], space: str) -> None:
    polite = train(PPO, space, "sync", "none", True, **repeats)
    assert train(PPO, space, "sync", "none", False, **repeats) == polite


@pytest.mark.parametrize("space", ["Discrete", "MultiDiscrete", "Box", "Nested"])
def test_a_dataset_has_the_actions_that_an_environment_was_given(space: str) -> None:
    columns = []
    for polite in (True, False):
        source = partial(MutatingEnv, space, is_safe=polite)
        made = PPO(source, **SETTINGS[PPO])
        columns.append(dict(record(made, 3, deterministic=False, env=source).columns))
        made.close()
    for name, column in columns[0].items():
        np.testing.assert_array_equal(columns[1][name], column, err_msg=name)


class InPlacePolicy(nn.Module):
    """A policy that scales its observations, in place or in a copy."""

    def __init__(self, is_safe: bool) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.wrapped_policy, self.is_safe = DiscretePolicy(3, 3, net_arch=(8,)), is_safe

    def scale(self, obs: torch.Tensor) -> torch.Tensor:
        return obs / 3 if self.is_safe else obs.div_(3)

    def get_action_and_logprob(self, obs: torch.Tensor) -> Any:
        return self.wrapped_policy.get_action_and_logprob(self.scale(obs))

    def get_value(self, obs: torch.Tensor) -> Any:
        return self.wrapped_policy.get_value(self.scale(obs))

    def get_logprob_and_entropy(self, obs: torch.Tensor, actions: torch.Tensor) -> Any:
        return self.wrapped_policy.get_logprob_and_entropy(self.scale(obs), actions)

    def mode(self, obs: torch.Tensor) -> Any:
        return self.wrapped_policy.mode(self.scale(obs))


class InPlaceActorCritic(InPlacePolicy, ActorCritic):
    """The same as an rlox ActorCritic, with the methods that only this class has."""

    def sampler(self, n_steps: int, n_envs: int, generator: torch.Generator) -> Any:
        sample = self.wrapped_policy.sampler(n_steps, n_envs, generator)
        return lambda obs, t: sample(self.scale(obs), t)

    def evaluate_actions(self, obs: torch.Tensor, actions: torch.Tensor) -> Any:
        return self.wrapped_policy.evaluate_actions(self.scale(obs), actions)

    def get_action_and_logprob(self, obs: torch.Tensor, generator: Any = None) -> Any:
        return self.wrapped_policy.get_action_and_logprob(self.scale(obs), generator)

    def get_value(self, obs: torch.Tensor) -> Any:
        return self.wrapped_policy.get_value(self.scale(obs))

    def mode(self, obs: torch.Tensor) -> Any:
        return self.wrapped_policy.mode(self.scale(obs))


class InPlaceDiscretePolicy(DiscretePolicy):
    """An rlox policy with some changed methods."""

    def __init__(self, is_safe: bool) -> None:
        torch.manual_seed(5)
        super().__init__(3, 3, net_arch=(8,))
        self.is_safe = is_safe

    def sampler(self, n_steps: int, n_envs: int, generator: torch.Generator) -> Any:
        sample = super().sampler(n_steps, n_envs, generator)
        return lambda obs, t: sample(obs / 3 if self.is_safe else obs.div_(3), t)

    def evaluate_actions(self, obs: torch.Tensor, actions: torch.Tensor) -> Any:
        return super().evaluate_actions(obs / 3 if self.is_safe else obs.div_(3), actions)


@pytest.mark.parametrize("kind", [InPlacePolicy, InPlaceActorCritic, InPlaceDiscretePolicy])
@pytest.mark.parametrize("facade", [PPO, A2C])
def test_policies_that_scale_observations_in_place_learn_the_same(facade: Any, kind: Any) -> None:
    found = []
    settings = {key: value for key, value in SETTINGS[facade].items() if key != "net_arch"}
    for polite in (True, False):
        made = facade(partial(MutatingEnv, "Discrete"), policy=kind(polite), **settings)
        made.train(TOTAL_STEPS)
        weights = [p.detach().numpy().tobytes() for p in made.policy.parameters()]
        found.append((weights, made.evaluate(3).returns))
        made.close()
    assert found[0] == found[1]


def make_scaling_class(base_class: type[Any], names: tuple[str, ...], is_safe: bool) -> type[Any]:
    """Return a subclass of an rlox policy whose named methods scale observations, in place or in a copy."""

    def make_scaled(name: str) -> Any:
        def method(self: Any, obs: torch.Tensor, *args: Any) -> Any:
            scaled_obs = obs / 3 if is_safe else obs.div_(3)
            return getattr(base_class, name)(self, scaled_obs, *args)

        return method

    def action_values(self: Any, critic: Any, obs: torch.Tensor, actions: torch.Tensor) -> Any:
        scaled_obs = obs / 3 if is_safe else obs.div_(3)
        return base_class.action_values(self, critic, scaled_obs, actions / 2 if is_safe else actions.div_(2))

    methods: dict[str, Any] = {name: make_scaled(name) for name in names}
    methods |= (
        {"action_values": action_values}
        if hasattr(base_class, "action_values")
        else {"inference_values": lambda self: self}
    )
    return type("Own", (base_class,), {**methods, "__module__": __name__})


@pytest.mark.parametrize(
    ("facade", "space", "module", "kind", "names"),
    [
        (DQN, "Discrete", torch_dqn, "QPolicy", ("forward", "trace")),
        (SAC, "Box", torch_sac, "SquashedSACPolicy", ("mode", "sample", "draw")),
        (TD3, "Box", torch_td3, "DeterministicPolicy", ("mode", "act")),
    ],
)
def test_off_policy_policies_that_scale_rows_in_place_learn_the_same(
    facade: Any, space: str, module: Any, kind: str, names: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, rlox_kind = [], getattr(module, kind)
    for polite in (True, False):
        monkeypatch.setattr(module, kind, make_scaling_class(rlox_kind, names, polite))
        made = facade(partial(MutatingEnv, space), backend="torch", **REPLAY_SETTINGS)
        made.train(TOTAL_STEPS)
        weights = [p.detach().numpy().tobytes() for p in made.policy.parameters()]
        drawn = made.source.replay_sampler.buffer.sample(64, 0)
        found.append((weights, drawn["obs"].tobytes(), made.evaluate(3).returns))
        actor = made.components.actor
        rows = np.ones((2, actor.observations.input_dim), np.float32)
        with actor.inference_mode():
            for generator in (None, torch.Generator().manual_seed(1)):
                actor.act(rows, generator)
        assert (rows == 1).all()
        made.close()
    assert found[0] == found[1]


class ClearingCallback(Callback):
    """Clears the objects that it receives."""

    def on_step(self, **kwargs: Any) -> bool:
        kwargs["metrics"].clear()
        for episode in kwargs["episodes"]:
            episode.info["path"][:] = -1
            episode.info.clear()
        return True

    def on_rollout_end(self, **kwargs: Any) -> None:
        kwargs["metrics"].clear()


def test_a_callback_that_clears_its_arguments_does_not_affect_the_next() -> None:
    told: list[Any] = []

    class Keeps(InfoCollector):
        def on_step(self, **kwargs: Any) -> bool:
            told.append(kwargs["metrics"]["mean_reward"])
            return True

    runs = []
    for before in ([], [ClearingCallback()]):
        infos: list[Any] = []
        made = PPO(partial(MutatingEnv, "Box"), callbacks=[*before, Keeps(infos)], **SETTINGS[PPO])
        made.train(TOTAL_STEPS)
        runs.append((infos, told[:], made.recent.state()))
        told.clear()
        made.close()
    assert runs[0] == runs[1]
    assert runs[0][0][0]["path"]


def test_a_copied_info_shares_no_container_or_array_with_the_environment() -> None:
    info = {
        "path": np.arange(3),
        "parts": [{"t": (np.ones(2), 4)}],
        "text": "a",
        "object": MutatingEnv,
    }
    kept = copy_info(info)
    info["path"][:] = 9
    info["parts"][0]["t"][0][:] = 9
    info["parts"].append(1)
    assert kept["path"].tolist() == [0, 1, 2]
    assert kept["parts"][0]["t"][0].tolist() == [1.0, 1.0]
    assert len(kept["parts"]) == 1
    assert kept["object"] is MutatingEnv
