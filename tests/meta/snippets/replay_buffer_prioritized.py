# `td_errors` and `training_progress` are placeholders in the text
import numpy as np
import rlox

td_errors, training_progress = np.linspace(-1, 1, 32), 0.5

buffer = rlox.PrioritizedReplayBuffer(
    capacity=100_000,
    obs_dim=3,
    act_dim=1,
    alpha=0.6,  # priority exponent (0 = uniform, 1 = fully prioritised)
    beta=0.4,  # importance-sampling correction (anneal toward 1.0)
)

# Push with initial priority
obs = np.zeros(3, dtype=np.float32)
buffer.push(obs, action=0.5, reward=1.0, terminated=False, truncated=False, priority=1.0)

# Sample returns importance-sampling weights and indices
batch = buffer.sample(batch_size=32, seed=0)
weights = batch["weights"]  # use these to weight the loss
indices = batch["indices"]  # use these to update priorities

# After computing TD errors, update priorities
new_priorities = np.abs(td_errors) + 1e-6  # small epsilon for stability
buffer.update_priorities(
    indices.astype(np.uint64),
    new_priorities.astype(np.float64),
)

# Anneal beta toward 1.0 over training
buffer.set_beta(0.4 + training_progress * 0.6)
