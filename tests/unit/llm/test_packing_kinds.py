"""Tests all kinds of small causal models of transformers: packing equals padding, or is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from rlox.errors import ConfigError
from rlox.llm import TextModel

# The names of sizes in configurations.
SIZES: dict[str, int] = {
    **dict.fromkeys(("vocab_size", "max_position_embeddings", "n_positions"), 64),
    **dict.fromkeys(
        ("hidden_size", "n_embd", "d_model", "word_embed_proj_dim", "embedding_size", "lru_width"),
        32,
    ),
    **dict.fromkeys(("intermediate_size", "n_inner", "d_ff", "ffn_dim", "mlp_dim", "block_ff_dim"), 48),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "decoder_layers", "num_layers", "n_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "num_heads", "n_heads"), 4),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_experts_per_tok"), 2),
    **dict.fromkeys(("n_group", "topk_group", "first_k_dense_replace"), 1),
    **dict.fromkeys(("head_dim", "block_multiple_of", "linear_key_head_dim"), 8),
    **dict.fromkeys(("linear_value_head_dim", "state_size", "mamba_d_state"), 8),
    "moe_intermediate_size": 24,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MOST = 3_000_000  # parameters
LENGTHS = ((3, 2), (9, 6), (1, 1), (4, 1), (2, 5), (7, 3), (1, 4))  # of prompts and completions
KINDS = {kind.model_type: kind for kind in MODEL_FOR_CAUSAL_LM_MAPPING}


def small(kind: Any) -> Any:
    """Makes a small model of this kind with large weights, or returns None."""
    try:
        known = kind().to_dict()
        config = kind(**{name: size for name, size in SIZES.items() if name in known})
        of: Any = MODEL_FOR_CAUSAL_LM_MAPPING[kind]
        with torch.device("meta"):
            if sum(p.numel() for p in of(config).parameters()) > MOST:
                return None
        torch.manual_seed(0)
        made = of(config).eval()
    except Exception:  # sizes that do not fit together, packages that are not installed
        return None
    for weight in made.parameters():
        if weight.dim() > 1:
            weight.data *= 5
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_kind_of_model_packs_as_it_pads_or_is_refused(name: str) -> None:
    made = small(KINDS[name])
    if made is None:
        pytest.skip("no small model of these sizes")
    torch.manual_seed(1)
    prompts = [torch.randint(3, 60, (p,)) for p, _ in LENGTHS]
    mask = torch.arange(6) < torch.tensor([n for _, n in LENGTHS]).unsqueeze(1)
    given = (prompts, torch.randint(3, 60, (len(LENGTHS), 6)), mask)
    with torch.no_grad():
        try:
            found = TextModel(made, packing=True).completion_log_probs(*given)
        except ConfigError as error:
            assert "algo.packing=true: " in str(error)
            return
        alone = [
            TextModel(made).completion_log_probs([prompt], tokens[None], kept[None])
            for prompt, tokens, kept in zip(*given, strict=True)
        ]
    assert torch.allclose(found, torch.cat(alone), atol=1e-4)
