# `obs`, `next_obs`, ... are placeholders in the text
import numpy as np

rng = np.random.default_rng(0)
obs, next_obs = rng.normal(3, 2, (500, 4)), rng.normal(3, 2, (500, 4))
actions, rewards = rng.normal(size=(500, 2)), rng.normal(size=500)
terminated, truncated = np.arange(500) % 50 == 49, np.zeros(500, bool)

import rlox
buf = rlox.OfflineDatasetBuffer(
    obs.ravel(), next_obs.ravel(), actions.ravel(),
    rewards, terminated, truncated,
    normalize=True,  # Compute obs normalization stats
)
# Uniform transition sampling (for TD3+BC, IQL, CQL, BC)
batch = buf.sample(batch_size=256, seed=42)
# Trajectory subsequence sampling (for Decision Transformer)
traj = buf.sample_trajectories(batch_size=8, seq_len=20, seed=42)
# Dataset statistics
print(buf.stats())  # n_transitions, n_episodes, mean_return, ...
print(buf.n_episodes())
