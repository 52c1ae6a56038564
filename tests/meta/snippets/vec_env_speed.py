# The printed text takes N_STEPS = 1000.
import time
import numpy as np
import rlox

N_ENVS = 256
N_STEPS = 100

vec = rlox.VecEnv(n=N_ENVS, seed=42)
obs = vec.reset_all()  # shape: (256, 4)

start = time.perf_counter()
for _ in range(N_STEPS):
    actions = np.random.randint(0, 2, size=N_ENVS).tolist()
    result = vec.step_all(actions)
elapsed = time.perf_counter() - start

total_steps = N_ENVS * N_STEPS
print(f"{total_steps / elapsed:,.0f} steps/sec")
