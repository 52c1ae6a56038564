"""Train TRL's GRPO from a folder with a model and prompts, in an interpreter that has TRL:
`text_learning.py`.

FOLDER has config.json, model.safetensors and prompts.json `[[prompt ids, answer ids], ...]`. The trained
model is written to FOLDER/learned.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

PACKAGES = ("trl", "transformers", "torch")


def exact_match_reward(completion_ids: list[list[int]], answer: list[list[int]], **_: Any) -> list[float]:
    """Return 1 if the completion begins with the answer and its end token, else 0."""
    pairs = zip(completion_ids, answer, strict=True)
    return [float(ids[: len(answer_ids)] == answer_ids) for ids, answer_ids in pairs]


def main() -> None:
    """Train, and write the trained model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True, help="prompts of a batch")
    parser.add_argument("--group", type=int, required=True)
    parser.add_argument("--longest", type=int, required=True)
    parser.add_argument("--learning-rate", type=float, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(args.folder)
    # The brackets are needed: the end and padding tokens are searched inside words, and `t1` is in `t12`.
    vocabulary = {f"<{number}>": number for number in range(model.config.vocab_size)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<0>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    hf_tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=f"<{model.config.eos_token_id}>",
        pad_token=f"<{model.config.pad_token_id}>",
        padding_side="left",
    )
    rows = json.loads((args.folder / "prompts.json").read_text())
    data = Dataset.from_list(
        [{"prompt": " ".join(f"<{t}>" for t in ids), "answer": answer} for ids, answer in rows]
    )
    config = GRPOConfig(
        output_dir=str(args.folder / "trl"), per_device_train_batch_size=args.batch * args.group,
        num_generations=args.group, max_completion_length=args.longest, beta=0.0, loss_type="dapo",
        scale_rewards="none", temperature=1.0, learning_rate=args.learning_rate, max_grad_norm=1.0,
        lr_scheduler_type="constant", weight_decay=0.0, use_cpu=True, bf16=False,
        gradient_checkpointing=False, report_to=[], logging_steps=10**6, save_strategy="no",
        disable_tqdm=True, max_steps=len(rows) // args.batch, shuffle_dataset=False, seed=args.seed,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=exact_match_reward,
        args=config,
        train_dataset=data,
        processing_class=hf_tokenizer,
    )
    trainer.train()
    model.save_pretrained(args.folder / "learned")
    print(json.dumps({name: importlib.metadata.version(name) for name in PACKAGES}))


if __name__ == "__main__":
    main()
