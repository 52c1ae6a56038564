# The printed text takes 50 updates.
import torch
import rlox
from rlox.collectors import RolloutCollector
from rlox.policies import DiscretePolicy
from rlox.losses import PPOLoss

# Setup
policy = DiscretePolicy(obs_dim=4, n_actions=2)
optimizer = torch.optim.Adam(policy.parameters(), lr=2.5e-4, eps=1e-5)
collector = RolloutCollector("CartPole-v1", n_envs=8, seed=42, gamma=0.99, gae_lambda=0.95)
loss_fn = PPOLoss(clip_eps=0.2, vf_coef=0.5, ent_coef=0.01)

# Training loop
for update in range(5):
    # 1. Collect rollout (8 envs x 128 steps = 1024 transitions)
    batch = collector.collect(policy, n_steps=128)

    # 2. Multiple SGD passes over the same rollout
    for epoch in range(4):
        for mb in batch.sample_minibatches(batch_size=256, shuffle=True):
            # Normalise advantages per minibatch
            adv = (mb.advantages - mb.advantages.mean()) / (mb.advantages.std() + 1e-8)

            # Compute clipped PPO loss
            loss, metrics = loss_fn(
                policy, mb.obs, mb.actions, mb.log_probs,
                adv, mb.returns, mb.values,
            )

            # Standard PyTorch optimisation step
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimizer.step()

    print(f"Update {update}: reward={batch.rewards.sum().item() / 8:.0f}, "
          f"policy_loss={metrics['policy_loss']:.3f}, "
          f"entropy={metrics['entropy']:.3f}")
