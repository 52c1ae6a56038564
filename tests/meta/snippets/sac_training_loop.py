import copy
import numpy as np
import torch
import torch.nn.functional as F
import gymnasium as gym
import rlox
from rlox.networks import QNetwork, SquashedGaussianPolicy, polyak_update
# Setup
env = gym.make("Pendulum-v1")
obs_dim, act_dim = 3, 1
act_high = 2.0
actor = SquashedGaussianPolicy(obs_dim, act_dim, hidden=256)
critic1 = QNetwork(obs_dim, act_dim, hidden=256)
critic2 = QNetwork(obs_dim, act_dim, hidden=256)
critic1_target = copy.deepcopy(critic1)
critic2_target = copy.deepcopy(critic2)
actor_opt = torch.optim.Adam(actor.parameters(), lr=3e-4)
critic1_opt = torch.optim.Adam(critic1.parameters(), lr=3e-4)
critic2_opt = torch.optim.Adam(critic2.parameters(), lr=3e-4)
# Rust replay buffer -- 8-13x faster sampling than Python alternatives
buffer = rlox.ReplayBuffer(capacity=100_000, obs_dim=obs_dim, act_dim=act_dim)
alpha = 0.2
gamma = 0.99
tau = 0.005
obs, _ = env.reset()
for step in range(20_000):
    # Select action
    if step < 1000: # random exploration
        action = env.action_space.sample()
    else:
        with torch.no_grad():
            obs_t = torch.as_tensor(obs, dtype=torch.float32).unsqueeze(0)
            action_t, _ = actor.sample(obs_t)
            action = action_t.squeeze(0).numpy() * act_high
    # Step environment
    next_obs, reward, terminated, truncated, _ = env.step(action)
    buffer.push(
        np.asarray(obs, dtype=np.float32),
        np.asarray(action, dtype=np.float32),
        float(reward), bool(terminated), bool(truncated),
        np.asarray(next_obs, dtype=np.float32),
    )
    obs = next_obs
    if terminated or truncated:
        obs, _ = env.reset()
    # Train
    if step >= 1000 and len(buffer) >= 256:
        batch = buffer.sample(batch_size=256, seed=step)
        obs_b = torch.as_tensor(batch["obs"], dtype=torch.float32)
        acts_b = torch.as_tensor(batch["actions"], dtype=torch.float32)
        rews_b = torch.as_tensor(batch["rewards"], dtype=torch.float32)
        term_b = torch.as_tensor(batch["terminated"], dtype=torch.float32)
        next_b = torch.as_tensor(batch["next_obs"], dtype=torch.float32)
        # Critic update
        with torch.no_grad():
            next_a, next_lp = actor.sample(next_b)
            q_next = torch.min(
                critic1_target(next_b, next_a * act_high).squeeze(-1),
                critic2_target(next_b, next_a * act_high).squeeze(-1),
            ) - alpha * next_lp
            target = rews_b + gamma * (1.0 - term_b) * q_next
        for critic, opt in [(critic1, critic1_opt), (critic2, critic2_opt)]:
            q = critic(obs_b, acts_b).squeeze(-1)
            opt.zero_grad(set_to_none=True)
            F.mse_loss(q, target).backward()
            opt.step()
        # Actor update
        new_a, log_p = actor.sample(obs_b)
        q_new = torch.min(
            critic1(obs_b, new_a * act_high).squeeze(-1),
            critic2(obs_b, new_a * act_high).squeeze(-1),
        )
        actor_opt.zero_grad(set_to_none=True)
        (alpha * log_p - q_new).mean().backward()
        actor_opt.step()
        # Soft update targets
        polyak_update(critic1, critic1_target, tau)
        polyak_update(critic2, critic2_target, tau)
