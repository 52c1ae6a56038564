"""Tests that configurations check names, types, ranges and choices of plain data, and have plain defaults."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError, fields
from fractions import Fraction
from typing import Any

import pytest

from rlox.configs import (
    ALGO_CONFIGS,
    BUFFER_CONFIGS,
    LOGGER_CONFIGS,
    EnvConfig,
    PPOConfig,
    RunConfig,
    make,
    make_run,
    to_plain,
    upgrade_saved_config,
)
from rlox.configs.check import check_integer
from rlox.configs.name_suggestions import near_names
from rlox.configs.params import is_inside, parse_interval
from rlox.errors import ConfigError, UnknownNameError
from rlox.training.setup import config_from_arguments


def make_config(**changes: Any) -> RunConfig:
    return make_run({"algo": {"name": "ppo"}, **changes})


def test_the_defaults_of_ppo_are_the_fixed_ones() -> None:
    assert to_plain(PPOConfig()) == {
        "name": "ppo", "n_steps": 256, "n_epochs": 10, "batch_size": 64, "learning_rate": 3e-4,
        "anneal_lr": False, "gamma": 0.99, "gae_lambda": 0.95, "clip_eps": 0.2,
        "anneal_clip": False, "clip_vloss": False, "normalize_advantages": True, "vf_coef": 0.5,
        "ent_coef": 0.0, "max_grad_norm": 0.5, "target_kl": None, "net_arch": [64, 64],
        "critic_net_arch": None, "policy": None, "encoder": "auto", "encoder_features": None,
        "image_channels": "auto", "share_encoder": True, "activation": "tanh", "ortho_init": True,
        "log_std_init": 0.0, "use_sde": False, "sde_sample_freq": -1, "backend": "auto",
    }  # fmt: skip


def test_the_defaults_of_a_run_are_the_fixed_ones() -> None:
    found = to_plain(make_config())
    assert {k: found[k] for k in ("seed", "total_steps", "device", "run_root", "dry_run")} == {
        "seed": 0, "total_steps": 100_000, "device": "auto", "run_root": "runs", "dry_run": False,
    }  # fmt: skip
    assert found["eval"] == {
        "every": 0, "episodes": 50, "seed": 100_000, "n_envs": None, "reuse_env": False, "max_steps": None
    }  # fmt: skip
    assert (found["checkpoint"]["every"], found["checkpoint"]["keep"]) == (50_000, 2)
    assert (found["log"]["every"], found["env"]["id"], found["env"]["n_envs"]) == (2048, "CartPole-v1", 8)
    assert found["stop"] == {"score": None, "minutes": None}


def test_a_configuration_survives_being_written_as_plain_data() -> None:
    made = make_config(
        env={"id": "Pendulum-v1", "kwargs": {"g": 9.0}, "wrappers": ["rescale_action"]},
        logger={"csv": {"name": "csv"}},
        stop={"score": -200},
    )
    assert make_run(to_plain(made)) == made


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        ({"algo": {"name": "ppo", "clip_range": 0.1}}, "unknown key 'algo.clip_range'"),
        ({"algo": {"name": "ppo", "n_step": 1}}, "did you mean 'algo.n_steps'"),
        ({"env": {"num_envs": 4}}, "did you mean 'env.n_envs'"),
        ({"total_step": 4}, "did you mean 'total_steps'"),
        ({"eval": {"evry": 4}}, "unknown key 'eval.evry'"),
        (
            {"algo": {"name": "pp0"}},
            f"expected one of {', '.join(ALGO_CONFIGS)}; did you mean 'ppo'",
        ),
        ({"algo": {}}, "algo.name='' is not known"),
        ({"logger": {"x": {"name": "cvs"}}}, "logger.x.name='cvs' .* did you mean 'csv'"),
        ({"algo": "ppo"}, "algo='ppo': expected a group of keys"),
        ({"env": {"n_envs": "four"}}, "env.n_envs='four': expected an integer"),
        ({"env": {"n_envs": 2.5}}, "env.n_envs=2.5: expected an integer"),
        ({"env": {"n_envs": True}}, "env.n_envs=True: expected an integer"),
        ({"env": {"n_envs": 0}}, r"env.n_envs=0: expected a value in \[1, "),
        ({"env": {"backend": "nativ"}}, "env.backend=nativ: expected one of .*did you mean 'native'"),
        ({"env": {"wrappers": ["flaten_observation"]}}, "did you mean 'flatten_observation'"),
        ({"env": {"wrappers": "rescale_action"}}, "expected a list"),
        ({"env": {"normalize_obs": 1}}, "expected true or false"),
        ({"env": {"kwargs": [1]}}, "expected a group of keys"),
        ({"algo": {"name": "ppo", "net_arch": [64, 0]}}, r"algo.net_arch\[1\]=0: expected a value in"),
        ({"algo": {"name": "ppo", "net_arch": [64, 1.5]}}, r"algo.net_arch\[1\]=1.5"),
        ({"algo": {"name": "ppo", "gamma": float("nan")}}, "algo.gamma=nan"),
        ({"algo": {"name": "ppo", "vf_coef": float("inf")}}, "algo.vf_coef=inf"),
        ({"algo": {"name": "ppo", "n_steps": float("inf")}}, "expected an integer"),
        ({"algo": {"name": "ppo", "net_arch": []}}, "algo.net_arch is empty"),
        ({"algo": {"name": "ppo", "critic_net_arch": []}}, "algo.critic_net_arch is empty"),
        (
            {"algo": {"name": "ppo", "net_arch": {"pi": [8], "vf": [9]}}},
            "expected a list, .*; those of the critic alone are algo.critic_net_arch",
        ),
        ({"seed": -1}, "seed=-1: expected a value in"),
        ({"total_steps": 0}, "total_steps=0"),
        ({"stop": {"minutes": 0}}, "stop.minutes=0"),
        ({"stop": {"score": float("nan")}}, "stop.score=nan"),
        ({"stop": {"score": float("inf")}}, "stop.score=inf"),
        ({"env": {"reward_scale": float("nan")}}, "env.reward_scale=nan"),
    ],
)  # fmt: skip
def test_make_run_refuses_invalid_keys_and_values_and_names_the_remedy(
    tree: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        make_run({"algo": {"name": "ppo"}, **tree})


def test_a_rollout_of_one_step_cannot_be_standardised() -> None:
    algo = {"name": "ppo", "n_steps": 1}
    with pytest.raises(ConfigError, match="cannot be standardised"):
        make_config(algo=algo, env={"n_envs": 1})
    assert make_config(algo={**algo, "normalize_advantages": False}, env={"n_envs": 1}).env.n_envs == 1


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        (
            {"algo": {"name": "a2c", "use_rms_prop": False, "rms_prop_tf_like": True}},
            "rms_prop_tf_like=true and algo.use_rms_prop=false",
        ),
        (
            {"algo": {"name": "dqn"}, "buffer": {"name": "uniform", "hindsight_k": 8}},
            "hindsight_k=8 without buffer.hindsight",
        ),
        (
            {
                "algo": {"name": "dqn"},
                "buffer": {"name": "auto", "capacity": 3},
                "env": {"n_envs": 8},
            },
            "buffer.capacity=3 and env.n_envs=8",
        ),
        (
            {"algo": {"name": "ppo"}, "env": {"id": "CartPole-v1", "atari": {"stack": 2}}},
            "env.atari.stack=2: CartPole-v1 is no game .* leave it out",
        ),
        (
            {
                "algo": {"name": "ppo"},
                "env": {"id": "ALE/Pong-v5", "atari": {"preprocess": False, "life_loss": False}},
            },
            "env.atari.preprocess=False, env.atari.life_loss=False: without preprocessing no other key",
        ),
    ],
)
def test_a_key_that_would_do_nothing_beside_another_is_refused(tree: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make_run(tree)


def test_the_same_keys_are_taken_where_they_do_something() -> None:
    trees: list[dict[str, Any]] = [
        {"algo": {"name": "a2c", "rms_prop_tf_like": True}},
        {"algo": {"name": "a2c", "use_rms_prop": False}},
        {"buffer": {"name": "uniform", "hindsight": "final", "hindsight_k": 8}},
        {"buffer": {"name": "auto", "capacity": 8}, "env": {"n_envs": 8}},
        {"env": {"id": "my_pkg:ALE/Pong-v5", "atari": {"stack": 2}}},
        {"env": {"id": "ALE/Pong-v5", "atari": {"preprocess": False}}},
    ]
    for tree in trees:
        made = to_plain(make_run({"algo": {"name": "dqn"}, **tree}))
        for group in ("algo", "buffer"):
            given = {k: v for k, v in tree.get(group, {}).items() if v != "auto"}
            assert made[group] == made[group] | given


@pytest.mark.parametrize(
    ("algo", "n_envs", "total", "learns"),
    [
        ({"learning_starts": 100, "train_freq": 1}, 1, 100, False),
        ({"learning_starts": 100, "train_freq": 1}, 1, 101, True),
        ({"learning_starts": 500, "train_freq": 1}, 1, 100, False),
        ({"learning_starts": 100, "train_freq": 16}, 1, 111, False),  # the next training would be at step 112
        ({"learning_starts": 100, "train_freq": 16}, 1, 112, True),
        ({"learning_starts": 100, "train_freq": 16}, 8, 105, True),  # the total is rounded up to 112
        ({"learning_starts": 0, "train_freq": 1, "replay_ratio": 0.01}, 1, 99, False),
        ({"learning_starts": 0, "train_freq": 1, "replay_ratio": 0.01}, 1, 100, True),
    ],
)
def test_make_run_refuses_a_new_run_that_would_never_learn(
    algo: dict[str, Any], n_envs: int, total: int, learns: bool
) -> None:
    tree = {"algo": {"name": "dqn", **algo}, "env": {"n_envs": n_envs}, "total_steps": total}
    assert make_run(tree).total_steps == total  # valid for a saved run, which may have stopped there
    if learns:
        make_run(tree, is_new_run=True)
    else:
        with pytest.raises(ConfigError, match=r"learning_starts.*nothing would be learned"):
            make_run(tree, is_new_run=True)


def test_integral_floats_and_integers_convert_to_the_fields_type() -> None:
    made = make_config(total_steps=2e6, stop={"score": 475})
    assert (made.total_steps, type(made.total_steps)) == (2_000_000, int)
    assert type(made.stop.score) is float


def test_config_dataclasses_refuse_assignment_to_their_fields() -> None:
    with pytest.raises(FrozenInstanceError):
        EnvConfig().n_envs = 2  # type: ignore[misc]


OPTIONS = [*ALGO_CONFIGS.values(), *BUFFER_CONFIGS.values(), *LOGGER_CONFIGS.values()]


@pytest.mark.parametrize("cls", [*OPTIONS, EnvConfig, RunConfig])
def test_every_field_says_what_it_means_and_its_default_is_allowed(cls: type) -> None:
    for f in fields(cls):
        assert f.metadata["doc"] or f.name in ("id",), f.name
        default, within, choices = f.default, f.metadata["within"], f.metadata["choices"]
        for value in default if isinstance(default, tuple) else (default,):
            assert not within or value is None or is_inside(value, within), f.name
            assert not choices or value is None or value in choices, f.name


def test_intervals_are_open_or_closed_at_either_end() -> None:
    assert parse_interval("(0, 1]") == (True, 0.0, 1.0, False)
    assert [is_inside(x, "(0, 1]") for x in (0.0, 0.5, 1.0, 1.5)] == [False, True, True, False]
    assert [is_inside(x, "[-1, inf)") for x in (-1, 1e300, float("inf"))] == [True, True, False]
    with pytest.raises(ValueError, match="not an interval"):
        parse_interval("0..1")


def test_make_names_an_unknown_key_without_a_path() -> None:
    with pytest.raises(ConfigError, match="unknown key 'envs'"):
        make(EnvConfig, {"envs": 3})
    with pytest.raises(UnknownNameError):
        make_config(algo={"name": "sarsa"})


@pytest.mark.parametrize(
    ("tree", "scheduled"),
    [
        ({"algo": {"name": "ppo", "anneal_lr": False, "anneal_clip": False}}, False),
        ({"algo": {"name": "ppo", "anneal_lr": False, "anneal_clip": True}}, True),
        ({"algo": {"name": "dqn"}}, True),  # epsilon has a schedule
        ({"algo": {"name": "dqn", "exploration_initial_eps": 0.05}}, False),
        (
            {
                "algo": {"name": "dqn", "exploration_initial_eps": 0.05},
                "buffer": {"name": "prioritized"},  # beta has a schedule
            },
            True,
        ),
    ],
)
def test_a_configuration_says_whether_a_larger_total_stretches_something(
    tree: dict[str, Any], scheduled: bool
) -> None:
    run = make_run({"env": {"id": "CartPole-v1"}, "total_steps": 100, **tree})
    assert (run.algo.has_schedule or run.buffer.has_schedule) == scheduled


NAMES = (
    "algo.name", "algo.gamma", "algo.gae_lambda", "algo.n_epochs", "algo.vf_coef", "algo.net_arch",
    "ppo", "elu", "relu", "gelu", "CartPole-v0", "CartPole-v1", "Ant-v5", "ALE/Pong-v5",
    "HalfCheetah-v4", "HalfCheetah-v5", "buffer.name",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("algo.gama", ["algo.gamma"]),  # names of the same group are not near for that reason
        ("algo.epochs", ["algo.n_epochs"]),
        ("algo.lam", ["algo.gae_lambda"]),
        ("algo.afch", ["algo.net_arch"]),
        ("algo.foo", []),
        ("algo.tau", []),
        ("buffer_size", []),
        ("relux", ["relu"]),  # the other names are much less similar
        ("PPO", ["ppo"]),
        ("cartpole", ["CartPole-v1", "CartPole-v0"]),
        ("HalfCheeta-v4", ["HalfCheetah-v4", "HalfCheetah-v5"]),
        ("Pong-v5", ["ALE/Pong-v5"]),  # and not Ant-v5, which has the same version
        ("Zoo-v5", []),
    ],
)
def test_a_name_that_is_suggested_is_near(name: str, near: list[str]) -> None:
    assert near_names(name, NAMES) == near


@pytest.mark.parametrize("key", ["n_envs", "max_steps", "reuse_env"])
def test_a_text_run_refuses_evaluation_settings_of_environments(key: str) -> None:
    text = {"algo": {"name": "sft"}, "env": {"id": "text/copy", "n_envs": 1}, "task": "copy"}
    with pytest.raises(ConfigError, match=rf"eval\.{key}=.* play no episodes"):
        make_run({**text, "eval": {key: True if key == "reuse_env" else 3}})


def test_make_run_refuses_an_obsolete_key_and_upgrade_saved_config_drops_it() -> None:
    saved = {"algo": {"name": "ppo", "inference": "torch"}, "seed": 3}
    with pytest.raises(ConfigError, match=r"unknown key 'algo\.inference'"):
        make_run(saved)
    assert upgrade_saved_config(saved) == {"algo": {"name": "ppo"}, "seed": 3}
    assert make_run(upgrade_saved_config(saved)).seed == 3


@pytest.mark.parametrize("key", ["normalize_obs", "normalize_reward"])
def test_upgrade_saved_config_adds_the_rules_of_old_runs(key: str) -> None:
    saved = {"algo": {"name": "ppo"}, "env": {key: True}}
    env = make_run(upgrade_saved_config(saved)).env
    assert (env.seeding, env.normalize_rule) == ("long", "sb3")
    said = {"env": {key: True, "seeding": "offset", "normalize_rule": "relative"}}
    assert upgrade_saved_config(said) == said


def test_upgrade_saved_config_keeps_the_default_rule_without_normalisation() -> None:
    saved = to_plain(make_run({"algo": {"name": "bc"}, "env": {"n_envs": 1}}))
    del saved["env"]["seeding"], saved["env"]["normalize_rule"]
    env = make_run(upgrade_saved_config(saved)).env
    assert (env.seeding, env.normalize_rule) == ("long", "relative")


def test_long_seeding_keeps_an_environment_native() -> None:
    assert EnvConfig(seeding="long").gymnasium_only == ()
    assert EnvConfig(seeding="long", reward_scale=2.0).gymnasium_only == ("env.reward_scale",)
    assert EnvConfig(seeding="offset").gymnasium_only == ("env.seeding",)


def test_make_run_refuses_a_small_delta_and_upgrade_saved_config_raises_it() -> None:
    saved = to_plain(make_run({"algo": {"name": "grpo"}, "env": {"id": "text"}, "task": "copy"}))
    for key, high, end in (("algo.clip_eps", None, 1.2), ("algo.clip_eps_high", 0.3, 1.3)):
        saved["algo"] |= {"delta": 1.1, "clip_eps_high": high}
        with pytest.raises(ConfigError, match=rf"algo.delta=1.1 is below 1 \+ {key} = {end}, .* or null"):
            make_run(saved)
        algo: Any = make_run(upgrade_saved_config(saved)).algo
        assert algo.delta == end
    saved["algo"]["delta"] = 2.0
    assert upgrade_saved_config(saved)["algo"] == saved["algo"]


@pytest.mark.parametrize(
    "forged",
    [
        {"delta": "x"},
        {"delta": [1]},
        {"delta": True},
        {"delta": 1.1, "clip_eps": "x"},
        {"delta": 1.1, "clip_eps_high": 10**400},
    ],
)
def test_a_saved_delta_that_is_no_number_is_refused_by_its_name(forged: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^algo\.(delta|clip_eps)"):
        make_run(upgrade_saved_config({"algo": {"name": "grpo", **forged}, "env": {"id": "text"}}))


HUGE_NUMBER = 10**400  # `float` takes 309 digits, `str` 4300


@pytest.mark.parametrize(
    "value",
    [HUGE_NUMBER, -HUGE_NUMBER, 10**5000, Fraction(HUGE_NUMBER)],
    ids=["400", "negative", "5000", "fraction"],
)
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("total_steps", "[1, inf)"),
        ("seed", "[0, 9007199254740991]"),
        ("stop.score", "(-inf, inf)"),
        ("algo.n_steps", "[1, inf)"),
        ("algo.learning_rate", "(0, inf)"),
        ("algo.net_arch", "[1, 65536]"),
        ("env.step_timeout", "(0, inf)"),
        ("env.id", "a smaller one"),
    ],
)
def test_a_number_too_large_for_a_float_is_refused_with_its_key_and_range(
    key: str, expected: str, value: Any
) -> None:
    group, _, name = key.rpartition(".")
    given = [value] if name == "net_arch" else value
    tree = {group: {name: given}} if group else {name: given}
    if group == "algo":
        tree["algo"]["name"] = "ppo"
    told = rf"^{key}: got a number of more than 309 digits, expected .*{re.escape(expected)}"
    with pytest.raises(ConfigError, match=told):
        make_run({"algo": {"name": "ppo"}, **tree})


def test_an_argument_of_a_facade_too_large_for_a_float_is_refused_with_its_range() -> None:
    told = r"^total_timesteps: got a number of more than 309 digits, expected a value in \[1, inf\)"
    with pytest.raises(ConfigError, match=told):
        check_integer(RunConfig, "total_steps", HUGE_NUMBER, "total_timesteps")
    told = r"^algo\.n_steps: got a number of more than 309 digits, expected a value in \[1, inf\)"
    with pytest.raises(ConfigError, match=told):
        config_from_arguments("ppo", "CartPole-v1", {"n_steps": HUGE_NUMBER})


def test_an_integer_that_a_float_would_round_is_kept() -> None:
    assert make_config(total_steps=2**62 + 1).total_steps == 2**62 + 1
