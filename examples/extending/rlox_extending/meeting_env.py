"""`Meeting-v0`: two agents on a line are paid for each step in which they stand in one cell."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

N_CELLS, STEPS = 7, 20


class MeetingEnv(gym.Env):
    """Each agent sees its own cell and the other's, and moves left, stays or moves right."""

    observation_space = spaces.Dict({name: spaces.Box(-1.0, 1.0, (2,)) for name in ("first", "second")})
    action_space = spaces.MultiDiscrete([3, 3])

    def reset(self, *, seed=None, options=None):
        """Place the agents at random."""
        super().reset(seed=seed)
        self.steps, self.cells = 0, self.np_random.integers(N_CELLS, size=2)
        return self._show(), {}

    def step(self, action):
        """Move both agents; the reward is common."""
        self.cells = np.clip(self.cells + np.asarray(action) - 1, 0, N_CELLS - 1)
        self.steps += 1
        reward = float(self.cells[0] == self.cells[1])
        return self._show(), reward, False, self.steps == STEPS, {}

    def _show(self):
        own, other = (2.0 * self.cells / (N_CELLS - 1) - 1.0).astype(np.float32)
        return {"first": np.array([own, other]), "second": np.array([other, own])}


gym.register("Meeting-v0", MeetingEnv)
