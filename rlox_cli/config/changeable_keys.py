"""The keys that a resumed run may change; all others are frozen in its config.yaml."""

from __future__ import annotations

CHANGEABLE_KEYS = (
    "total_steps", "eval", "checkpoint", "log", "stop", "run", "device", "torch_threads", "threads",
    "algo.backend", "buffer.path", "buffer.memory", "dataset", "eval_dataset", "model", "tokenizer",
)  # fmt: skip
CHANGEABLE_KEYS_TEXT = (
    "total_steps, eval.*, checkpoint.*, log.*, stop.*, run.*, device, torch_threads, threads, algo.backend, "
    "buffer.memory, eval_dataset, and where the same data, model and tokenizer are (buffer.path, dataset, "
    "model, tokenizer)"
)
