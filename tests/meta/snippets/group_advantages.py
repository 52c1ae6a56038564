import numpy as np
import rlox

# Score 4 completions for the same prompt
rewards = np.array([0.9, 0.3, 0.7, 0.1], dtype=np.float64)
advantages = rlox.compute_group_advantages(rewards)
print(advantages)

# Batched: process multiple prompts at once
# 3 prompts, 4 completions each = 12 rewards
all_rewards = np.array([
    0.9, 0.3, 0.7, 0.1,  # prompt 1
    0.5, 0.5, 0.5, 0.5,  # prompt 2 (all equal -> advantages = 0)
    1.0, 0.0, 0.5, 0.8,  # prompt 3
], dtype=np.float64)
all_advantages = rlox.compute_batch_group_advantages(all_rewards, group_size=4)
print(all_advantages)
