# The imports stand in the block before this one.
import numpy as np
import rlox

n_envs = 8
n_steps = 128

# Flat arrays in env-major layout: [env0_step0, env0_step1, ..., env1_step0, ...]
rewards_flat = np.random.randn(n_envs * n_steps).astype(np.float64)
values_flat = np.random.randn(n_envs * n_steps).astype(np.float64)
dones_flat = np.zeros(n_envs * n_steps, dtype=np.float64)
last_values = np.zeros(n_envs, dtype=np.float64)

advantages, returns = rlox.compute_gae_batched(
    rewards=rewards_flat,
    values=values_flat,
    dones=dones_flat,
    last_values=last_values,
    n_steps=n_steps,
    gamma=0.99,
    lam=0.95,
)
# Shape: (n_envs * n_steps,) -- same flat layout
