# `my_llm`, `ref_llm`, `verify_answer` and `prompts` are the reader's in the printed text.
import torch
from torch import nn

my_llm = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))
ref_llm = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))
prompts = torch.randint(0, 20, (3, 4))


def verify_answer(completion):
    return int(completion[0]) < 10


from rlox.algorithms import GRPO


def math_reward(completions, prompts):
    return [1.0 if verify_answer(c) else 0.0 for c in completions]


grpo = GRPO(model=my_llm, ref_model=ref_llm, reward_fn=math_reward)
grpo.train(prompts, n_epochs=3)
