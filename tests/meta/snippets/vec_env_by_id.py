# The page names the actions without defining them, and steps without a reset.
import rlox

actions = [0, 1] * 128

env = rlox.VecEnv(n=256, seed=42, env_id="CartPole-v1")
result = env.step_all(actions)
