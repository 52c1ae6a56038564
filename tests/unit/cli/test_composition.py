"""Tests that presets override the dataclasses' defaults, and that the command line overrides both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.cli import Cli, assert_explained, only_run
from hydra._internal.hydra import Hydra
from omegaconf import OmegaConf

from rlox.algorithms import PPO
from rlox.configs import EnvConfig, PPOConfig, RunConfig, make_run, to_plain
from rlox_cli.config.options import conf_folders, group_options


def composed(cli: Cli, *overrides: str) -> dict[str, Any]:
    result = cli("train", "--cfg", "job", *overrides)
    assert result.code == 0, result.err
    data = OmegaConf.to_container(OmegaConf.create(result.out))
    assert isinstance(data, dict)
    return {str(k): v for k, v in data.items()}


def test_without_a_preset_the_defaults_are_those_of_the_dataclasses(cli: Cli) -> None:
    expected = {k: v for k, v in to_plain(RunConfig()).items() if k != "resume"}
    assert composed(cli, "tuned=null") == expected


def test_the_tuned_preset_of_the_pair_is_applied(cli: Cli) -> None:
    data = composed(cli, "env=Acrobot-v1")
    assert data["env"]["n_envs"] == 16
    assert data["env"]["normalize_obs"] is True
    assert data["algo"]["gae_lambda"] == 0.94
    assert data["total_steps"] == 1_000_000


def test_an_environment_without_a_preset_gets_the_defaults(cli: Cli) -> None:
    data = composed(cli, "env=FrozenLake-v1")
    assert data["algo"] == to_plain(PPOConfig())
    assert data["env"] == to_plain(EnvConfig(id="FrozenLake-v1"))
    assert data["total_steps"] == 100_000


def test_the_preset_of_another_environment_can_be_chosen(cli: Cli) -> None:
    data = composed(cli, "env=FrozenLake-v1", "tuned=ppo/MountainCar-v0")
    assert data["env"]["id"] == "FrozenLake-v1"
    assert data["algo"]["gae_lambda"] == 0.98


@pytest.mark.parametrize("order", [1, -1])
def test_the_command_line_wins_over_the_preset(cli: Cli, order: int) -> None:
    given = ["env=Acrobot-v1", "total_steps=5e3", "algo.gae_lambda=0.5", "env.n_envs=2"][::order]
    config = make_run(composed(cli, *given))
    assert (config.total_steps, config.algo.gae_lambda, config.env.n_envs) == (5000, 0.5, 2)
    assert config.algo.n_epochs == 4


def test_auto_as_target_entropy_means_null(cli: Cli) -> None:
    of = ("algo=sac", "env=Pendulum-v1")
    config = make_run(composed(cli, *of, "algo.target_entropy=auto"))
    assert config.algo.target_entropy is None
    assert config == make_run(composed(cli, *of))
    refused = cli("train", *of, "algo.target_entropy=automatic")
    assert refused.code == 2
    assert "algo.target_entropy='automatic': expected a number; null or auto:" in refused.err


# DQN's preset for CartPole-v1 sets the capacity and the gradient steps.
DISPLACED = [
    ("buffer.memory=20MB", "buffer.memory", "buffer.capacity"),
    ("+buffer.memory=20MB", "buffer.memory", "buffer.capacity"),
    ("algo.replay_ratio=0.5", "algo.replay_ratio", "algo.gradient_steps"),
]


@pytest.mark.parametrize(("given", "kept", "displaced"), DISPLACED)
def test_a_typed_key_displaces_the_alternative_key_of_a_preset(
    cli: Cli, given: str, kept: str, displaced: str
) -> None:
    def value(data: Any, name: str) -> Any:
        group, key = name.split(".")
        return data[group][key]

    preset = composed(cli, "algo=dqn")
    data = composed(cli, "algo=dqn", given)
    assert str(value(data, kept)) == given.partition("=")[2]
    default = to_plain(make_run({"algo": {"name": "dqn"}}))
    assert value(data, displaced) == value(default, displaced) != value(preset, displaced)
    assert data["algo"]["train_freq"] == preset["algo"]["train_freq"] == 256
    make_run(data)


def test_a_typed_key_displaces_the_alternative_key_of_an_experiment(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine" / "exp").mkdir(parents=True)
    text = "# @package _global_\nbuffer: {memory: 30MB}\n"
    (tmp_path / "mine" / "exp" / "large.yaml").write_text(text)
    given = ["--config-dir", "mine", "algo=dqn", "tuned=null", "exp=large"]
    assert composed(cli, *given)["buffer"]["memory"] == "30MB"
    typed = composed(cli, *given, "buffer.capacity=70")["buffer"]
    assert (typed["capacity"], typed["memory"]) == (70, None)


def test_noisy_layers_displace_the_presets_epsilon(cli: Cli) -> None:
    preset, noisy = (composed(cli, "algo=dqn", *more)["algo"] for more in ((), ("algo.noisy=true",)))
    assert (preset["exploration_fraction"], preset["exploration_final_eps"]) == (0.16, 0.04)
    assert (noisy["exploration_fraction"], noisy["exploration_final_eps"]) == (0.1, 0.05)
    assert noisy["learning_rate"] == preset["learning_rate"]
    assert composed(cli, "algo=dqn", "algo.noisy=false")["algo"] == preset
    typed = cli("train", "algo=dqn", "algo.noisy=true", "algo.exploration_fraction=0.3")
    assert "algo.noisy=true and algo.exploration_fraction=0.3: noisy layers explore" in typed.err


def test_rainbow_brings_its_exponent_and_takes_no_other_buffer(cli: Cli, tmp_path: Path) -> None:
    for given in ((), ("buffer=prioritized",), ("tuned=null",)):
        assert composed(cli, "algo=rainbow", *given)["buffer"]["alpha"] == 0.5
    assert composed(cli, "algo=rainbow", "buffer.alpha=0.7")["buffer"]["alpha"] == 0.7
    assert composed(cli, "algo=dqn", "buffer=prioritized")["buffer"]["alpha"] == 0.6
    (tmp_path / "mine" / "algo").mkdir(parents=True)
    (tmp_path / "mine" / "algo" / "wide.yaml").write_text("defaults: [rainbow, _self_]\nn_atoms: 101\n")
    variant = composed(cli, "--config-dir", "mine", "algo=wide")
    assert (variant["algo"]["n_atoms"], variant["algo"]["v_max"]) == (101, 100)
    assert variant["buffer"] == composed(cli, "algo=rainbow")["buffer"]
    refused = cli("train", "algo=rainbow", "buffer=uniform")
    assert (refused.code, refused.err) == (
        2,
        "rlox train: buffer=uniform: rainbow learns from prioritized; leave buffer out\n",
    )


def test_turning_a_switch_off_drops_the_presets_settings_that_need_it(cli: Cli) -> None:
    of = ("algo=sac", "env=MountainCarContinuous-v0")
    assert composed(cli, *of)["algo"]["log_std_init"] == -3.67
    plain = composed(cli, *of, "algo.use_sde=false")["algo"]
    assert (plain["use_sde"], plain["log_std_init"]) == (False, -3.0)
    refused = cli("train", *of, "algo.use_sde=false", "algo.log_std_init=-2")
    assert refused.code == 2
    assert "algo.log_std_init=-2.0 without algo.use_sde" in refused.err


def test_a_null_override_does_not_displace_an_alternative_key(cli: Cli) -> None:
    data = composed(cli, "algo=dqn", "buffer.memory=null", "algo.replay_ratio=null")
    assert (data["buffer"]["capacity"], data["algo"]["gradient_steps"]) == (100_000, 128)


@pytest.mark.parametrize(
    ("algo", "name"),
    [
        ("ppo", "rollout"),
        ("recurrent_ppo", "rollout"),
        ("hybrid_ppo", "rollout"),
        ("a2c", "rollout"),
        ("dqn", "auto"),
        ("sac", "auto"),
        ("tqc", "auto"),
        ("td3", "auto"),
        ("ddpg", "auto"),
        ("rainbow", "prioritized"),
        ("bc", "offline"),
    ],
)
def test_buffer_auto_equals_the_default_buffer_of_the_algorithm(cli: Cli, algo: str, name: str) -> None:
    asked = composed(cli, f"algo={algo}", "tuned=null", "buffer=auto")
    assert asked == composed(cli, f"algo={algo}", "tuned=null")
    assert asked["buffer"]["name"] == name


def test_files_that_begin_with_an_underscore_are_no_options(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "buffer").mkdir()
    (tmp_path / "buffer" / "_base.yaml").touch()
    assert group_options("buffer", [*conf_folders(), tmp_path]) == [
        "auto", "offline", "prioritized", "rollout", "uniform",
    ]  # fmt: skip
    assert "expected one of auto, offline, prioritized, r" in cli("train", "buffer=x").err


# The packages of these environments may not be installed. Their presets are also valid with another one.
ELSEWHERE = ("ALE", "MiniGrid-DoorKey-5x5-v0")


@pytest.mark.parametrize("name", [n for n in group_options("tuned", conf_folders()) if n != "null"])
def test_every_shipped_preset_is_a_valid_config(cli: Cli, name: str) -> None:
    algo, env = name.split("/", 1)
    played = "CartPole-v1" if env in ELSEWHERE else env
    about = ["task=copy"] * (env == "text")
    config = make_run(composed(cli, f"algo={algo}", f"env={played}", f"tuned={name}", *about))
    assert config.env.id == (f"{played}/copy" if about else played)
    if config.env.normalize_obs:
        assert config.env.normalize_rule == "sb3", "rl-zoo3's numbers are Stable-Baselines3's"
    if isinstance(config.algo, PPOConfig):
        assert config.batch_steps % config.algo.batch_size == 0
    assert to_plain(config.algo) != to_plain(PPOConfig())


def test_a_list_of_two_loggers_composes_both_of_them(cli: Cli) -> None:
    assert composed(cli, "logger=[csv,tensorboard]")["logger"] == {
        "csv": {"name": "csv"},
        "tensorboard": {"name": "tensorboard"},
    }


@pytest.mark.parametrize("override", ["logger=null", "logger=[]"])
def test_a_null_or_empty_logger_composes_no_logger(cli: Cli, override: str) -> None:
    assert composed(cli, override)["logger"] == {}


@pytest.mark.parametrize(
    "override",
    [
        "env.kwargs.g=9.8",
        "+env.kwargs.g=9.8",
        "++env.kwargs.g=9.8",
        "env.kwargs={g: 9.8}",
        "env.kwargs={g:9.8}",
        "+env.kwargs={g: 9.8}",
    ],
)
def test_env_kwargs_accepts_any_argument(cli: Cli, override: str) -> None:
    assert composed(cli, "env=Pendulum-v1", override)["env"]["kwargs"] == {"g": 9.8}


def test_an_integer_may_be_written_as_a_float(cli: Cli) -> None:
    assert make_run(composed(cli, "total_steps=2e6")).total_steps == 2_000_000


def test_a_key_may_be_removed_to_get_its_default(cli: Cli) -> None:
    assert "seed" not in composed(cli, "~seed")


@pytest.mark.parametrize("how", ["flag", "variable"])
def test_a_conf_folder_of_ones_own_adds_options(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    folder = tmp_path / "mine"
    (folder / "exp").mkdir(parents=True)
    (folder / "exp" / "seven.yaml").write_text("# @package _global_\nseed: 7\n")
    flags = ["--config-dir", str(folder)] if how == "flag" else []
    if how == "variable":
        monkeypatch.setenv("RLOX_CONF_PATH", str(folder))
    assert composed(cli, *flags, "exp=seven")["seed"] == 7
    assert composed(cli, *flags, "exp=null")["seed"] == 0
    assert "did you mean 'seven'" in cli("train", *flags, "exp=sevn").err


def test_hydras_info_help_and_config_views_print_their_output(cli: Cli) -> None:
    assert "env/CartPole-v1" in cli("train", "--info", "defaults").out
    assert cli("train", "--hydra-help").code == 0
    assert cli("train", "env=Acrobot-v1", "--cfg", "job", "-p", "env.id").out == "Acrobot-v1\n"
    assert cli("evaluate", "--cfg", "job", "-p", "episodes").out == "50\n"


def test_composing_leaves_no_folder(cli: Cli, tmp_path: Path) -> None:
    composed(cli)
    cli("train", "--info", "defaults")
    assert list(tmp_path.iterdir()) == []


def test_rlox_train_parses_environment_variables_like_typed_values(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in {
        "SEED": "7",
        "RATE": "1e-3",
        "ON": "true",
        "ROOT": "007",
        "G": "9.5",
    }.items():
        monkeypatch.setenv(name, value)
    given = [
        "env=Pendulum-v1", "tuned=null", "seed=${oc.env:SEED}", "algo.learning_rate=${oc.env:RATE}",
        "env.normalize_obs=${oc.env:ON}", "run_root=${oc.env:ROOT}", "env.kwargs.g=${oc.env:G}",
        "total_steps=256", "algo.n_steps=32", "eval.episodes=1",
    ]  # fmt: skip
    ran = cli("train", *given)
    assert ran.code == 0, ran.err
    config = OmegaConf.load(only_run(tmp_path / "007") / "config.yaml")
    assert (config.seed, config.algo.learning_rate, config.env.normalize_obs) == (7, 1e-3, True)
    assert config.run_root == "007"
    played = PPO.from_checkpoint(only_run(tmp_path / "007"), trust=True)
    assert played.collector.env.envs[0].unwrapped.g == 9.5
    monkeypatch.setenv("SEED", "seven")
    refused = cli("train", *given)
    assert (refused.code, refused.err) == (2, "rlox train: seed='seven': expected an integer\n")


@pytest.mark.parametrize(
    "args",
    [("train", "dry_run=true"), ("train", "--cfg", "job"), ("list", "algo")],
)
def test_a_command_composes_its_configuration_once(
    args: tuple[str, ...], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[Any] = []
    compose = Hydra.compose_config

    def counting(*given: Any, **named: Any) -> Any:
        times.append(given)
        return compose(*given, **named)

    monkeypatch.setattr(Hydra, "compose_config", counting)
    assert cli(*args).code == 0
    assert len(times) == 1


def test_rlox_train_refuses_the_multirun_mode_of_hydra(cli: Cli) -> None:
    result = cli("train", "hydra.mode=MULTIRUN", "dry_run=true")
    assert result.code == 2
    assert "for several trainings use rlox sweep" in result.err


@pytest.mark.parametrize("exp", ["three", "classic_control_suite"])
def test_rlox_train_refuses_an_experiment_with_several_jobs(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exp: str
) -> None:
    file = tmp_path / "own" / "exp" / "three.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("# @package _global_\nhydra: {sweeper: {params: {seed: 'range(0,3)'}}}\n")
    monkeypatch.setenv("RLOX_CONF_PATH", str(tmp_path / "own"))
    refused = cli("train", f"exp={exp}")
    assert refused.code == 2
    assert "hydra.sweeper.params in a configuration file asks for several jobs" in refused.err
    assert "to run them: rlox sweep, with the same arguments" in refused.err
    assert not (tmp_path / "runs").exists()


def test_rlox_train_refuses_conflicting_keys_before_it_makes_a_folder(cli: Cli, tmp_path: Path) -> None:
    masks = ("env.action_mask=info", "env.action_repeat=2", "env.workers=subprocess")
    said = "env.action_mask=info and env.action_repeat=2: an action would be taken again"
    assert_explained(cli("train", "tuned=null", *masks), said, tmp_path)
    goals = ("algo=dqn", "buffer=uniform", "buffer.hindsight=future", "env.reward_scale=10")
    said = "buffer.hindsight=future and env.reward_scale=10: rewards for another goal"
    assert_explained(cli("train", "tuned=null", *goals), said, tmp_path)


def test_a_typed_rule_of_normalisation_is_refused_where_no_job_normalises(cli: Cli, tmp_path: Path) -> None:
    rule, dry = "env.normalize_rule=sb3", ("tuned=null", "dry_run=true")
    for line in (("train", rule, *dry), ("sweep", rule, "seed=1,2", *dry)):
        assert_explained(cli(*line), "env.normalize_rule=sb3 without env.normalize_obs", tmp_path)
    mixed = ("sweep", rule, "env.normalize_obs=true,false", *dry, "algo.net_arch=[4]")
    assert cli(*mixed).code == 0
    own = ("env=MountainCarContinuous-v0", "env.normalize_obs=false", "env.normalize_reward=false")
    assert cli("train", *own, "dry_run=true").code == 0, "the rule is the preset's"
