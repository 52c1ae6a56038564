# `...` stands for a model in the printed text, and its token ids are the reader's.
import torch
from torch import nn

prompt_ids = torch.randint(0, 20, (6, 4))
chosen_ids = torch.randint(0, 20, (6, 5))
rejected_ids = torch.randint(0, 20, (6, 3))
from rlox.algorithms import DPO

model = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))  # your language model
ref_model = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))  # frozen copy
ref_model.load_state_dict(model.state_dict())

dpo = DPO(model=model, ref_model=ref_model, beta=0.1)

# One training step on a batch of preference pairs
metrics = dpo.train_step(
    prompt=prompt_ids,  # (B, P) token IDs
    chosen=chosen_ids,  # (B, C) preferred completion
    rejected=rejected_ids,  # (B, R) dispreferred completion
)
