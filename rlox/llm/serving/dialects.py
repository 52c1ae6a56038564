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

__all__ = ["DIALECTS", "Dialect", "Written"]


@dataclass(frozen=True)
class Written:
    """One completion as a server says it."""

    tokens: list[int]
    log_probs: list[float]
    cut_off: bool  # by its length


class Dialect(ABC):
    """One kind of server."""

    name: ClassVar[str]

    def __init__(
        self, channel: Channel, model: str, decode: Callable[[list[int]], str] | None
    ) -> None:
        self.channel, self.model, self.decode = channel, model, decode
        self._adapter = f"rlox-{uuid4().hex[:8]}"  # others may have theirs on the same server

    @abstractmethod
    def write(self, prompt: list[int], n: int, how: Sampling, seed: int) -> list[Written]:
        """`n` completions of a prompt."""

    @abstractmethod
    def load(self, folder: Path) -> None:
        """Answer with the weights in a folder (safetensors) from now on."""


# What a model's generation_config.json would say instead, where a request says nothing.
NO_FILTERS = {
    "top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}  # fmt: skip


class VLLM(Dialect):
    """An adapter's folder is loaded in the place of the last one; a whole model's is read again."""

    name = "vllm"

    def write(self, prompt: list[int], n: int, how: Sampling, seed: int) -> list[Written]:
        """By one request."""
        reply = self.channel.post(
            "/v1/completions",
            {
                "model": self.model, "prompt": prompt, "n": n, "seed": seed % 2**31, "logprobs": 0,
                "max_tokens": how.max_new_tokens, "temperature": how.temperature,
                "stop_token_ids": list(how.eos), "ignore_eos": True, "return_token_ids": True,
                "skip_special_tokens": False, **NO_FILTERS,
            },
        )  # fmt: skip
        choices = sorted(_of(reply, "choices", list), key=lambda choice: _of(choice, "index", int))
        if [choice["index"] for choice in choices] != list(range(n)):
            raise GenerationError(
                f"{self.channel.url} wrote {len(choices)} completions of a prompt, {n} were asked for: "
                f"numbers {[choice['index'] for choice in choices][:8]}"
            )
        return [
            Written(
                _of(choice, "token_ids", list),
                _of(_of(choice, "logprobs", Mapping), "token_logprobs", list),
                _of(choice, "finish_reason", str) == "length",
            )
            for choice in choices
        ]

    def load(self, folder: Path) -> None:
        """An adapter needs `--enable-lora` and VLLM_ALLOW_RUNTIME_LORA_UPDATING, a model dev mode."""
        if (folder / "adapter_config.json").exists():
            given = {"lora_name": self._adapter, "lora_path": str(folder), "load_inplace": True}
            self.channel.post("/v1/load_lora_adapter", given, read=False)
            self.model = self._adapter
        else:
            told = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
            self.channel.post("/collective_rpc", told, read=False)
            # keys and values of prompts are kept, which are of the weights of before
            if not _of(self.channel.post("/reset_prefix_cache", {}), "success", bool):
                raise GenerationError(f"{self.channel.url} keeps what it knew of prompts before")


class SGLang(Dialect):
    """The weights of a whole model are read again."""

    name = "sglang"

    def write(self, prompt: list[int], n: int, how: Sampling, seed: int) -> list[Written]:
        """By one request of as many rows: a seed says the same of every completion that it has."""
        sampling = {
            "max_new_tokens": how.max_new_tokens, "temperature": how.temperature,
            "stop_token_ids": list(how.eos), "ignore_eos": True, "skip_special_tokens": False,
            **NO_FILTERS,
        }  # fmt: skip
        seeds = [{**sampling, "sampling_seed": (seed + k) % 2**31} for k in range(n)]
        given = {"input_ids": [prompt] * n, "sampling_params": seeds, "return_logprob": True}
        reply = self.channel.post("/generate", given)
        found = []
        for answer in reply if isinstance(reply, list) else [reply]:
            about = _of(answer, "meta_info", Mapping)
            said = _of(about, "output_token_logprobs", list)
            ids, known = _of(answer, "output_ids", list), [_at(row, 1) for row in said]
            if ids != known:
                raise GenerationError(
                    f"{self.channel.url} says {len(ids)} tokens and log-probabilities of {len(known)} others"
                )
            reason = _of(_of(about, "finish_reason", Mapping), "type", str)
            found.append(Written(ids, [_at(row, 0) for row in said], reason == "length"))
        return found

    def load(self, folder: Path) -> None:
        """`/update_weights_from_disk`."""
        reply = self.channel.post("/update_weights_from_disk", {"model_path": str(folder)})
        if not _of(reply, "success", bool):
            raise GenerationError(
                f"{self.channel.url} does not load {folder}: {reply.get('message')}"
            )


class TGI(Dialect):
    """Reads text: `decode` says a prompt's, and the ids that it was read as have to be the prompt's."""

    name = "tgi"

    def write(self, prompt: list[int], n: int, how: Sampling, seed: int) -> list[Written]:
        """By a request each."""
        if self.decode is None:
            raise ConfigError(
                "a server of text-generation-inference reads text: give decode, ids -> text"
            )
        return [self._one(self.decode(prompt), prompt, how, seed + k) for k in range(n)]

    def _one(self, text: str, prompt: list[int], how: Sampling, seed: int) -> Written:
        drawn = how.temperature > 0.0
        sampling = {"do_sample": drawn, "seed": seed % 2**31} | (
            {"temperature": how.temperature} if drawn else {}
        )
        wanted = {
            "max_new_tokens": how.max_new_tokens,
            "details": True,
            "decoder_input_details": True,
        }
        reply = self.channel.post("/generate", {"inputs": text, "parameters": wanted | sampling})
        details = _of(reply, "details", Mapping)
        read = [_of(token, "id", int) for token in _of(details, "prefill", list)]
        if read != prompt:
            raise GenerationError(
                f"{self.channel.url} reads {text!r:.60} as tokens {read[:8]}, the prompt is {prompt[:8]}"
            )
        tokens = _of(details, "tokens", list)
        return Written(
            [_of(token, "id", int) for token in tokens],
            [_of(token, "logprob", float) for token in tokens],
            _of(details, "finish_reason", str) == "length",
        )

    def load(self, folder: Path) -> None:
        """It cannot."""
        raise ConfigError(
            "a server of text-generation-inference keeps its weights: start it again with "
            f"{folder}, or take vllm or sglang"
        )


DIALECTS: Mapping[str, type[Dialect]] = {kind.name: kind for kind in (VLLM, SGLang, TGI)}


def _of(said: Any, name: str, kind: Any) -> Any:
    """A part of an answer; `GenerationError` where it is missing or something else."""
    value = said.get(name) if isinstance(said, Mapping) else None
    good = isinstance(value, int | float) if kind is float else isinstance(value, kind)
    if not good:
        there = sorted(said)[:12] if isinstance(said, Mapping) else f"{said!r:.80}"
        raise GenerationError(
            f"an answer whose {name!r} is {value!r:.40}, expected a {kind.__name__}; it has {there}"
        )
    return value


def _at(row: Any, place: int) -> Any:
    if not isinstance(row, Sequence) or len(row) <= place:
        raise GenerationError(
            f"a log-probability {row!r:.40}, expected [log-probability, token, ...]"
        )
    return row[place]
