# between making and closing the buffer, the text says: "Same push/sample API as ReplayBuffer"
import numpy as np

import rlox
buf = rlox.MmapReplayBuffer(
    hot_capacity=10_000, total_capacity=1_000_000,
    obs_dim=84*84*4, act_dim=1,
    cold_path="/tmp/replay_cold.bin",
)
# Same push/sample API as ReplayBuffer
obs, next_obs = np.zeros(84*84*4, np.float32), np.ones(84*84*4, np.float32)
buf.push(obs, 0.5, 1.0, False, False, next_obs)
batch = buf.sample(batch_size=32, seed=42)
buf.close()  # Cleans up cold file
