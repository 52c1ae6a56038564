"""What servers are asked and how they answer: token ids in, token ids and log-probabilities out.

vLLM's `/v1/completions` (0.32, with `--logprobs-mode processed_logprobs`), SGLang's `/generate`, and
text-generation-inference's `/generate`, which reads text alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

from rlox.errors import ConfigError, GenerationError
from rlox.llm.decoding import Sampling
from rlox.llm.serving.channel import Channel

__all__ = ["DIALECTS", "Dialect", "ServerCompletion"]


@dataclass(frozen=True)
class ServerCompletion:
    """One completion as a server says it."""

    tokens: list[int]
    log_probs: list[float]
    is_truncated: bool  # by its length


class Dialect(ABC):
    """One kind of server."""

    name: ClassVar[str]

    def __init__(self, channel: Channel, model: str, decode: Callable[[list[int]], str] | None) -> None:
        self.channel, self.model, self.decode = channel, model, decode
        self._adapter = f"rlox-{uuid4().hex[:8]}"  # others may have theirs on the same server

    @abstractmethod
    def generate(self, prompt: list[int], n: int, sampling: Sampling, seed: int) -> list[ServerCompletion]:
        """`n` completions of a prompt."""

    @abstractmethod
    def load(self, folder: Path) -> None:
        """Answer with the weights in a folder (safetensors) from now on."""


# What a model's generation_config.json would say instead, where a request says nothing.
UNFILTERED = {
    "top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}  # fmt: skip


class VLLM(Dialect):
    """An adapter's folder is loaded in the place of the last one; a whole model's is read again."""

    name = "vllm"

    def generate(self, prompt: list[int], n: int, sampling: Sampling, seed: int) -> list[ServerCompletion]:
        """By one request."""
        reply = self.channel.post(
            "/v1/completions",
            {
                "model": self.model, "prompt": prompt, "n": n, "seed": seed % 2**31, "logprobs": 0,
                "max_tokens": sampling.max_new_tokens, "temperature": sampling.temperature,
                "stop_token_ids": list(sampling.eos), "ignore_eos": True, "return_token_ids": True,
                "skip_special_tokens": False, **UNFILTERED,
            },
        )  # fmt: skip
        choices = sorted(
            _get_field(reply, "choices", list), key=lambda choice: _get_field(choice, "index", int)
        )
        if [choice["index"] for choice in choices] != list(range(n)):
            raise GenerationError(
                f"{self.channel.url} wrote {len(choices)} completions of a prompt, {n} were asked for: "
                f"numbers {[choice['index'] for choice in choices][:8]}"
            )
        return [
            ServerCompletion(
                _get_field(choice, "token_ids", list),
                _get_field(_get_field(choice, "logprobs", Mapping), "token_logprobs", list),
                _get_field(choice, "finish_reason", str) == "length",
            )
            for choice in choices
        ]

    def load(self, folder: Path) -> None:
        """An adapter needs `--enable-lora` and VLLM_ALLOW_RUNTIME_LORA_UPDATING, a model dev mode."""
        if (folder / "adapter_config.json").exists():
            adapter_body = {"lora_name": self._adapter, "lora_path": str(folder), "load_inplace": True}
            self.channel.post("/v1/load_lora_adapter", adapter_body, reads_reply=False)
            self.model = self._adapter
        else:
            reload_body = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
            self.channel.post("/collective_rpc", reload_body, reads_reply=False)
            # keys and values of prompts are kept, which are of the weights of before
            if not _get_field(self.channel.post("/reset_prefix_cache", {}), "success", bool):
                raise GenerationError(f"{self.channel.url} keeps what it knew of prompts before")


class SGLang(Dialect):
    """The weights of a whole model are read again."""

    name = "sglang"

    def generate(self, prompt: list[int], n: int, sampling: Sampling, seed: int) -> list[ServerCompletion]:
        """By one request of as many rows: a seed says the same of every completion that it has."""
        sampling_params = {
            "max_new_tokens": sampling.max_new_tokens, "temperature": sampling.temperature,
            "stop_token_ids": list(sampling.eos), "ignore_eos": True, "skip_special_tokens": False,
            **UNFILTERED,
        }  # fmt: skip
        seeds = [{**sampling_params, "sampling_seed": (seed + k) % 2**31} for k in range(n)]
        body = {"input_ids": [prompt] * n, "sampling_params": seeds, "return_logprob": True}
        reply = self.channel.post("/generate", body)
        completions = []
        for answer in reply if isinstance(reply, list) else [reply]:
            meta = _get_field(answer, "meta_info", Mapping)
            token_entries = _get_field(meta, "output_token_logprobs", list)
            ids, logged_ids = (
                _get_field(answer, "output_ids", list),
                [_get_item(row, 1) for row in token_entries],
            )
            if ids != logged_ids:
                raise GenerationError(
                    f"{self.channel.url} says {len(ids)} tokens and log-probabilities of {len(logged_ids)} "
                    "others"
                )
            reason = _get_field(_get_field(meta, "finish_reason", Mapping), "type", str)
            completions.append(
                ServerCompletion(ids, [_get_item(row, 0) for row in token_entries], reason == "length")
            )
        return completions

    def load(self, folder: Path) -> None:
        """`/update_weights_from_disk`."""
        reply = self.channel.post("/update_weights_from_disk", {"model_path": str(folder)})
        if not _get_field(reply, "success", bool):
            raise GenerationError(f"{self.channel.url} does not load {folder}: {reply.get('message')}")


class TGI(Dialect):
    """Reads text: `decode` says a prompt's, and the ids that it was read as have to be the prompt's."""

    name = "tgi"

    def generate(self, prompt: list[int], n: int, sampling: Sampling, seed: int) -> list[ServerCompletion]:
        """By a request each."""
        if self.decode is None:
            raise ConfigError("a server of text-generation-inference reads text: give decode, ids -> text")
        return [self._generate_one(self.decode(prompt), prompt, sampling, seed + k) for k in range(n)]

    def _generate_one(self, text: str, prompt: list[int], sampling: Sampling, seed: int) -> ServerCompletion:
        is_sampled = sampling.temperature > 0.0
        sampling_params = {"do_sample": is_sampled, "seed": seed % 2**31} | (
            {"temperature": sampling.temperature} if is_sampled else {}
        )
        parameters = {
            "max_new_tokens": sampling.max_new_tokens,
            "details": True,
            "decoder_input_details": True,
        }
        reply = self.channel.post("/generate", {"inputs": text, "parameters": parameters | sampling_params})
        details = _get_field(reply, "details", Mapping)
        prefill_ids = [_get_field(token, "id", int) for token in _get_field(details, "prefill", list)]
        if prefill_ids != prompt:
            raise GenerationError(
                f"{self.channel.url} reads {text!r:.60} as tokens {prefill_ids[:8]}, the prompt is "
                f"{prompt[:8]}"
            )
        tokens = _get_field(details, "tokens", list)
        return ServerCompletion(
            [_get_field(token, "id", int) for token in tokens],
            [_get_field(token, "logprob", float) for token in tokens],
            _get_field(details, "finish_reason", str) == "length",
        )

    def load(self, folder: Path) -> None:
        """It cannot."""
        raise ConfigError(
            "a server of text-generation-inference keeps its weights: start it again with "
            f"{folder}, or take vllm or sglang"
        )


DIALECTS: Mapping[str, type[Dialect]] = {kind.name: kind for kind in (VLLM, SGLang, TGI)}


def _get_field(reply: Any, name: str, kind: Any) -> Any:
    """A part of an answer; `GenerationError` where it is missing or something else."""
    value = reply.get(name) if isinstance(reply, Mapping) else None
    is_valid = isinstance(value, int | float) if kind is float else isinstance(value, kind)
    if not is_valid:
        keys = sorted(reply)[:12] if isinstance(reply, Mapping) else f"{reply!r:.80}"
        raise GenerationError(
            f"an answer whose {name!r} is {value!r:.40}, expected a {kind.__name__}; it has {keys}"
        )
    return value


def _get_item(row: Any, index: int) -> Any:
    if not isinstance(row, Sequence) or len(row) <= index:
        raise GenerationError(f"a log-probability {row!r:.40}, expected [log-probability, token, ...]")
    return row[index]
