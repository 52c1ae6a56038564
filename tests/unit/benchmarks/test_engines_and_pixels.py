"""Tests the campaign on MiniGrid and MuJoCo: its plan, and equal networks and settings for the peer."""

from __future__ import annotations

from typing import Any

import classic_control
import engines_and_pixels
import gymnasium as gym
import numpy as np
import pytest
import sb3
import sb3_small
import tables
import torch
from engines_and_pixels import CAMPAIGN
from omegaconf import OmegaConf
from stable_baselines3.common.torch_layers import NatureCNN

from rlox.configs import make_run
from rlox.networks import Encoder, ImageSpec, init_orthogonal_encoder

LEGS = {leg.name: leg for leg in CAMPAIGN.legs}
PIXELS = [leg for leg in CAMPAIGN.legs if leg.name.endswith("_pixels")]
CELLS = gym.spaces.Box(0, 255, (3, 7, 7), np.uint8)


def test_the_engines_and_pixels_campaign_plans_five_legs_with_fixed_seeds():
    plan = {name: (leg.env, leg.algo, leg.steps, leg.seeds) for name, leg in LEGS.items()}
    assert plan == {
        "PPO_MiniGrid-DoorKey-5x5-v0": ("MiniGrid-DoorKey-5x5-v0", "ppo", 100_000, 5),
        "PPO_pixels": ("MiniGrid-Empty-Random-5x5-v0", "ppo", 50_000, 5),
        "DQN_pixels": ("MiniGrid-Empty-Random-5x5-v0", "dqn", 30_000, 5),
        "PPO_HalfCheetah-v5": ("HalfCheetah-v5", "ppo", 300_000, 3),
        "SAC_Hopper-v5": ("Hopper-v5", "sac", 100_000, 3),
    }
    assert CAMPAIGN.script.is_file()
    for leg in LEGS.values():
        assert [(system.name, system.library) for system in leg.systems] == [
            ("rlox", "rlox"), ("sb3", "sb3"),
        ]  # fmt: skip


@pytest.mark.parametrize("leg", PIXELS, ids=lambda leg: leg.name)
def test_rlox_and_sb3_share_valid_settings_in_the_pixel_legs(leg):
    ours, theirs = (system.settings for system in leg.systems)
    assert ours is theirs
    tree = {
        "algo": {"name": leg.algo, **ours["algo"]},
        "env": {"id": leg.env, **ours["env"]},
        "total_steps": leg.steps,
    }
    run = make_run(tree)
    assert (run.env.wrappers, run.algo.encoder) == (("minigrid_image",), "small")
    assert sb3._model_class(leg.algo, ours)[1] == "CnnPolicy"


def test_every_leg_without_pixels_has_a_tuned_preset_file():
    for leg in LEGS.values():
        path = classic_control.ROOT / "conf" / "tuned" / leg.algo / f"{leg.env}.yaml"
        assert leg in PIXELS or path.is_file()


def test_the_peers_small_network_says_what_ours_says_with_the_same_weights():
    theirs = sb3_small.SmallCNN(CELLS)
    ours = Encoder(0, [ImageSpec((7, 7, 3), False, 255.0)], ["small"])
    assert [p.shape for p in ours.parameters()] == [p.shape for p in theirs.parameters()]
    with torch.no_grad():
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            other.copy_(mine)
    generator = torch.Generator().manual_seed(0)
    cells = torch.randint(0, 11, (5, 7, 7, 3), dtype=torch.uint8, generator=generator)
    images = cells.movedim(-1, 1).float() / 255
    torch.testing.assert_close(theirs(images), ours(cells.flatten(1)))
    assert theirs.features_dim == ours.features == 128


def test_rlox_and_sb3_pixel_policies_start_with_layers_of_equal_norms():
    from stable_baselines3.common.policies import ActorCriticCnnPolicy

    settings = engines_and_pixels.PPO_PIXELS["algo"]
    kwargs = sb3.translate({"algo": settings, "env": {}})["policy_kwargs"]
    policy = ActorCriticCnnPolicy(CELLS, gym.spaces.Discrete(7), lambda _: 1e-3, **kwargs)
    ours = Encoder(0, [ImageSpec((7, 7, 3), False, 255.0)], ["small"])
    init_orthogonal_encoder(ours)
    for mine, other in zip(ours.parameters(), policy.features_extractor.parameters(), strict=True):
        torch.testing.assert_close(mine.norm(), other.norm())
    assert policy.share_features_extractor


def test_networks_of_images_are_given_as_arguments_of_the_policy():
    path = classic_control.ROOT / "conf" / "tuned" / "ppo" / "ALE.yaml"
    preset: Any = OmegaConf.to_container(OmegaConf.load(path))
    given = sb3.translate(preset)
    assert given["policy_kwargs"] == {"net_arch": [], "features_extractor_class": NatureCNN}
    assert [given["learning_rate"](left) for left in (1.0, 0.5)] == [2.5e-4, 1.25e-4]
    assert given["clip_range"](0.5) == 0.05
    narrow = {"algo": {"encoder": "small", "encoder_features": 8}, "env": {}}
    assert sb3.translate(narrow)["policy_kwargs"] == {
        "features_extractor_class": sb3_small.SmallCNN,
        "features_extractor_kwargs": {"features_dim": 8},
    }
    with pytest.raises(KeyError, match="impala"):
        sb3.translate({"algo": {"encoder": "impala"}, "env": {}})


def test_a_table_of_small_scores_has_more_digits():
    def runs(*scores: float) -> list[dict[str, Any]]:
        return [{"returns": [score] * 50} for score in scores]

    small = tables.compare(tables.final_scores({"rlox": runs(0.9641), "sb3": runs(0.95)}))
    assert tables.cells(small) == [
        "0.964 [0.964, 0.964]",
        "0.950 [0.950, 0.950]",
        "0.014 [0.014, 0.014]",
    ]
    large = tables.compare(tables.final_scores({"rlox": runs(9.0), "sb3": runs(-10.0)}))
    assert tables.cells(large)[0] == "9.0 [9.0, 9.0]"


@pytest.mark.parametrize("normalize", [False, True])
def test_the_peer_keeps_standardised_observations_as_floats(
    normalize: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Bytes(gym.Env[Any, Any]):
        observation_space = gym.spaces.Box(0, 255, (5,), np.uint8)
        action_space = gym.spaces.Discrete(2)

        def reset(self, **options: Any) -> Any:
            return np.zeros(5, np.uint8), {}

    monkeypatch.setitem(gym.registry, "Bytes-v0", gym.envs.registration.EnvSpec("Bytes-v0", Bytes))
    preset = {"env": {"n_envs": 1, "normalize_obs": normalize}, "algo": {"n_steps": 4}}
    kept = sb3.make("ppo", "Bytes-v0", preset, 0).rollout_buffer.observations
    assert kept.dtype == (np.float32 if normalize else np.uint8)
