"""Writes `golden/trl_tokens/tokens.json`: the tokens that TRL's trainers make of rows of text.

    python -m venv trl && trl/bin/pip install trl==1.16.0 transformers==5.23.0 torch==2.15.0
    HF_HUB_OFFLINE=1 trl/bin/python tests/parity/make_trl_tokens.py

The tokenizer next to it is that of `tests/helpers/pretrained.py`.
"""

from __future__ import annotations

import json
import tempfile
from typing import Any

from datasets import Dataset
from text_rows import GOLDEN, ROWS
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer


def tokens(kind: str) -> list[dict[str, Any]]:
    """Return the prompt, the answer and the rejected answer of each row."""
    tokenizer = AutoTokenizer.from_pretrained(GOLDEN)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1}
    model = Qwen2ForCausalLM(
        Qwen2Config(vocab_size=len(tokenizer), num_attention_heads=4, num_key_value_heads=2, **sizes)
    )
    rows, pairs = Dataset.from_list(ROWS[kind]), kind.startswith("pair")
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        model = Qwen2ForCausalLM.from_pretrained(folder)  # a trainer asks for the model's folder
        make, settings = (DPOTrainer, DPOConfig) if pairs else (SFTTrainer, SFTConfig)
        args = settings(output_dir=folder, use_cpu=True, bf16=False, report_to=[])
        made = make(model, args=args, train_dataset=rows, processing_class=tokenizer).train_dataset
    if pairs:
        names = {"prompt": "prompt_ids", "right": "chosen_ids", "wrong": "rejected_ids"}
        return [{name: row[theirs] for name, theirs in names.items()} for row in made]
    found = []
    for row in made:
        ids = row["input_ids"]
        # even if all tokens are labels, the first one has nothing before it
        asked = max(1, row.get("labels", ids).count(-100))
        found.append({"prompt": ids[:asked], "right": ids[asked:]})
    return found


if __name__ == "__main__":
    document = {kind: tokens(kind) for kind in ROWS}
    (GOLDEN / "tokens.json").write_text(json.dumps(document, indent=1) + "\n")
