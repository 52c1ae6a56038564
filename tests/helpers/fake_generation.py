"""Imitates a generation server, vLLM, SGLang or TGI, in this process, with its own model.

A mode sets the fault; the tests state the expected result of each.
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rlox._core import Stream
from rlox.llm import GeneratedTokens, Sampling, TextModel, generate_completions, load_llama


class FakeServer:
    """Completes prompts with `model`; `mode` is the fault of the first `times` requests."""

    def __init__(self, model: nn.Module, mode: str = "", times: int = 10**6) -> None:
        self.model = copy.deepcopy(model)
        self.mode, self.times = mode, times
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.url, self.over = "", threading.Event()

    def next_fault(self) -> str:
        """Return the fault of this request."""
        self.times -= 1
        return self.mode if self.times >= 0 else ""

    def complete(self, prompt: list[int], n: int, sampling: Sampling, seed: int) -> GeneratedTokens:
        """Return completions of this server's model."""
        uniforms = torch.from_numpy(Stream(seed, "fake").uniform(n * sampling.max_new_tokens))
        rows = [torch.tensor(prompt)] * n
        return generate_completions(TextModel(self.model), rows, sampling, uniforms.reshape(n, -1))


def _sampling(body: dict[str, Any], longest: str) -> Sampling:
    return Sampling(
        max_new_tokens=body[longest],
        temperature=body.get("temperature", 0.0),
        eos=tuple(body.get("stop_token_ids", ())),
    )


def _rows(server: FakeServer, prompt: list[int], n: int, sampling: Sampling, seed: int) -> list[Any]:
    """Return token ids, log-probabilities and end flag of each completion, changed by the mode's fault."""
    completed = server.complete(prompt, n, sampling, seed)
    fault = "" if server.mode in _HTTP_FAULTS else server.next_fault()
    rows = [
        [row.tolist(), log_probs[: len(row)].tolist(), bool(ended)]
        for row, log_probs, ended in zip(
            completed.token_rows(), completed.log_probs, completed.has_ended, strict=True
        )
    ]
    if fault == "loses a token":
        rows[0][0].pop()
        rows[0][1].pop()
    if fault == "loses a log-probability":
        rows[0][1].pop()
    if fault == "loses a completion":
        rows.pop()
    if fault == "one twice":
        rows.append(rows[0])
    if fault == "goes on behind the end":
        rows[0][0], rows[0][1] = [*sampling.eos, 3], [-1.0, -1.0]
    if fault == "not a number":
        rows[0][1][0] = float("nan")
    return rows


def _vllm(server: FakeServer, path: str, body: dict[str, Any]) -> Any:
    if path == "/v1/completions":
        sampling = _sampling(body, "max_tokens")
        rows = _rows(server, body["prompt"], body["n"], sampling, body["seed"])
        assert body["top_p"] == 1.0 and body["top_k"] == -1 and body["repetition_penalty"] == 1.0
        choices = [
            {"index": i, "token_ids": ids, "finish_reason": "stop" if ended else "length",
             "logprobs": {"token_logprobs": log_probs}}
            for i, (ids, log_probs, ended) in enumerate(rows)
        ]  # fmt: skip
        return {"choices": choices[::-1]}
    if path == "/reset_prefix_cache":
        return {"success": server.mode != "keeps its cache"}
    folder = body["kwargs"]["weights_path"] if path == "/collective_rpc" else body["lora_path"]
    if server.mode != "keeps its weights":
        server.model = _read(server.model, Path(folder))
    return "Success: LoRA adapter 'rlox' added successfully."  # not JSON, as in vLLM 0.32


def _read(model: Any, folder: Path) -> Any:
    """Return a whole model, or the present model with other adapters."""
    if not (folder / "adapter_model.safetensors").exists():
        return load_llama(folder)
    import peft
    from safetensors.torch import load_file

    if not getattr(model, "peft_config", None):
        model = peft.inject_adapter_in_model(peft.LoraConfig.from_pretrained(folder), model)
    adapter = load_file(folder / "adapter_model.safetensors")
    load_result = peft.set_peft_model_state_dict(model, adapter)
    assert not load_result.unexpected_keys
    return model


def _sglang(server: FakeServer, path: str, body: dict[str, Any]) -> Any:
    if path == "/generate":
        # As in SGLang, the seed determines the draws of a row, whatever its position.
        rows = []
        for prompt, about in zip(body["input_ids"], body["sampling_params"], strict=True):
            sampling = _sampling(about, "max_new_tokens")
            rows += _rows(server, prompt, 1, sampling, about["sampling_seed"])
        return [
            {"output_ids": ids, "meta_info": {
                "output_token_logprobs": [[s, t, None] for s, t in zip(log_probs, ids, strict=False)],
                "finish_reason": {"type": "stop" if ended else "length"},
            }}
            for ids, log_probs, ended in rows
        ]  # fmt: skip
    if server.mode == "does not load":
        return {"success": False, "message": "no such architecture"}
    server.model = load_llama(Path(body["model_path"]))
    return {"success": True, "message": "ok"}


def _tgi(server: FakeServer, path: str, body: dict[str, Any]) -> Any:
    prompt = [ord(letter) - ord("a") for letter in body["inputs"]]
    sampling = _sampling(body["parameters"], "max_new_tokens")
    sampling = Sampling(sampling.max_new_tokens, sampling.temperature, eos=(1,))
    (ids, log_probs, ended), *_ = _rows(server, prompt, 1, sampling, body["parameters"]["seed"])
    if server.mode == "reads something else":
        prompt = [*prompt[:-1], prompt[-1] + 1]
    tokens = [{"id": t, "logprob": s, "text": ""} for t, s in zip(ids, log_probs, strict=True)]
    reason = "eos_token" if ended else "length"
    prefill = [{"id": t, "logprob": None, "text": ""} for t in prompt]
    return {"details": {"finish_reason": reason, "prefill": prefill, "tokens": tokens}}


DIALECTS = {"vllm": _vllm, "sglang": _sglang, "tgi": _tgi}


def _handler(server: FakeServer, kind: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.requests.append((self.path, request))
            mode = server.mode if server.mode in _HTTP_FAULTS and server.next_fault() else ""
            if mode == "hangs":
                server.over.wait()
                return
            reply = DIALECTS[kind](server, self.path, request)
            body = (reply if isinstance(reply, str) else json.dumps(reply)).encode()
            status = {"500": 500, "400": 400}.get(mode, 200)
            if mode == "400":
                body = b'{"error": "prompt must be a string"}'
            if mode == "no JSON":
                body = b"<html>busy</html>"
            if mode == "too much":
                body = b" " * (2 << 20) + body
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if mode == "truncates" else body)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    return Handler


_HTTP_FAULTS = ("hangs", "500", "400", "no JSON", "too much", "truncates")


@contextmanager
def fake_generation(kind: str, model: nn.Module, mode: str = "", times: int = 10**6) -> Iterator[FakeServer]:
    """Yield a server of that kind; its address is `url`."""
    server = FakeServer(model, mode, times)
    listening = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server, kind))
    listening.daemon_threads = True
    server.url = f"http://127.0.0.1:{listening.server_address[1]}"
    thread = threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        listening.shutdown()
        listening.server_close()
        thread.join()
