import rlox

env = rlox.CartPole(seed=42)
obs = env.reset()
episode_reward = 0.0
for t in range(500):
    result = env.step(1) # always push right (bad policy)
    episode_reward += result["reward"]
    if result["terminated"] or result["truncated"]:
        print(f"Episode length: {t + 1}, reward: {episode_reward}")
        break
