# The printed text has the training in between, which gives the flat weights.
import numpy as np

flat_f32_params = np.zeros(9_155, np.float32)

import rlox

collector = rlox.CandleCollector(
    env_id="CartPole-v1", n_envs=16,
    obs_dim=4, n_actions=2, n_steps=128,
    hidden=64, seed=42,
)

# Receive completed rollout batch (blocks until ready)
batch = collector.recv()
# Returns dict: observations, actions, rewards, dones,
#               log_probs, values, advantages, returns

# Sync weights from PyTorch after training
collector.sync_weights(flat_f32_params)

# Extract Candle weights for PyTorch init
weights = collector.get_weights()

collector.stop()
