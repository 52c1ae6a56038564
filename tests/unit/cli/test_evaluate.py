"""Tests of `rlox evaluate`."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from helpers.cli import Cli
from helpers.observation_spaces import Samples

from rlox.algorithms import PPO
from rlox_cli.runs.summary import format_number


def test_every_return_is_written_with_mean_iqm_and_interval(cli: Cli, trained: Path) -> None:
    result = cli("evaluate", f"run={trained}", "episodes=8", "seed=3")
    assert result.code == 0, result.err
    data = json.loads((trained / "eval" / "last.json").read_text())
    returns = data["episodes"]
    assert len(returns) == len(data["lengths"]) == 8
    assert data["mean"] == pytest.approx(np.mean(returns))
    assert data["iqm"] == pytest.approx(np.mean(sorted(returns)[2:6]))
    assert data["ci95"][0] <= data["mean"] <= data["ci95"][1]
    assert (data["env"], data["algo"], data["seed"]) == ("CartPole-v1", "ppo", 3)
    assert data["checkpoint"] == "step-000000000256"


def test_the_final_evaluation_of_the_run_is_reproduced(cli: Cli, trained: Path) -> None:
    assert cli("evaluate", f"run={trained}", "episodes=3").code == 0
    again = json.loads((trained / "eval" / "last.json").read_text())["episodes"]
    assert again == json.loads((trained / "result.json").read_text())["episodes"]


def test_a_video_of_the_policy_is_written(cli: Cli, trained: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    pytest.importorskip("pygame")
    assert cli("evaluate", f"run={trained}", "episodes=1", "video=true").code == 0
    assert (trained / "videos" / "last.mp4").stat().st_size > 1000


def test_the_device_may_be_another_than_the_runs(cli: Cli, trained: Path) -> None:
    assert cli("evaluate", str(trained), "episodes=3", "device=cpu").code == 0
    again = json.loads((trained / "eval" / "last.json").read_text())["episodes"]
    assert again == json.loads((trained / "result.json").read_text())["episodes"]
    shutil.rmtree(trained / "eval")
    for device, told in (
        ("gpu", "device=gpu: expected auto, cpu, cuda, cuda:N or mps"),
        ("cuda:99", "device=cuda:99 is not available here, device=cpu is"),
    ):
        result = cli("evaluate", str(trained), f"device={device}")
        assert result.code == 2
        assert told in result.err
    assert not list((trained / "eval").glob("*.json"))


def test_a_checkpoint_that_does_not_exist_is_explained(cli: Cli, trained: Path) -> None:
    result = cli("evaluate", f"run={trained}", "checkpoint=step-000000000001")
    assert result.code == 2
    assert "step-000000000256" in result.err
    assert not (trained / "eval").exists()


def test_evaluate_refuses_a_parent_folder_and_names_the_run(cli: Cli, trained: Path) -> None:
    result = cli("evaluate", f"run={trained.parent}")
    assert result.code == 2
    assert str(trained) in result.err


def test_a_config_that_names_code_is_not_executed(cli: Cli, trained: Path) -> None:
    path = trained / "config.yaml"
    path.write_text(path.read_text() + "_target_: builtins.exit\n")
    result = cli("evaluate", f"run={trained}")
    assert result.code == 2
    assert "_target_" in result.err


def names(run: Path) -> set[str]:
    return {path.name for path in (run / "eval").iterdir()}


def test_runs_are_named_without_a_key_several_at_once(cli: Cli, trained: Path) -> None:
    other = trained.with_name("other = [1]")
    shutil.copytree(trained, other, symlinks=True)
    result = cli("evaluate", str(trained), str(other), "episodes=2")
    assert result.code == 0, result.err
    assert names(trained) == names(other) == {"last.json", "step-000000000256_s100000_e2.json"}
    both = cli("evaluate", str(trained), "run=x")
    assert (both.code, both.err) == (
        2,
        f"rlox evaluate: {trained} and run= both name a run; name all of them without run=\n",
    )


def test_evaluating_in_another_environment_does_not_replace_last_json(cli: Cli, trained: Path) -> None:
    assert cli("evaluate", str(trained), "episodes=2").code == 0
    before = (trained / "eval" / "last.json").read_text()
    other = cli("evaluate", str(trained), "episodes=2", "env=CartPole-v0")
    assert other.code == 0, other.err
    assert (trained / "eval" / "last.json").read_text() == before
    name = "step-000000000256_s100000_e2_env-CartPole-v0.json"
    assert json.loads((trained / "eval" / name).read_text())["env"] == "CartPole-v0"


def test_evaluate_refuses_an_environment_with_another_observation_shape(cli: Cli, trained: Path) -> None:
    square = spaces.Box(-1.0, 1.0, (2, 2)), spaces.Discrete(2)
    gym.register("Square-v0", lambda: Samples(*square), max_episode_steps=5)
    try:
        result = cli("evaluate", str(trained), "episodes=1", "env=Square-v0")
    finally:
        gym.registry.pop("Square-v0")
    assert result.code == 2
    assert "env=Square-v0: the policy was trained in another environment, with other spaces: " in result.err
    assert "learned with observations Box(4), but observations here are Box(2x2)" in result.err


def test_evaluate_writes_a_file_for_each_setting_and_the_newest_as_last_json(cli: Cli, trained: Path) -> None:
    step = "step-000000000256"
    digest = sha256(b'{"sutton_barto_reward": true}').hexdigest()[:8]
    ways = {
        (): f"{step}_s100000_e2.json",
        ("seed=5",): f"{step}_s5_e2.json",
        ("deterministic=false",): f"{step}_s100000_e2_sampled.json",
        ("env.kwargs={sutton_barto_reward: true}",): (f"{step}_s100000_e2_kwargs-{digest}.json"),
    }
    for way, name in ways.items():
        result = cli("evaluate", str(trained), "episodes=2", *way)
        assert result.code == 0, result.err
        own, newest = (json.loads((trained / "eval" / n).read_text()) for n in (name, "last.json"))
        assert (own == newest) == ("kwargs" not in name)
        assert f"eval/{name}\n" in result.out
    assert names(trained) == {*ways.values(), "last.json"}
    played = [json.loads((trained / "eval" / name).read_text()) for name in ways.values()]
    assert [p["deterministic"] for p in played] == [True, True, False, True]
    assert played[3]["episodes"] == [-1.0, -1.0]  # the reward when the pole falls
    assert played[3]["env_kwargs"] == {"sutton_barto_reward": True}


def test_sampled_actions_are_keyed_by_the_seed(cli: Cli, trained: Path) -> None:
    def returns(seed: int) -> list[float]:
        assert cli("evaluate", str(trained), f"seed={seed}", "deterministic=false").code == 0
        found: list[float] = json.loads((trained / "eval" / "last.json").read_text())["episodes"]
        return found

    assert returns(1) == returns(1) != returns(2)


def test_sampled_episodes_are_neither_filmed_nor_shown(cli: Cli, trained: Path) -> None:
    for more in ("video=true", "render=true"):
        result = cli("evaluate", str(trained), "deterministic=false", more)
        assert (result.code, result.err) == (
            2,
            "rlox evaluate: deterministic=false cannot be combined with video=true or render=true: the "
            "sampled actions depend on how many episodes are played at a time\n",
        )


def test_without_a_display_nothing_is_shown_and_it_is_said(
    cli: Cli, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    result = cli("evaluate", str(trained), "render=true", "episodes=1")
    assert (result.code, result.err) == (
        2,
        "rlox evaluate: there is no display to show episodes on (DISPLAY is not set); write them to a "
        "file: video=true\n",
    )


def test_episodes_are_shown_where_there_is_a_display(
    cli: Cli, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # a display without a screen
    shown = []
    flip = pygame.display.flip
    monkeypatch.setattr(pygame.display, "flip", lambda: (shown.append(1), flip()))
    monkeypatch.setattr(pygame.time, "Clock", lambda: type("Clock", (), {"tick": lambda s, fps: 0})())
    result = cli("evaluate", str(trained), "render=true", "episodes=1")
    assert result.code == 0, result.err
    (length,) = json.loads((trained / "eval" / "last.json").read_text())["lengths"]
    assert len(shown) >= length


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (
            lambda run: shutil.rmtree(run / "checkpoints"),
            "{run} was done at step 256 and has no checkpoints any more\n"
            "  put checkpoints/ back, or start a new run: rlox train",
        ),
        (
            lambda run: next(run.glob("checkpoints/step-*/weights.*")).write_text("x"),
            "{run} has only damaged checkpoints: step-000000000256",
        ),
    ],
)
def test_a_run_without_a_whole_checkpoint_says_which_it_is(
    cli: Cli, trained: Path, spoil: Any, told: str
) -> None:
    spoil(trained)
    for command in ("evaluate", "export"):
        result = cli(command, str(trained))
        assert result.code == 2
        assert f"rlox {command}: checkpoint=last: {told.format(run=trained)}\n" in result.err


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.7, "0.700"), (-1.25, "-1.250"), (12.345, "12.35"), (475.26, "475.3"), (None, "-")],
)
def test_numbers_have_digits_that_suffice(value: float | None, text: str) -> None:
    assert format_number(value) == text


def test_evaluate_checks_all_named_runs_before_it_plays_one(cli: Cli, trained: Path) -> None:
    other = trained.with_name("other")
    shutil.copytree(trained, other, symlinks=True)
    text = (other / "config.yaml").read_text()
    (other / "config.yaml").write_text(text.replace("wrappers: []", "wrappers: ['mine:Wrapper']"))
    for line, told in (
        ((), "mine:Wrapper"),
        (("checkpoint=step-000000000001",), "step-000000000001"),
        (("target_return=5",), "ppo takes no target return"),
        (("best_of=2",), "ppo writes no text"),
    ):
        refused = cli("evaluate", str(trained), str(other), "episodes=2", *line)
        assert refused.code == 2 and told in refused.err
        assert not (trained / "eval").exists()
    shutil.rmtree(other / "checkpoints")
    refused = cli("evaluate", str(trained), str(other), "episodes=2")
    assert refused.code == 2 and str(other) in refused.err
    assert not (trained / "eval").exists()


@pytest.mark.parametrize("command", ["evaluate", "export"])
def test_a_checkpoint_that_python_saved_is_answered_with_its_use_in_python(
    cli: Cli, tmp_path: Path, command: str
) -> None:
    PPO("CartPole-v1", n_envs=1, n_steps=8, batch_size=8, net_arch=(4,)).save(tmp_path / "saved" / "ppo")
    refused = cli(command, str(tmp_path / "saved" / "ppo"))
    assert refused.code == 2
    assert "this is a checkpoint without a run folder, as save() in Python writes it; use it in Python: " in (
        " ".join(refused.err.split())
    )
