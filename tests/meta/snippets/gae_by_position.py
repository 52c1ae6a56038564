# The page names the arrays without defining them.
import numpy as np
import rlox

rewards, values, dones = np.ones(6), np.zeros(6), np.zeros(6)
rewards_flat, values_flat, dones_flat = rewards, values, dones
last_value, last_vals, n_steps, gamma, lam = 0.0, np.zeros(2), 3, 0.99, 0.95

# Single-trajectory GAE
advantages, returns = rlox.compute_gae(rewards, values, dones, last_value, gamma, lam)

# Batched GAE (Rayon-parallel, all envs in one call)
adv, ret = rlox.compute_gae_batched(rewards_flat, values_flat, dones_flat, last_vals, n_steps, gamma, lam)

# f32 variant (faster for 64+ envs); printed with an ellipsis for its arguments
adv_f32, ret_f32 = rlox.compute_gae_batched_f32(
    *(a.astype(np.float32) for a in (rewards_flat, values_flat, dones_flat, last_vals)),
    n_steps, gamma, lam,
)
