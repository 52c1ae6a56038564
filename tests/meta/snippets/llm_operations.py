# The page names the arrays without defining them.
import numpy as np
import rlox

rewards, group_size = np.array([0.9, 0.3, 0.7, 0.1, 1.0, 0.0, 0.5, 0.8]), 4
log_p, log_q, seq_len = np.full(6, -1.0), np.full(6, -1.5), 3
lengths, max_len = [3, 5, 2], 8

# GRPO group advantages
advantages = rlox.compute_batch_group_advantages(rewards, group_size)

# Token-level KL divergence
kl = rlox.compute_batch_token_kl(log_p, log_q, seq_len)
kl_schulman = rlox.compute_batch_token_kl_schulman(log_p, log_q, seq_len)

# Sequence packing
packed, masks, positions = rlox.pack_sequences(lengths, max_len)
