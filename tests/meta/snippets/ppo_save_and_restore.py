# Written from the signatures that the page lists, which has no example of them.
from rlox.algorithms.ppo import PPO

ppo = PPO(env_id="CartPole-v1", n_envs=2, seed=42, n_steps=16, batch_size=16)
metrics = ppo.train(total_timesteps=32)
ppo.save(path="ppo_cartpole")
restored = PPO.from_checkpoint("ppo_cartpole")
named = PPO.from_checkpoint(path="ppo_cartpole", env_id="CartPole-v1")
