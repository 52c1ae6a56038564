"""Writes `golden/llama.npz`: the logits of transformers' Llama for some tokens.

`python tests/parity/make_transformers.py` with `tests` on the path and transformers installed. For each
number of `SIZES`, the file has `N/logits` and `N/padded`, the logits of tokens after padding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transformers

from parity.llama import GOLDEN, IDS, SIZES, padding, weights


def main() -> None:
    """Write the file."""
    found: dict[str, Any] = {"meta/made_by": f"transformers {transformers.__version__}"}
    for number, size in enumerate(SIZES):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**size)).eval()
        mask, positions = padding()
        model.load_state_dict(weights(model.state_dict()))
        with torch.no_grad():
            found[f"{number}/logits"] = model(input_ids=IDS).logits.numpy()
            given = {"attention_mask": mask, "position_ids": positions}
            found[f"{number}/padded"] = model(input_ids=IDS, **given).logits.numpy()
    np.savez_compressed(GOLDEN, **found)
    print(f"{len(found)} arrays, {GOLDEN.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
