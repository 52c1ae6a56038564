import numpy as np
import rlox

rewards = np.array([1.0, 1.0, 1.0, 0.0], dtype=np.float64)
values = np.array([2.5, 2.0, 1.0, 0.0], dtype=np.float64)
dones = np.array([0.0, 0.0, 0.0, 1.0], dtype=np.float64)

advantages, returns = rlox.compute_gae(
    rewards=rewards, values=values, dones=dones,
    last_value=0.0, gamma=0.99, lam=0.95,
)
print(f"Returns: {returns}")  # discounted sums of future rewards
