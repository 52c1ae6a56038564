# `obs`, `action`, ... are placeholders in the text
import numpy as np

obs, next_obs = np.zeros(4, np.float32), np.ones(4, np.float32)
action, reward, terminated, truncated = 0.5, 1.0, False, False

import rlox
buf = rlox.ReplayBuffer(capacity=100_000, obs_dim=4, act_dim=1)
buf.push(obs, action, reward, terminated, truncated, next_obs)
batch = buf.sample(batch_size=256, seed=42)
# Returns dict: obs, next_obs, actions, rewards, terminated, truncated
