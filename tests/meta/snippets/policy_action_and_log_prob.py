import torch
from rlox.policies import DiscretePolicy

policy = DiscretePolicy(obs_dim=4, n_actions=2)
obs = torch.randn(1, 4)  # single observation
action, log_prob = policy.get_action_and_logprob(obs)
print(f"Action: {action.item()}, log_prob: {log_prob.item():.3f}")
