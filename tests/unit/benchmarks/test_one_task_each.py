"""Tests the campaign of one task each: its plan, equal settings for the peers, and what counts as solved."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import classic_control
import gymnasium as gym
import numpy as np
import one_task_each
import pytest
import sb3
import solving
import tables
from classic_control import Campaign, Leg, System
from lock import Lock
from numpy.typing import NDArray
from tables import CompleteLeg

from rlox.configs import make_run

LEGS = {leg.name: leg for leg in one_task_each.CAMPAIGN.legs}
OURS = [(leg, s) for leg in LEGS.values() for s in leg.systems if s.library == "rlox"]
RIGHT = [(7 * place + 3) % 24 for place in range(5)]  # the lock's numbers


def runs(*scores: float) -> list[dict[str, Any]]:
    """Makes runs of these scores, with half of each in training."""
    return [{"returns": [s] * 50, "training": s / 2, "curve": [s] * 50} for s in scores]


def whole(solved: float, **systems: list[dict[str, Any]]) -> CompleteLeg:
    return CompleteLeg("a_leg", "A task", 2_000, systems, solved)


def test_the_one_task_campaign_fixes_systems_steps_and_solved_scores():
    plan = {
        name: (leg.env, leg.steps, leg.solved, [system.name for system in leg.systems])
        for name, leg in LEGS.items()
    }
    assert plan == {
        "recurrent_PPO": (
            "CartPole-v1", 100_000, 475, ["recurrent PPO", "PPO", "sb3-contrib RecurrentPPO"],
        ),
        "masked_PPO": ("lock:Lock-v0", 16_384, 1, ["masked PPO", "PPO", "sb3-contrib MaskablePPO"]),
        "masked_DQN": ("lock:Lock-v0", 8_000, 1, ["masked DQN", "DQN"]),
        "masked_PPO_Taxi": ("Taxi-v4", 200_000, 7.5, ["masked PPO", "PPO", "sb3-contrib MaskablePPO"]),
        "discrete_SAC": ("CartPole-v1", 50_000, 475, ["discrete SAC"]),
        "DDPG": ("Pendulum-v1", 20_000, -200, ["DDPG"]),
        "noisy_DQN": ("CartPole-v1", 50_000, 475, ["noisy DQN"]),
        "C51": ("CartPole-v1", 500_000, 475, ["C51"]),
        "QR_DQN": ("CartPole-v1", 500_000, 475, ["QR-DQN", "sb3-contrib QRDQN"]),
        "Rainbow": ("CartPole-v1", 40_000, 475, ["Rainbow"]),
    }  # fmt: skip
    assert {leg.seeds for leg in LEGS.values()} == {5}
    assert gym.spec("CartPole-v1").reward_threshold == 475
    assert one_task_each.CAMPAIGN.script.is_file()


@pytest.mark.parametrize(("leg", "system"), OURS, ids=[system.name for _, system in OURS])
def test_the_settings_of_every_system_are_a_run(leg: Leg, system: System):
    settings: Any = system.settings or {}
    tree = {
        "algo": {"name": system.algo, **settings.get("algo", {})},
        "env": {"id": leg.env, **settings.get("env", {})},
        "total_steps": leg.steps,
    }
    assert make_run(tree).algo.name == system.algo


def test_systems_of_a_campaign_leg_differ_in_one_setting_only():
    for name in ("masked_PPO", "masked_DQN", "masked_PPO_Taxi"):
        with_masks, without, *peers = LEGS[name].systems
        assert with_masks.settings["env"] == {**without.settings["env"], "action_mask": "info"}
        assert with_masks.settings["algo"] == without.settings["algo"]
        assert all(peer.settings == with_masks.settings for peer in peers)
    recurrent, plain, peer = LEGS["recurrent_PPO"].systems
    more = {"lstm_hidden_size": 64, "enable_critic_lstm": True}
    assert recurrent.settings["algo"] == plain.settings["algo"] | more
    assert recurrent.settings["env"] == plain.settings["env"]
    assert peer.settings == recurrent.settings
    quantile, peer = LEGS["QR_DQN"].systems
    assert peer.settings == quantile.settings


def test_settings_are_spelt_for_the_command_line():
    settings = {
        "env": {"wrappers": ["a", "b"]},
        "algo": {"anneal_lr": True, "net_arch": [8, 4], "eps": 1e-4},
    }
    assert System("s", settings=settings).overrides() == [
        "tuned=null", 'env.wrappers=["a","b"]', "algo.anneal_lr=true", "algo.net_arch=[8,4]",
        "algo.eps=0.0001",
    ]  # fmt: skip
    assert System("with the preset").overrides() == []


def test_a_system_of_several_words_has_a_file_without_spaces(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(classic_control, "ROOT", tmp_path)
    campaign = Campaign("c", "ppo", ())
    path = campaign.path(LEGS["masked_DQN"], "masked DQN", 3)
    assert path == tmp_path / "experiments" / "c" / "results" / "masked_DQN_masked-DQN_s3.json"


def test_sb3_contribs_models_get_settings_under_their_names():
    import torch

    recurrent, _, _ = LEGS["recurrent_PPO"].systems
    found = sb3.translate(recurrent.settings)["policy_kwargs"]
    assert found == {
        "net_arch": [64], "ortho_init": False, "lstm_hidden_size": 64, "enable_critic_lstm": True,
        "activation_fn": torch.nn.ReLU,
    }  # fmt: skip
    *_, quantile = LEGS["QR_DQN"].systems
    given = sb3.translate(quantile.settings)
    assert given["policy_kwargs"] == {
        "net_arch": [120, 84], "n_quantiles": 50, "optimizer_kwargs": {"eps": 0.01 / 128},
    }  # fmt: skip
    assert given["buffer_size"] == 10_000
    assert "distribution" not in given


def test_the_peers_class_supports_recurrence_masks_or_quantiles(monkeypatch):
    monkeypatch.setattr(sb3, "_import_class", lambda library, name: f"{library}.{name}")
    plain = {"env": {}, "algo": {}}
    masked = {"env": {"action_mask": "info"}, "algo": {}}
    quantile = {"env": {}, "algo": {"distribution": "quantile"}}
    assert sb3._model_class("recurrent_ppo", plain) == ("sb3_contrib.RecurrentPPO", "MlpLstmPolicy")
    assert sb3._model_class("ppo", masked) == ("sb3_contrib.MaskablePPO", "MlpPolicy")
    assert sb3._model_class("dqn", quantile) == ("sb3_contrib.QRDQN", "MlpPolicy")
    assert sb3._model_class("ppo", plain) == ("stable_baselines3.PPO", "MlpPolicy")
    assert sb3._model_class("dqn", plain) == ("stable_baselines3.DQN", "MlpPolicy")


def test_the_peers_environment_has_the_wrappers_and_masks_of_ours():
    blind = sb3.env_factory("CartPole-v1", {"wrappers": ["hide_velocities"]})()
    assert blind.reset(seed=0)[0].shape == (2,)
    locked = sb3.env_factory("lock:Lock-v0", {"action_mask": "info"})()
    locked.reset(seed=0)
    for number in RIGHT[:2]:
        mask = locked.get_wrapper_attr("action_masks")()
        np.testing.assert_array_equal(np.flatnonzero(mask), sorted({number, (number + 11) % 24}))
        locked.step(number)
    _, _, terminated, _, info = locked.step(RIGHT[0])
    assert terminated and "action_mask" not in info
    assert locked.get_wrapper_attr("action_masks")()[RIGHT[2]]  # the last mask
    assert not hasattr(sb3.env_factory("lock:Lock-v0", {})(), "action_masks")


class Remembering:
    """Plays the lock by its state and the masks, as models of sb3-contrib do."""

    def __init__(self) -> None:
        self.begun: list[bool] = []

    def get_vec_normalize_env(self) -> None:
        return None

    def predict(
        self,
        obs: NDArray[Any],
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[NDArray[Any], Any]:
        place = 0 if state is None else state
        assert deterministic and (state is None) == bool(episode_start[0])
        assert action_masks[RIGHT[place]]
        self.begun.append(bool(episode_start[0]))
        return np.array(RIGHT[place]), place + 1


def test_the_peers_evaluation_passes_on_states_and_masks():
    model = Remembering()
    returns = sb3.evaluate(model, sb3.env_factory("lock:Lock-v0", {"action_mask": "info"}), 2, 7)
    assert returns == [1.0, 1.0]
    assert model.begun == [True, False, False, False, False] * 2


def test_versions_name_the_contributions_only_of_their_models(monkeypatch):
    monkeypatch.setattr(sb3, "version", lambda name: f"of {name}")
    contributed = type("Model", (), {"__module__": "sb3_contrib.qrdqn"})()
    assert sb3.provenance(contributed)["packages"]["sb3-contrib"] == "of sb3-contrib"
    assert "sb3-contrib" not in sb3.provenance(SimpleNamespace())["packages"]


def test_a_lock_opens_by_its_numbers_begins_again_at_the_other_and_ends_at_the_rest():
    one = Lock()
    obs, info = one.reset()
    np.testing.assert_array_equal(obs, [1, 0, 0, 0, 0, 0])
    assert sorted(np.flatnonzero(info["action_mask"])) == [3, 14]
    assert [one.step(number)[1:4] for number in RIGHT] == [(0.0, False, False)] * 4 + [(1.0, True, False)]
    one.reset()
    one.step(RIGHT[0])
    obs, reward, terminated, _, _ = one.step((RIGHT[1] + 11) % 24)
    assert (obs[0], reward, terminated) == (1.0, 0.0, False)
    assert one.step(0)[1:4] == (0.0, True, False)
    one.reset()
    assert [one.step(14)[3] for _ in range(25)] == [False] * 24 + [True]


def test_solving_is_counted_by_seeds_and_systems_are_held_against_the_first():
    found = solving.summarize(whole(475, ours=runs(500, 475, 474, 500), theirs=runs(400, 400, 400, 400)))
    assert (found["total_steps"], found["seeds"], found["solved_from"]) == (2_000, 4, 475)
    ours, theirs = found["systems"]["ours"], found["systems"]["theirs"]
    assert (ours["iqm"], ours["solving_seeds"], theirs["solving_seeds"]) == (487.5, 3, 0)
    assert (ours["training"]["iqm"], theirs["training"]["iqm"]) == (243.75, 200.0)
    assert "difference" not in ours
    assert theirs["difference"]["iqm"] == -87.5
    low, high = theirs["difference"]["ci95"]
    assert -100 <= low < -87.5 < high <= -74


def test_the_table_has_a_line_for_each_system():
    legs = [whole(475, A=runs(500, 500), B=runs(20, 20)), whole(7.5, C=runs(7.625, 7.625))]
    text = solving.render([(leg.task, solving.summarize(leg)) for leg in legs])
    assert text.splitlines()[2:] == [
        "| A task | 475 | A | 2,000 | 2 | 500.0 [500.0, 500.0] | 2 of 2 | 250.0 [250.0, 250.0] |  |  |",
        "|  |  | B | 2,000 | 2 | 20.0 [20.0, 20.0] | 0 of 2 | 10.0 [10.0, 10.0] "
        "| -480.0 [-480.0, -480.0] | -240.0 [-240.0, -240.0] |",
        "| A task | 7.5 | C | 2,000 | 2 | 7.62 [7.62, 7.62] | 2 of 2 | 3.81 [3.81, 3.81] |  |  |",
    ]


def test_the_figure_puts_more_than_four_legs_into_a_second_row(tmp_path: Path):
    from matplotlib.image import imread

    legs = [whole(475, A=runs(500, 500), B=runs(20, 20), C=runs(30, 30), D=runs(9, 9))] * 5
    for count in (4, 5):
        tables.draw(tmp_path / f"{count}.png", legs[:count])
    four, five = (imread(tmp_path / f"{count}.png").shape for count in (4, 5))
    assert (five[0], five[1]) == (2 * four[0], four[1])
