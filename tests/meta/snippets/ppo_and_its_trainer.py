# The printed text says 50_000 timesteps, in both places.
from rlox.algorithms import PPO

ppo = PPO("CartPole-v1", n_envs=8, seed=42)
metrics = ppo.train(total_timesteps=4_096)
print(f"Mean reward: {metrics['mean_reward']:.1f}")

# Or even simpler with the trainer API:
from rlox.trainers import PPOTrainer

trainer = PPOTrainer(env="CartPole-v1", seed=42)
metrics = trainer.train(total_timesteps=4_096)
