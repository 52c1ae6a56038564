import numpy as np
import rlox

# Create a buffer for an environment with 3-dim obs and 1-dim action
buffer = rlox.ReplayBuffer(capacity=100_000, obs_dim=3, act_dim=1)

# Store transitions
for i in range(1000):
    obs = np.random.randn(3).astype(np.float32)
    buffer.push(
        obs=obs,
        action=np.random.randn(),
        reward=float(np.random.randn()),
        terminated=False,
        truncated=False,
    )

print(f"Buffer size: {len(buffer)}")  # 1000

# Sample a training batch
batch = buffer.sample(batch_size=64, seed=42)
print(f"obs: {batch['obs'].shape}")  # (64, 3)
print(f"actions: {batch['actions'].shape}")  # (64, 1)
print(f"rewards: {batch['rewards'].shape}")  # (64,)
