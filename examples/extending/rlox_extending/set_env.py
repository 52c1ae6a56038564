"""`Set-v0`: choose the largest of five numbers, which the environment shows in random order."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

N_ITEMS, STEPS = 5, 20


class SetEnv(gym.Env):
    """Each step shows five numbers and a flag for each; the reward is the chosen number if its flag is 1."""

    observation_space = spaces.Dict(
        {"numbers": spaces.Box(-1.0, 1.0, (N_ITEMS,)), "flags": spaces.Box(0.0, 1.0, (N_ITEMS,))}
    )
    action_space = spaces.Discrete(N_ITEMS)

    def reset(self, *, seed=None, options=None):
        """Begin an episode."""
        super().reset(seed=seed)
        self.steps = 0
        return self._show(), {}

    def step(self, action):
        """Pay for the chosen number, and show five others."""
        reward = float(self.shown["numbers"][action] * self.shown["flags"][action])
        self.steps += 1
        return self._show(), reward, False, self.steps == STEPS, {}

    def _show(self):
        numbers = self.np_random.uniform(-1.0, 1.0, N_ITEMS).astype(np.float32)
        flags = (self.np_random.random(N_ITEMS) < 0.6).astype(np.float32)
        self.shown = {"numbers": numbers, "flags": flags}
        return self.shown


gym.register("Set-v0", SetEnv)
