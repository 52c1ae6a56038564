"""Tests images from environment to learner: they stay bytes, frames are stored once, sizes are exact."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from helpers.bit_flipping import BitFlipping
from helpers.observation_spaces import Samples, image
from numpy.typing import NDArray

from rlox.algorithms import DQN, PPO
from rlox.envs.parts_codec import codec_of
from rlox.errors import ConfigError, NonFiniteError, ShapeError
from rlox.sources.arena import Arena
from rlox.sources.replay_sampler import frames_to_share, sampled_bytes
from rlox.types import Clock

EYE = spaces.Dict({"eye": image((7, 7, 3)), "speed": spaces.Box(-9, 9, (2,))})
SMALL: dict[str, Any] = {"net_arch": (8,), "encoder_features": 4, "seed": 1}


class Counting(gym.Env[Any, Any]):
    """Each frame shows a unique number and is stacked with the previous ones. Episodes have seven steps."""

    def __init__(self, frames: int = 4) -> None:
        self.observation_space = image((frames, 8, 8))
        self.action_space = spaces.Discrete(2)
        self.count = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.stack = np.zeros(self.observation_space.shape, np.uint8)  # type: ignore[arg-type]
        self.t = 0
        return self._next(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return self._next(), float(self.count), self.t == 7, False, {}

    def _next(self) -> NDArray[np.uint8]:
        self.count += 1
        frame = np.full((1, 8, 8), self.count % 251, np.uint8)
        frame[0, 0, 0] = self.count // 251
        self.stack = np.concatenate([self.stack[1:], frame])
        return self.stack


def filled(make: Any, steps: int = 400, **options: Any) -> Any:
    """Trains a DQN for `steps` steps; it learns in the last few of them."""
    given = {"learning_starts": steps - 8, "batch_size": 16, "buffer_size": 500, "train_freq": 4}
    algorithm = DQN(make, **SMALL, **given, **options)
    algorithm.train(steps)
    return algorithm


def test_frames_of_a_stack_are_stored_once_and_come_back_as_they_were_pushed() -> None:
    stacked, whole = filled(Counting).source.replay_sampler, filled(lambda: Counting(3)).source.replay_sampler
    per_row = [memory.buffer.nbytes / len(memory.buffer) for memory in (stacked, whole)]
    assert per_row[0] < 64 * 2 + 120  # one frame a row, and those of resets; four frames are 256
    assert per_row[1] > 64 * 3
    batch = stacked.sample(2, 0.5, 400)
    for column in (batch.obs, batch.next_obs):
        assert column.shape == (2, 16, 4 * 64)
        assert column.dtype == torch.uint8
    number = batch.obs.view(-1, 4, 64)[..., -1].int() + 251 * batch.obs.view(-1, 4, 64)[..., 0].int()
    after = batch.next_obs.view(-1, 4, 64)[..., -1].int() + 251 * batch.next_obs.view(-1, 4, 64)[..., 0].int()
    assert torch.equal(after[:, :3], number[:, 1:])
    assert torch.equal(after[:, 3], batch.rewards.flatten().int())  # the frame of the step itself
    assert ((number[:, 1:] - number[:, :-1] == 1) | (number[:, :-1] == 0)).all()


def test_the_encoder_computes_each_image_once_to_act_and_to_score() -> None:
    made = PPO(Counting, n_envs=3, n_steps=8, batch_size=24, n_epochs=1, **SMALL)
    looked: list[int] = []
    made.policy.encoder.register_forward_hook(lambda module, given, out: looked.append(len(out)))
    for _ in range(2):
        rollout = made.source.collector.collect_in_arena(made.policy, 8)
        assert sum(looked) == 3 * 8 + 3  # and the last observations of the rollout
        with torch.no_grad():
            log_probs, _, values = made.policy.evaluate_actions(rollout.obs, rollout.actions)
        torch.testing.assert_close(rollout.log_probs, log_probs)
        torch.testing.assert_close(rollout.values, values)
        looked.clear()
        with torch.no_grad():
            next(made.policy.parameters()).mul_(1.5)  # other weights for the next rollout


@pytest.mark.parametrize(
    ("shape", "frames"),
    [
        ((4, 84, 84), 4),
        ((2, 9, 9, 3), 2),
        ((3, 84, 84), 1),
        ((1, 9, 9), 1),
        ((84, 84, 4), 1),
        ((9, 9), 1),
    ],
)
def test_the_shape_distinguishes_stacked_frames_from_colours(shape: tuple[int, ...], frames: int) -> None:
    assert frames_to_share(codec_of(image(shape))) == frames


@pytest.mark.parametrize("space", [image((7, 7, 3)), EYE])
def test_image_rows_stay_bytes_and_memory_checks_count_bytes(
    space: Any,
) -> None:
    make = lambda: Samples(space, spaces.Discrete(2))  # noqa: E731
    algorithm = PPO(make, n_envs=2, n_steps=4, batch_size=8, **SMALL)
    algorithm.train(8)
    codec, env = algorithm.collector.env.observations, algorithm.collector.env
    assert algorithm.source.last_batch()["obs"].dtype == np.uint8
    arena = Arena(4, 2, codec.dim, env.actions, codec.dtype)
    taken = sum(v.nbytes for v in vars(arena).values() if isinstance(v, np.ndarray))
    assert Arena.byte_size(4, 2, codec.dim, env.actions, codec.dtype) == taken
    batch = filled(make, 60).source.replay_sampler.sample(1, 0.5, 60)
    assert batch.obs.dtype == batch.next_obs.dtype == torch.uint8
    drawn = batch.obs.nbytes + batch.next_obs.nbytes
    assert drawn == 2 * 16 * codec.dim
    assert drawn < 16 * sampled_bytes(env) < drawn + 16 * 64


def test_a_run_whose_images_do_not_fit_into_memory_is_refused_before_it_begins() -> None:
    picture = lambda: Samples(image((84, 84, 3)), spaces.Discrete(2))  # noqa: E731
    with pytest.raises(ConfigError, match=r"replay buffer of 100,000,000 transitions needs .* TiB"):
        DQN(picture, buffer_size=100_000_000)
    with pytest.raises(ConfigError, match=r"rollouts of 4000000 steps .* needs .*; lower algo.n_steps"):
        PPO(picture, n_envs=1, n_steps=4_000_000)
    # IMPALA keeps about 3 MB for each of 512 rows at once, whatever the rollout takes
    with pytest.raises(ConfigError, match=r"needs .* of memory"):
        PPO(picture, n_envs=1, n_steps=1 << 17, batch_size=1 << 17, encoder="impala")


def test_numbers_beside_images_are_standardised_and_the_images_are_not() -> None:
    algorithm = PPO(
        lambda: Samples(EYE, spaces.Discrete(2)),
        n_envs=2,
        n_steps=16,
        batch_size=16,
        normalize_obs=True,
        **SMALL,
    )
    algorithm.train(64)
    normalizer, codec = algorithm.collector.obs_normalizer, algorithm.collector.env.observations
    assert normalizer is not None
    assert normalizer.moments.mean.shape == (2,)
    rows = codec.encode_batch([EYE.sample() for _ in range(3)])
    before = rows.copy()
    normalizer.apply(rows)
    assert np.array_equal(codec.pixel_view(rows), codec.pixel_view(before))
    mean, var = normalizer.moments.mean, normalizer.moments.var
    expected = (codec.numeric_view(before) - mean) / np.sqrt(var)
    np.testing.assert_allclose(codec.numeric_view(rows), expected, rtol=1e-5)
    with pytest.raises(ConfigError, match=r"normalize_obs=true: .* images only"):
        PPO(lambda: Samples(image((7, 7, 3)), spaces.Discrete(2)), normalize_obs=True)


class Broken(Samples):
    def observe(self) -> Any:
        return {**super().observe(), "speed": np.array([0.0, np.nan])}


@pytest.mark.parametrize("facade", [PPO, DQN])
def test_a_number_beside_an_image_that_is_not_finite_stops_the_run(facade: Any) -> None:
    algorithm = facade(lambda: Broken(EYE, spaces.Discrete(2)), n_envs=1, **SMALL)
    with pytest.raises(NonFiniteError, match=r"obs(: \S+ at step| is not finite)"):
        algorithm.train(2_048)
    with pytest.raises(NonFiniteError, match="the observation is not finite"):
        algorithm.predict(algorithm.components.actor.observations.space.sample() | {"speed": [0.0, np.nan]})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (np.zeros((3, 7, 7), np.uint8), r"an image of shape \(3, 7, 7\), expected \(7, 7, 3\)"),
        (np.zeros((7, 7, 3)), "an image of float64, expected uint8 from 0 to 255"),
        (np.full((7, 7, 3), 256), "an image of int64, expected uint8 from 0 to 255"),
    ],
)
def test_an_image_of_another_shape_or_dtype_is_refused(given: Any, told: str) -> None:
    codec = codec_of(EYE)
    seen = {"eye": given, "speed": np.zeros(2)}
    with pytest.raises(ValueError, match=f"part 'eye': {told}"):
        codec.encode_one(seen)
    with pytest.raises(ValueError, match="an image of"):
        codec.encode_batch({"eye": given[None], "speed": np.zeros((1, 2))})
    algorithm = PPO(lambda: Samples(EYE, spaces.Discrete(2)), n_envs=1, **SMALL)
    with pytest.raises(ShapeError, match=r"expected .*'eye': "):
        algorithm.predict(seen)
    assert algorithm.predict({"eye": np.zeros((7, 7, 3), np.int64), "speed": [0, 0]}) in (0, 1)


class Doors(Samples):
    """Its info tells which two of three doors are open; its image determines them."""

    def __init__(self, space: Any) -> None:
        super().__init__(space, spaces.Discrete(3))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        seen, _ = super().reset(seed=seed)
        return seen, self._mask(seen)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.mask[action], "a closed door was taken"
        seen, *rest, _ = super().step(action)
        return seen, *rest, self._mask(seen)  # type: ignore[return-value]

    def _mask(self, seen: Any) -> dict[str, Any]:
        pixels = seen["eye"] if isinstance(seen, dict) else seen
        self.mask = np.arange(3) != int(pixels.flat[0]) % 3
        return {"action_mask": self.mask.astype(np.int8)}


@pytest.mark.parametrize("space", [image((7, 7, 3)), EYE])
@pytest.mark.parametrize(
    ("facade", "options"),
    [
        (PPO, {"n_envs": 2, "n_steps": 16, "batch_size": 8}),
        (PPO, {"n_envs": 2, "n_steps": 16, "batch_size": 8, "share_encoder": False}),
        (DQN, {"learning_starts": 16, "batch_size": 8, "buffer_size": 100}),
    ],
)
def test_action_masks_work_with_byte_observations(facade: Any, options: dict[str, Any], space: Any) -> None:
    algorithm = facade(lambda: Doors(space), action_mask="info", **SMALL, **options)
    algorithm.train(96)  # a closed door would raise an error
    algorithm.evaluate(2)
    assert (
        algorithm.source.last_batch().get("obs", algorithm.components.actor.observations.rows(1)).dtype
        == np.uint8
    )
    seen = space.sample()
    for door in range(3):
        assert algorithm.predict(seen, action_masks=np.eye(3)[door]) == door


class Pictured(gym.ObservationWrapper[Any, Any, Any]):
    """Observes an image with one pixel for each bit."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        inside: Any = env.observation_space
        parts = {**inside.spaces, "observation": image((2, 2, 1))}
        self.observation_space = spaces.Dict(parts)

    def observation(self, observation: Any) -> Any:
        picture = (255 * np.asarray(observation["observation"])).astype(np.uint8)
        return {**observation, "observation": picture.reshape(2, 2, 1)}


def test_hindsight_gives_pictures_other_goals() -> None:
    algorithm = DQN(
        lambda: Pictured(BitFlipping(4)),
        hindsight="future",
        learning_starts=0,
        train_freq=40,
        batch_size=200,
        net_arch=(8,),
        seed=1,
    )
    batch, _ = algorithm.source.next(Clock(horizon=1000))
    assert batch is not None
    assert batch.obs.dtype == torch.uint8
    split = algorithm.components.actor.observations.split
    before, after = split(batch.obs[0].numpy()), split(batch.next_obs[0].numpy())
    there = (after["achieved_goal"] == after["desired_goal"]).all(-1)
    np.testing.assert_array_equal(batch.rewards[0], there.astype(np.float32) - 1)
    assert 0.05 < there.mean() < 0.9
    np.testing.assert_array_equal(after["observation"] == 255, after["achieved_goal"] == 1)
    np.testing.assert_array_equal(before["desired_goal"], after["desired_goal"])
    algorithm.train(120)


def test_workers_return_the_same_images_as_this_process() -> None:
    results = []
    for workers in ("sync", "subprocess"):
        algorithm = PPO(
            lambda: Samples(EYE, spaces.Discrete(2)),
            n_envs=2,
            n_steps=8,
            batch_size=8,
            workers=workers,
            **SMALL,
        )
        algorithm.train(32)
        results.append(algorithm.source.last_batch()["obs"].copy())
        algorithm.close()
    assert np.array_equal(*results)
    assert results[0].dtype == np.uint8
