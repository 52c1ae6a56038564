from rlox.collectors import RolloutCollector
from rlox.policies import DiscretePolicy

collector = RolloutCollector("CartPole-v1", n_envs=8, seed=0, gamma=0.99)
policy = DiscretePolicy(obs_dim=4, n_actions=2)

# Collect 128 steps from 8 envs = 1024 transitions
batch = collector.collect(policy, n_steps=128)

print(f"Observations: {batch.obs.shape}")  # torch.Size([1024, 4])
print(f"Advantages: {batch.advantages.shape}")  # torch.Size([1024])
# After the PPO update, this batch is discarded
