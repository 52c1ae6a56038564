import numpy as np
from rlox.gym_vec_env import GymVecEnv

vec = GymVecEnv("Pendulum-v1", n_envs=16, seed=0)
obs = vec.reset_all()  # shape: (16, 3)
result = vec.step_all(np.zeros((16, 1)))
