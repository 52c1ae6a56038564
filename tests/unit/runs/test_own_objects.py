"""Tests wrappers and policies of users from Python: as objects, as paths, and after loading a checkpoint."""

from __future__ import annotations

import signal
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from helpers.user_code import TenthReward, small_net

from rlox.algorithms import A2C, PPO
from rlox.callbacks import Callback, CheckpointCallback, EarlyStoppingCallback, EvalCallback
from rlox.errors import ConfigError, RloxError
from rlox.policies import DiscretePolicy

SMALL: dict[str, Any] = {"n_envs": 2, "n_steps": 32, "batch_size": 32, "n_epochs": 1, "seed": 5}
PATH = "helpers.user_code:TenthReward"


class NarrowObs(gym.Wrapper[Any, Any, Any, Any]):
    """Has another observation space than CartPole."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)


def get_returns(algorithm: PPO) -> list[float]:
    return list(algorithm.recent.state()["returns"])


@pytest.mark.parametrize(
    "given",
    [
        [TenthReward],
        [partial(TenthReward, part=0.1)],
        [PATH],
        [{"name": PATH, "part": 0.1}],
        [lambda env: TenthReward(env)],
    ],
)
def test_reward_wrappers_change_the_learners_rewards_but_not_the_returns(given: Any) -> None:
    plain = PPO("CartPole-v1", env_backend="gymnasium", **SMALL)
    shaped = PPO("CartPole-v1", reward_wrappers=given, **SMALL)
    for algorithm in (plain, shaped):
        algorithm.train(64)
    assert get_returns(shaped) == get_returns(plain)  # both act alike in their first rollout
    rewards = shaped.source.last_batch()["rewards"]
    assert rewards.min() == rewards.max() == pytest.approx(0.1)
    assert shaped.evaluate(2).mean >= 1.0


def test_wrappers_are_around_the_environment_in_training_and_evaluation() -> None:
    algorithm = PPO("CartPole-v1", wrappers=[partial(TenthReward, part=2.0)], **SMALL)
    algorithm.train(64)
    assert all(value % 2 == 0 for value in get_returns(algorithm))
    assert algorithm.evaluate(1).mean % 2 == 0


def test_shaped_environments_go_on_in_mid_episode(tmp_path: Path) -> None:
    def make() -> PPO:
        return PPO("CartPole-v1", reward_wrappers=[PATH], **SMALL)

    whole, half = make(), make()
    assert half.source.resume_grade == "exact"
    whole.train(192)
    half.train(64)
    half.save(tmp_path / "half")
    again = PPO.from_checkpoint(tmp_path / "half", reward_wrappers=[PATH])
    again.train(192)
    assert get_returns(again) == get_returns(whole)


def test_loading_a_checkpoint_requires_the_users_wrappers_again(tmp_path: Path) -> None:
    PPO("CartPole-v1", wrappers=[TenthReward], **SMALL).save(tmp_path / "saved")
    with pytest.raises(ConfigError) as raised:
        PPO.from_checkpoint(tmp_path / "saved")
    assert str(raised.value) == ("env.wrappers=<TenthReward>: an object, which is not saved; give it again")
    again = PPO.from_checkpoint(tmp_path / "saved", wrappers=[TenthReward])
    assert isinstance(again.collector.env.envs[0], TenthReward)


def test_a_checkpoint_that_names_code_loads_with_trust_or_with_the_code_again(
    tmp_path: Path,
) -> None:
    policy = {"name": "helpers.user_code:small_net", "hidden": 4}
    trained = PPO("CartPole-v1", policy=policy, **SMALL)
    trained.train(64)
    trained.save(tmp_path / "saved")
    with pytest.raises(ConfigError) as raised:
        PPO.from_checkpoint(tmp_path / "saved")
    assert str(raised.value) == (
        f"{tmp_path / 'saved'} names code: algo.policy=helpers.user_code:small_net\n"
        "  a run folder is data: nothing it names is imported or looked up unless you say so\n"
        "  give it again (env_id=..., env_kwargs=..., policy=..., wrappers=...), or trust=True"
    )
    obs = [0.1, 0.2, 0.3, 0.4]
    module = small_net(gym.spaces.Box(-1, 1, (4,)), gym.spaces.Discrete(2), hidden=4)
    for again in ({"trust": True}, {"policy": policy}, {"policy": module}):
        assert PPO.from_checkpoint(tmp_path / "saved", **again).predict(obs) == trained.predict(obs)


def test_from_checkpoint_restores_callback_states(tmp_path: Path) -> None:
    def three() -> list[Any]:
        return [
            EarlyStoppingCallback(patience=50),
            EvalCallback(128, n_eval_episodes=1),
            CheckpointCallback(128, tmp_path / "kept"),
        ]

    first = three()
    algorithm = PPO("CartPole-v1", callbacks=first, **SMALL)
    algorithm.train(256)
    algorithm.save(tmp_path / "saved")
    second = three()
    PPO.from_checkpoint(tmp_path / "saved", callbacks=second)
    assert [callback.state() for callback in second] == [callback.state() for callback in first]
    assert first[1].eval_results and first[1].state()["evaluated"] == 2
    mixed = [
        EvalCallback(64),
        three()[0],
        EarlyStoppingCallback(patience=9),
    ]  # other callbacks, in another order
    PPO.from_checkpoint(tmp_path / "saved", callbacks=mixed)
    assert mixed[0].state() == first[1].state()
    assert mixed[1].state() == first[0].state()
    assert mixed[2].state() == EarlyStoppingCallback().state()


def test_training_that_cannot_go_on_exactly_says_so(tmp_path: Path) -> None:
    """The user's wrapper has no state that can be saved."""
    shaped: dict[str, Any] = {"reward_wrappers": [partial(gym.wrappers.TransformReward, func=abs)]}
    trained = PPO("CartPole-v1", **shaped, **SMALL)
    trained.train(64)
    trained.save(tmp_path / "saved")
    again = PPO.from_checkpoint(tmp_path / "saved", **shaped)
    told = "CartPole-v1: environments start new episodes: they cannot be saved"
    with pytest.warns(UserWarning, match=f"^{told}$"):
        again.train(128)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again.train(192)


def test_ctrl_c_stops_training_between_updates_and_the_run_resumes_exactly(tmp_path: Path) -> None:
    class Break(Callback):
        def on_rollout_end(self, **kwargs: Any) -> None:
            if kwargs["step"] == 128:
                signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    whole = PPO("CartPole-v1", **SMALL)
    whole.train(256)
    stopped = PPO("CartPole-v1", callbacks=Break(), **SMALL)
    with pytest.raises(KeyboardInterrupt):
        stopped.train(256)
    assert stopped.clock.now == 128
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stopped.save(tmp_path / "stopped")
    again = PPO.from_checkpoint(tmp_path / "stopped")
    again.train(256)
    vectors = [one.learner.optimizer.vector.tolist() for one in (whole, again)]
    assert vectors[0] == vectors[1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class RetrainingCallback(Callback):
    """Trains once more when training ends, and expects an error."""

    def on_training_end(self, **kwargs: Any) -> None:
        with pytest.raises(RloxError, match="training is under way"):
            kwargs["algo"].train(512)


@pytest.mark.parametrize("callbacks", [None, RetrainingCallback()], ids=["alone", "with a refused training"])
def test_saving_after_an_interrupted_update_warns_the_user(tmp_path: Path, callbacks: Any) -> None:
    algorithm = PPO("CartPole-v1", backend="torch", callbacks=callbacks, **SMALL)
    terms, steps = algorithm.learner._terms, iter(range(2))

    def broken(*given: Any) -> Any:
        next(steps)  # the third minibatch of the rollouts fails
        return terms(*given)

    algorithm.learner._terms = broken
    with pytest.raises((StopIteration, RuntimeError)):
        algorithm.train(256)
    with pytest.warns(UserWarning, match="interrupted in the middle of an update, at step 64: the weights"):
        algorithm.save(tmp_path / "half")


@pytest.mark.parametrize("told", [np.bool_(False), torch.tensor(False), 0])
def test_any_false_value_from_a_callback_stops_training(told: Any) -> None:
    class Stop(Callback):
        def on_step(self, **kwargs: Any) -> Any:
            return told

    algorithm = PPO("CartPole-v1", callbacks=Stop(), **SMALL)
    algorithm.train(256)
    assert algorithm.clock.now == 64


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"wrappers": [{"name": PATH, "part": lambda: 1}]},
            "env.wrappers[0].part: a function, expected a number, text, a list or a mapping; give an object "
            "with that argument, e.g. functools.partial(Wrapper, argument), or lambda: gym.make(...)",
        ),
        (
            {"env_kwargs": {"x": {1, 2}}},
            "env.kwargs.x: a set, expected a number, text, a list or a mapping; give an object with that "
            "argument, e.g. functools.partial(Wrapper, argument), or lambda: gym.make(...)",
        ),
        (
            {"reward_wrappers": [NarrowObs]},
            "env.reward_wrappers change the observation_space, and evaluations leave reward wrappers "
            "out; put the wrapper that does so into env.wrappers",
        ),
        ({"policy_kwargs": {}}, "unknown argument 'policy_kwargs' for ppo; here that is net_arch, "
                                "critic_net_arch and activation"),
        ({"tau": 0.1}, "unknown argument 'tau' for ppo; it belongs to cql, ddpg, dqn, iql, rainbow, sac, "
                       "td3, td3_bc, tqc"),
        ({"n_step": 3}, "unknown argument 'n_step' for ppo; it belongs to ddpg, dqn, rainbow, sac, td3, "
                        "tqc; "
                        "did you mean 'n_steps'?"),
    ],
)  # fmt: skip
def test_ppo_refuses_unsavable_and_unknown_arguments_at_construction(
    options: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        PPO("CartPole-v1", **options, **SMALL)
    assert str(raised.value) == told


def test_a_checkpoint_stores_numpy_numbers_of_wrapper_arguments(tmp_path: Path) -> None:
    given = [{"name": PATH, "part": np.float32(0.5)}]
    algorithm = PPO("CartPole-v1", reward_wrappers=given, **SMALL)
    algorithm.save(tmp_path / "saved")
    again = PPO.from_checkpoint(tmp_path / "saved", trust=True)
    assert again.config.env.reward_wrappers == ({"name": PATH, "part": 0.5},)


def test_a_class_of_a_policy_is_called_with_the_spaces(tmp_path: Path) -> None:
    algorithm = PPO("CartPole-v1", policy=small_net, **SMALL)
    algorithm.train(64)
    algorithm.save(tmp_path / "saved")
    again = PPO.from_checkpoint(tmp_path / "saved", policy=small_net)
    assert again.predict([0.1] * 4) == algorithm.predict([0.1] * 4)


class Subclass(DiscretePolicy):
    pass


@pytest.mark.parametrize("facade", [PPO, A2C])
@pytest.mark.parametrize("kind", [DiscretePolicy, Subclass])
def test_a_class_of_a_policy_of_rlox_is_refused_in_place_of_an_instance(
    facade: Any, kind: type[DiscretePolicy]
) -> None:
    name = kind.__name__
    told = rf"^policy={name}: a class .* expected an instance; give policy={name}\(obs_dim, "
    with pytest.raises(ConfigError, match=told):
        facade("CartPole-v1", policy=kind)


def test_network_settings_with_a_users_policy_cause_a_warning() -> None:
    told = "algo.net_arch, algo.activation: no effect with a policy of your own"
    with pytest.warns(UserWarning, match=f"^{told}$"):
        PPO("CartPole-v1", policy=small_net, net_arch=(7,), activation="relu", **SMALL)


def test_a_schedule_displaces_annealing_also_when_a_checkpoint_is_loaded(tmp_path: Path) -> None:
    PPO("CartPole-v1", anneal_lr=True, **SMALL).save(tmp_path / "first")
    changed = PPO.from_checkpoint(tmp_path / "first", schedules={"learning_rate": "lin_1e-2_1e-3"})
    assert changed.config.algo.at("learning_rate", 0.5) == pytest.approx(5.5e-3)
    changed.save(tmp_path / "second")
    again = PPO.from_checkpoint(tmp_path / "second")
    assert (again.config.algo.anneal_lr, again.config.algo.learning_rate) == (
        False,
        "lin_1e-2_1e-3",
    )


def test_python_arguments_resolve_variables_of_the_process_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_PART", "0.25")
    given = [{"name": PATH, "part": "${oc.env:TEST_PART}"}]
    algorithm = PPO("CartPole-v1", reward_wrappers=given, **SMALL)
    algorithm.train(64)
    assert algorithm.source.last_batch()["rewards"].max() == 0.25
    algorithm.save(tmp_path / "saved")
    assert "${oc.env:TEST_PART}" in (tmp_path / "saved" / "state.json").read_text()
    PPO.from_checkpoint(tmp_path / "saved", reward_wrappers=given)


@pytest.mark.parametrize("given", [0, -5, "10", 1.5, True])
def test_callbacks_take_whole_numbers(given: Any) -> None:
    for make in (
        lambda: EvalCallback(eval_freq=given),
        lambda: EvalCallback(n_eval_episodes=given),
        lambda: CheckpointCallback(given, "x"),
    ):
        with pytest.raises(ConfigError, match=r"expected a whole number of at least 1$"):
            make()


def test_from_checkpoint_validates_its_arguments_like_the_constructor(tmp_path: Path) -> None:
    PPO("CartPole-v1", **SMALL).save(tmp_path / "saved")
    for given, told in (
        ({"wrappers": ["rescale"]}, "env.wrappers\\[0\\]=rescale: expected one of"),
        ({"env_kwargs": {"x": {1}}}, "env.kwargs.x: a set, expected"),
        ({"policy": "nets"}, "algo.policy=nets: expected module:Name"),
        ({"schedules": {"learning_rate": -1.0}}, "learning_rate=-1.0: expected a value in"),
    ):
        with pytest.raises(ConfigError, match=told):
            PPO.from_checkpoint(tmp_path / "saved", **given)  # type: ignore[arg-type]
