import numpy as np
import rlox

# Simulate a 2048-step rollout
n_steps = 2048
rewards = np.random.randn(n_steps).astype(np.float64)
values = np.random.randn(n_steps).astype(np.float64)
dones = (np.random.rand(n_steps) < 0.01).astype(np.float64)

# Single-environment GAE
advantages, returns = rlox.compute_gae(
    rewards=rewards,
    values=values,
    dones=dones,
    last_value=0.0,  # V(s_T+1) -- bootstrap from final state
    gamma=0.99,  # discount factor
    lam=0.95,  # GAE lambda
)

print(f"Advantages: mean={advantages.mean():.3f}, std={advantages.std():.3f}")
print(f"Returns: mean={returns.mean():.3f}, std={returns.std():.3f}")
