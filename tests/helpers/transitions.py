"""Random transitions, and a plain-list model of a replay buffer."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

KEYS = ("obs", "next_obs", "actions", "rewards", "terminated", "truncated")


def episodes(n, rng, dim=3, end=0.2):
    """Return `n` consecutive transitions of one environment as a dict of arrays."""
    obs, steps = rng.normal(size=dim).astype(np.float32), []
    for _ in range(n):
        after = rng.normal(size=dim).astype(np.float32)
        flags = rng.random(2) < end / 2
        action, reward = rng.normal(size=1).astype(np.float32), np.float32(rng.normal())
        steps.append((obs, after, action, reward, flags[0], flags[1]))
        obs = rng.normal(size=dim).astype(np.float32) if flags.any() else after
    return {key: np.array(part) for key, part in zip(KEYS, zip(*steps, strict=True), strict=True)}


def row(batch, i):
    """Return transition `i` of a dict of arrays."""
    return {key: batch[key][i] for key in KEYS}


def push(buffer, step, **more):
    """Push one transition, or one of each environment."""
    buffer.push(
        *(step[key] for key in ("obs", "actions", "rewards", "terminated", "truncated")),
        step["next_obs"],
        **more,
    )


def push_batch(buffer, batch, **more):
    buffer.push_batch(
        *(batch[key] for key in ("obs", "actions", "rewards", "terminated", "truncated", "next_obs")),
        **more,
    )


@dataclass
class Model:
    """A list of all pushed transitions by environment; it holds only the newest `capacity` of each."""

    capacity: int
    n_envs: int = 1
    streams: list[list[dict]] = field(default_factory=list)

    def __post_init__(self):
        self.streams = [[] for _ in range(self.n_envs)]

    def transitions(self):
        """Return the held transitions by index."""
        capacity_per_env = self.capacity // self.n_envs
        return {
            t * self.n_envs + env: steps[t]
            for env, steps in enumerate(self.streams)
            for t in range(max(len(steps) - capacity_per_env, 0), len(steps))
        }

    def window(self, index, n, gamma):
        """Return the n-step return, discount and last transition from `index`, by the definition."""
        t, env = divmod(index, self.n_envs)
        total, factor = 0.0, 1.0
        for step in self.streams[env][t : t + n]:
            total, factor = total + factor * float(step["rewards"]), factor * gamma
            if step["terminated"] or step["truncated"]:
                break
        return total, factor * (1 - step["terminated"]), step


def check_batch(batch, expected):
    """Check that every row of a batch is the transition of its index."""
    for i, index in enumerate(batch["indices"].tolist()):
        for key in KEYS:
            np.testing.assert_array_equal(batch[key][i], expected[index][key], err_msg=key)


def check_contents(buffer, model):
    """Check that the buffer holds exactly the rows of the model."""
    expected = model.transitions()
    assert len(buffer) == len(expected)
    batch = buffer.gather(np.array(sorted(expected), np.uint64))
    assert batch["indices"].tolist() == sorted(expected)
    check_batch(batch, expected)
