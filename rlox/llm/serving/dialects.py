"""Request formats of generation servers: token ids in, token ids and log-probabilities out.

The formats are those of vLLM's `/v1/completions` (0.32, with `--logprobs-mode processed_logprobs`), of
SGLang's `/generate`, and of text-generation-inference's `/generate`, which accepts only text.
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
    """One completion in a server's reply."""

    tokens: list[int]
    log_probs: list[float]
    is_truncated: bool  # whether the maximum length ended it


class Dialect(ABC):
    """The request format of one kind of server."""

    name: ClassVar[str]

    def __init__(self, channel: Channel, model: str, decode: Callable[[list[int]], str] | None) -> None:
        self.channel, self.model, self.decode = channel, model, decode
        self._adapter = f"rlox-{uuid4().hex[:8]}"  # unique, because several runs may share the server

    @abstractmethod
    def generate(self, prompt: list[int], n: int, sampling: Sampling, seed: int) -> list[ServerCompletion]:
        """Generate `n` completions of a prompt."""

    @abstractmethod
    def load(self, folder: Path) -> None:
        """Make the server load the weights in a folder (safetensors)."""


# Sent with each request; for a missing key the server would take the model's generation_config.json.
UNFILTERED = {
    "top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}  # fmt: skip


class VLLM(Dialect):
    """vLLM: an adapter replaces the last one; a full model's weights are reloaded."""

    name = "vllm"

    def generate(self, prompt: list[int], n: int, sampling: Sampling, seed: int) -> list[ServerCompletion]:
        """Generate with one request."""
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
        """Load weights.

        An adapter needs `--enable-lora` and VLLM_ALLOW_RUNTIME_LORA_UPDATING; a full model needs dev mode.
        """
        if (folder / "adapter_config.json").exists():
            adapter_body = {"lora_name": self._adapter, "lora_path": str(folder), "load_inplace": True}
            self.channel.post("/v1/load_lora_adapter", adapter_body, reads_reply=False)
            self.model = self._adapter
        else:
            reload_body = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
            self.channel.post("/collective_rpc", reload_body, reads_reply=False)
            # the prefix cache still has keys and values of the old weights
            if not _get_field(self.channel.post("/reset_prefix_cache", {}), "success", bool):
                raise GenerationError(f"{self.channel.url} did not reset its prefix cache of the old weights")


class SGLang(Dialect):
    """SGLang: the weights of a full model are reloaded."""

    name = "sglang"

    def generate(self, prompt: list[int], n: int, sampling: Sampling, seed: int) -> list[ServerCompletion]:
        """Generate with one request of `n` rows, because all completions of one seed would be equal."""
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
                    f"{self.channel.url} returned {len(ids)} tokens, and log-probabilities of "
                    f"{len(logged_ids)} other tokens"
                )
            reason = _get_field(_get_field(meta, "finish_reason", Mapping), "type", str)
            completions.append(
                ServerCompletion(ids, [_get_item(row, 0) for row in token_entries], reason == "length")
            )
        return completions

    def load(self, folder: Path) -> None:
        """Load weights by `/update_weights_from_disk`."""
        reply = self.channel.post("/update_weights_from_disk", {"model_path": str(folder)})
        if not _get_field(reply, "success", bool):
            raise GenerationError(f"{self.channel.url} does not load {folder}: {reply.get('message')}")


class TGI(Dialect):
    """text-generation-inference: it tokenizes a prompt's text, and its token ids have to be the prompt's."""

    name = "tgi"

    def generate(self, prompt: list[int], n: int, sampling: Sampling, seed: int) -> list[ServerCompletion]:
        """Generate with one request per completion."""
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
        """Raise `ConfigError`: the server cannot load weights."""
        raise ConfigError(
            "a server of text-generation-inference cannot load new weights: start it again with "
            f"{folder}, or use vllm or sglang"
        )


DIALECTS: Mapping[str, type[Dialect]] = {kind.name: kind for kind in (VLLM, SGLang, TGI)}


def _get_field(reply: Any, name: str, kind: Any) -> Any:
    """Return a field of a reply; `GenerationError` if it is missing or of another type."""
    value = reply.get(name) if isinstance(reply, Mapping) else None
    is_valid = isinstance(value, int | float) if kind is float else isinstance(value, kind)
    if not is_valid:
        keys = sorted(reply)[:12] if isinstance(reply, Mapping) else f"{reply!r:.80}"
        raise GenerationError(
            f"{name!r} of an answer is {value!r:.40}, expected a {kind.__name__}; the answer has {keys}"
        )
    return value


def _get_item(row: Any, index: int) -> Any:
    if not isinstance(row, Sequence) or len(row) <= index:
        raise GenerationError(f"a token of an answer is {row!r:.40}, expected [log-probability, token, ...]")
    return row[index]
