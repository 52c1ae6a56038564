# `obs`, `action`, ... and `new_td_errors` are placeholders in the text
import numpy as np
import rlox

obs, next_obs = np.zeros(4, np.float32), np.ones(4, np.float32)
action, reward, terminated, truncated = 0.5, 1.0, False, False
new_td_errors = np.linspace(0.1, 2.0, 256)

pbuf = rlox.PrioritizedReplayBuffer(
    capacity=100_000, obs_dim=4, act_dim=1, alpha=0.6, beta=0.4
)
pbuf.push(obs, action, reward, terminated, truncated, next_obs, priority=1.0)
batch = pbuf.sample(batch_size=256, seed=42)
# Additional keys: weights (importance sampling), indices (for priority update)
pbuf.update_priorities(batch["indices"], new_td_errors)
pbuf.set_beta(0.7)  # Anneal toward 1.0
