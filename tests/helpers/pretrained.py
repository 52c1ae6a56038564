"""Makes a tokenizer and models of transformers without downloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

TEXTS = (
    "the sky is blue today", "the sea is green", "what colour is the sky?", "user assistant system",
    "0123456789+= abcdefghijklmnopqrstuvwxyz", "is it blue or green?", "hello there, good day",
)  # fmt: skip
# The ChatML template: one turn per message; its end token also ends generated text.
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tokenizer(template: str | None = CHAT) -> Any:
    """Return a byte-pair tokenizer of a few sentences, with the special tokens of ChatML."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    special = ["<|pad|>", "<|im_start|>", "<|im_end|>"]
    bpe.train_from_iterator(
        TEXTS,
        trainers.BpeTrainer(
            vocab_size=320,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        pad_token=special[0],
        eos_token=special[2],
        additional_special_tokens=special[1:2],
        chat_template=template,
    )


def with_begin() -> Any:
    """Return a tokenizer as in Llama 2.

    Pieces include the space before them, and every text begins with a token.
    """
    bpe = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=False))
    bpe.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    bpe.decoder = decoders.Metaspace(prepend_scheme="first")
    special = ["<unk>", "<s>", "</s>"]
    characters = sorted(set("".join(TEXTS)))
    trainer = trainers.BpeTrainer(
        vocab_size=120, special_tokens=special, initial_alphabet=characters, show_progress=False
    )
    bpe.train_from_iterator(TEXTS, trainer)
    bpe.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        pad_token="</s>",
    )


def qwen(vocabulary: int = 321, seed: int = 0, positions: int = 128) -> Qwen2ForCausalLM:
    """Return a Qwen2 of two layers, 32 wide."""
    torch.manual_seed(seed)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=vocabulary,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=positions,
            tie_word_embeddings=True,
        )
    )


def folder(path: Path, template: str | None = CHAT, **options: Any) -> Path:
    """Write a model with its tokenizer, as `save_pretrained` does."""
    qwen(**options).save_pretrained(path)
    tokenizer(template).save_pretrained(path)
    return path
