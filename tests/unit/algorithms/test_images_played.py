"""Tests the actions of image policies, and the refusal of incompatible encoders and gSDE settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from helpers.observation_spaces import Samples, image

from rlox.algorithms import SAC, Rainbow, RecurrentPPO
from rlox.errors import ConfigError
from rlox.networks.noisy import factorized_noise

PICTURE = image((7, 7, 3))
SMALL: dict[str, Any] = {"net_arch": (8,), "encoder_features": 4, "seed": 1}


def seeing(actions: Any) -> Any:
    return lambda: Samples(PICTURE, actions)


@pytest.mark.parametrize("use_sde", [False, True])
def test_a_sampled_action_of_sac_is_not_the_best_one(use_sde: bool) -> None:
    made = SAC(seeing(spaces.Box(-1, 1, (2,))), use_sde=use_sde, **SMALL)
    seen = PICTURE.sample()
    best = made.predict(seen)
    assert np.abs(made.predict(seen, deterministic=False) - best).max() > 1e-4


def test_noisy_networks_sample_choices_with_floating_point_noise() -> None:
    policy = Rainbow(seeing(spaces.Discrete(4)), noisy_sigma=5.0, **SMALL).policy
    rows = torch.randint(0, 256, (64, 147), dtype=torch.uint8)
    for seed in range(4):
        first, second = (torch.Generator().manual_seed(seed) for _ in range(2))
        noise = factorized_noise((policy.noise_size,), first)
        expected = policy(rows, noise).argmax(-1)
        assert torch.equal(policy.sample(rows, second), expected)


def test_init_from_refuses_two_encoders_for_a_shared_encoder(tmp_path: Path) -> None:
    given: dict[str, Any] = {**SMALL, "n_envs": 1, "n_steps": 4, "batch_size": 4}
    RecurrentPPO(seeing(spaces.Discrete(2)), share_encoder=False, **given).save(tmp_path / "two")
    with pytest.raises(ConfigError, match="critic_encoder"):
        RecurrentPPO(seeing(spaces.Discrete(2)), init_from=str(tmp_path / "two"), **given)


def test_gsde_needs_a_hidden_layer_also_behind_an_encoder() -> None:
    with pytest.raises(ConfigError, match="gSDE is not used"):
        SAC(
            lambda: Samples(image((36, 36, 1)), spaces.Box(-1, 1, (2,))),
            use_sde=True, encoder="nature", net_arch=(),
        )  # fmt: skip
