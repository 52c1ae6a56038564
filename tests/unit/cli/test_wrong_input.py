"""Tests that wrong use gives exit code 2 and a short message with the nearest name, and leaves no file."""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium
import pytest
from helpers.cli import Cli, assert_explained

from rlox.envs import ids
from rlox.extras import install_command

WRONG = [
    ("env=CartPol-v1", "CartPole-v1"),
    ("env.id=CartPol-v1", "CartPole-v1"),
    ("env=no_such_module:Env-v0", "no_such_module"),
    ("env=DictObs-v0", "flatten_observation"),
    ("env.kwargs.nonsense=1", "nonsense"),
    ("env.backend=nativ", "did you mean 'native'"),
    ("env=null", "env=CartPole-v1"),
    ("algo=pppo", "did you mean 'ppo'"),
    ("algo.name=sacc", "expected one of ppo"),
    ("algo.name=dqn", "use algo=dqn"),
    ("algo=[ppo,dqn]", "rlox sweep algo=ppo,dqn"),
    ("env=[CartPole-v1]", "rlox sweep env=CartPole-v1"),
    ("algo.clip_eps=2", "(0, 1)"),
    ("algo.clip_eps=high", "a number"),
    ("algo.clpi=0.1", "'algo.clip_eps'"),
    ("+algo.clpi=0.1", "'algo.clip_eps'"),
    ("algo.net_arch=wide", "a list"),
    ("algo.net_arch=[64,-1]", "algo.net_arch[1]=-1: expected"),
    ("n_envs=4", "'env.n_envs'"),
    ("lr=0.1", "'algo.learning_rate'"),
    ("total_timesteps=9", "'total_steps'"),
    ("algos=ppo", "'algo'"),
    ("seed=x", "an integer"),
    ("seed=1,2", "rlox sweep"),
    ("seed=range(0,3)", "rlox sweep"),
    ("seed=${nothing}", "nothing"),
    ("total_steps=-5", "[1, inf)"),
    ("total_steps=2.5", "an integer"),
    ("eval=5", "eval.<key>"),
    ("device=gpu", "cuda"),
    ("buffer=rolout", "did you mean 'rollout'"),
    ("buffer=uniform", "ppo learns from rollout"),
    ("tuned=nope", "rlox list tuned"),
    ("tuned=ppo/CartPole-v2", "did you mean 'ppo/CartPole-v1'"),
    ("exp=nope", "exp=nope"),
    ("logger=[csv,nope]", "tensorboard"),
    ("logger=cvs", "did you mean 'csv'"),
    ("resume=runs/x", "resume"),
    ("CartPole-v1", "env=CartPole-v1"),
    ("algo.clip_eps", "key=value"),
    ("env.wrappers=[a", "env.wrappers=[a"),
    ("a b=c", "'a b=c'"),
    ("~algo", "algo=ppo"),
    ("--frobnicate", "--frobnicate"),
    ("--experimental-rerun=job.pickle", "pickle"),
    ("--config-dir=nowhere", "nowhere"),
]


@pytest.mark.parametrize(("override", "hint"), WRONG)
def test_a_wrong_override_is_explained_and_leaves_nothing(
    cli: Cli, tmp_path: Path, override: str, hint: str
) -> None:
    assert_explained(cli("train", override), hint, tmp_path)


@pytest.mark.parametrize("override", ["algo.clip_eps=2", "seed=x", "env=CartPol-v1", "+x=1"])
def test_showing_a_wrong_config_is_wrong_use_too(cli: Cli, tmp_path: Path, override: str) -> None:
    assert_explained(cli("train", "--cfg", "job", override), override.split("=")[0][1:], tmp_path)


def test_an_unknown_command_names_the_nearest(cli: Cli, tmp_path: Path) -> None:
    assert_explained(cli("trian", "seed=1"), "did you mean 'train'", tmp_path)


def test_atari_without_its_package_gets_the_install_line(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, *told = ids._PACKAGES["ALE/"]
    monkeypatch.setitem(ids._PACKAGES, "ALE/", ("ale_py_not_installed", *told))
    for name in [n for n in gymnasium.registry if n.startswith("ALE/")]:
        monkeypatch.delitem(gymnasium.registry, name)
    assert_explained(cli("train", "env=ALE/Pong-v5"), install_command("atari"), tmp_path)


def test_an_environment_without_its_engine_gets_the_install_line(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [n for n in sys.modules if n.startswith("gymnasium.envs.box2d")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "Box2D", None)
    result = cli("train", "env=LunarLander-v3")
    assert_explained(result, "pip install 'gymnasium[box2d]'", tmp_path)


def test_mujoco_without_its_engine_gets_the_install_line(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [n for n in sys.modules if n.startswith("gymnasium.envs.mujoco")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mujoco", None)
    result = cli("train", "algo=sac", "env=HalfCheetah-v5")
    told = f"env=HalfCheetah-v5 needs a package that is not installed: {install_command('mujoco')}"
    assert_explained(result, told, tmp_path)


def test_an_error_for_a_moved_mujoco_environment_names_gymnasium_robotics(cli: Cli, tmp_path: Path) -> None:
    result = cli("train", "env=HalfCheetah-v3")
    assert_explained(result, "gymnasium-robotics", tmp_path)
    assert install_command("mujoco") not in result.err


def test_tensorboard_without_its_package_gets_the_install_line(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n, *a: None if n == "tensorboard" else found(n, *a)
    )
    result = cli("train", "logger=tensorboard")
    assert_explained(result, install_command("tensorboard"), tmp_path)


def test_a_config_error_while_the_run_starts_leaves_no_folder(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import rlox.runs.session
    from rlox.errors import ConfigError

    def refuse(*args: object, **options: object) -> None:
        raise ConfigError("not with these settings")

    monkeypatch.setattr(rlox.runs.session, "Session", refuse)
    result = cli("train", "run_root=.")
    assert_explained(result, "not with these settings", tmp_path)


def test_the_full_trace_is_shown_when_asked_for(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    result = cli("train", "seed=x")
    assert result.code == 2
    assert "Traceback" in result.err


@pytest.mark.parametrize("algo", ["a2c", "a2c,ppo"])
def test_an_error_names_the_algorithm_that_owns_a_key(cli: Cli, tmp_path: Path, algo: str) -> None:
    command = "sweep" if "," in algo else "train"
    result = cli(command, f"algo={algo}", "algo.clip_eps=0.1")
    assert_explained(result, "it belongs to algo=ppo", tmp_path)


# The preset of DQN on CartPole-v1 applies: it sets keys that the user did not type.
BESIDE_A_PRESET = [
    (("buffer=rollout",), "buffer=rollout: dqn learns from uniform or prioritized"),
    (("buffer=offline", "buffer.path=x"), "buffer=offline: dqn learns from uniform or prioritized"),
    (("algo.gradient_steps=0",), "algo.gradient_steps=0: expected a value in [1, inf) or -1"),
    (("buffer.memory=1MB", "buffer.capacity=9"), "buffer.capacity=9 and buffer.memory=1MB"),
    (("algo.replay_ratio=1", "algo.gradient_steps=2"), "algo.gradient_steps=2: give one of them"),
    (("tuned=ppo/CartPole-v1",), "tuned=ppo/CartPole-v1: this preset is for ppo"),
]


@pytest.mark.parametrize(("given", "hint"), BESIDE_A_PRESET)
def test_a_mistake_is_explained_by_what_was_typed_and_not_by_a_presets_keys(
    cli: Cli, tmp_path: Path, given: tuple[str, ...], hint: str
) -> None:
    assert_explained(cli("train", "algo=dqn", *given), hint, tmp_path)


@pytest.mark.parametrize("digits", [400, 5000])
@pytest.mark.parametrize(
    ("line", "key", "expected"),
    [
        (("train", "env=CartPole-v1"), "total_steps", "[1, inf)"),
        (("sweep", "env=CartPole-v1"), "env.n_envs", "[1, 1048576]"),
        (("evaluate", "run"), "episodes", "[1, inf)"),
        (("report", "run"), "resamples", "[100, 1000000]"),
    ],
)
def test_a_number_of_hundreds_of_digits_is_refused_with_its_key(
    cli: Cli, digits: int, line: tuple[str, ...], key: str, expected: str
) -> None:
    Path("run").mkdir()
    result = cli(*line, f"{key}={'9' * digits}")
    most, wanted = (4300, "a smaller one") if digits > 4300 else (309, f"a value in {expected}")
    assert result.code == 2
    assert f"{key}: got a number of more than {most} digits, expected {wanted}" in result.err
