"""Tests that restored environments of MuJoCo, ALE and MiniGrid continue bit for bit."""

from __future__ import annotations

import importlib.util

import gymnasium as gym
import numpy as np
import pytest
from helpers.play_record import play, through_json

from rlox.configs import EnvConfig, make
from rlox.envs.make import wrapped_factory
from rlox.envs.snapshot import can_save, restore_env, save_env
from rlox.errors import CheckpointError

MUJOCO = (
    "Ant-v5", "HalfCheetah-v5", "Hopper-v5", "Humanoid-v5", "HumanoidStandup-v5",
    "InvertedDoublePendulum-v5", "InvertedPendulum-v5", "Pusher-v5", "Reacher-v5", "Swimmer-v5",
    "Walker2d-v5",
)  # fmt: skip
GRIDS = (
    "MiniGrid-DoorKey-5x5-v0", "MiniGrid-Empty-Random-5x5-v0", "MiniGrid-FourRooms-v0",
    "MiniGrid-LavaCrossingS9N1-v0", "MiniGrid-LavaGapS5-v0", "MiniGrid-DistShift1-v0",
)  # fmt: skip


def extra(module: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(module) is None
    return pytest.mark.skipif(missing, reason=f"extra not installed: {module}")


def goes_on(config: EnvConfig, steps: int, training: bool = False) -> None:
    """Requires that a new environment continues from saved states exactly as the saved environment does."""
    env, other = (wrapped_factory(config, training=training)() for _ in range(2))
    assert can_save(env)
    env.reset(seed=3)
    other.reset(seed=99)
    for k in range(3):
        play(env, steps // 3 + 7 * k, seed=k)
        saved = through_json(save_env(env))
        play(other, 11, seed=5)
        restore_env(other, saved)
        assert play(env, steps, seed=20 + k) == play(other, steps, seed=20 + k)
    env.close()
    other.close()


@extra("mujoco")
@pytest.mark.parametrize("env_id", MUJOCO)
def test_a_restored_mujoco_environment_continues_bit_for_bit(env_id: str) -> None:
    goes_on(EnvConfig(env_id), 60)


@extra("mujoco")
def test_a_state_of_another_model_is_an_error() -> None:
    ant, hopper = gym.make("Ant-v5"), gym.make("Hopper-v5")
    ant.reset(seed=0)
    hopper.reset(seed=0)
    with pytest.raises(CheckpointError, match="another version of MuJoCo"):
        restore_env(hopper, save_env(ant))


@extra("ale_py")
@pytest.mark.parametrize("game", ["Breakout", "Pong"])
def test_a_restored_atari_game_keeps_its_lives_frame_stack_and_sticky_actions(game: str) -> None:
    config = make(EnvConfig, {"id": f"ALE/{game}-v5"})
    goes_on(config, 100, training=True)


@extra("ale_py")
def test_a_damaged_ale_state_is_an_error() -> None:
    env = wrapped_factory(EnvConfig("ALE/Pong-v5"))()
    env.reset(seed=0)
    saved = save_env(env)
    saved["own"]["machine"] = saved["own"]["machine"][:100]
    with pytest.raises(CheckpointError, match="cannot load its saved state"):
        restore_env(env, saved)


@extra("minigrid")
@pytest.mark.parametrize("env_id", GRIDS)
def test_a_restored_minigrid_environment_continues_bit_for_bit(env_id: str) -> None:
    goes_on(EnvConfig(env_id, wrappers=("minigrid_image",)), 300)


@extra("minigrid")
def test_a_carried_key_and_an_opened_door_are_saved() -> None:
    env, other = (wrapped_factory(EnvConfig("MiniGrid-DoorKey-5x5-v0"))() for _ in range(2))
    env.reset(seed=0)
    other.reset(seed=1)
    rng = np.random.default_rng(0)
    while env.unwrapped.carrying is None:  # type: ignore[attr-defined]
        env.step(int(rng.choice([0, 1, 2, 3])))
    restore_env(other, through_json(save_env(env)))
    assert other.unwrapped.carrying.type == "key"  # type: ignore[attr-defined]
    assert play(env, 400, seed=1) == play(other, 400, seed=1)


@extra("minigrid")
def test_minigrid_with_references_to_its_objects_is_not_exact() -> None:
    env = wrapped_factory(EnvConfig("MiniGrid-Dynamic-Obstacles-5x5-v0"))()
    assert not can_save(env)
