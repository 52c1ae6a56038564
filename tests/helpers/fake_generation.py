"""A generation server in this process that answers as vLLM, SGLang or TGI do, from a model of its own.

What goes wrong is a mode: the tests say what each has to come out as.
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
from rlox.llm import Completed, Sampling, TextModel, completions, load_llama


class FakeServer:
    """Completions of `model`; `mode` is what it does wrong, the first `times` times that it is asked."""

    def __init__(self, model: nn.Module, mode: str = "", times: int = 10**6) -> None:
        self.model = copy.deepcopy(model)
        self.mode, self.times = mode, times
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.url, self.over = "", threading.Event()

    def wrong(self) -> str:
        """What goes wrong this time."""
        self.times -= 1
        return self.mode if self.times >= 0 else ""

    def completed(self, prompt: list[int], n: int, how: Sampling, seed: int) -> Completed:
        """Of this server's model."""
        uniforms = torch.from_numpy(Stream(seed, "fake").uniform(n * how.max_new_tokens))
        rows = [torch.tensor(prompt)] * n
        return completions(TextModel(self.model), rows, how, uniforms.reshape(n, -1))


def _sampling(given: dict[str, Any], longest: str) -> Sampling:
    return Sampling(
        max_new_tokens=given[longest],
        temperature=given.get("temperature", 0.0),
        eos=tuple(given.get("stop_token_ids", ())),
    )


def _rows(server: FakeServer, prompt: list[int], n: int, how: Sampling, seed: int) -> list[Any]:
    """Token ids, log-probabilities and whether it ended, of each; what a mode makes of them."""
    written = server.completed(prompt, n, how, seed)
    wrong = "" if server.mode in _TROUBLE else server.wrong()
    found = [
        [row.tolist(), said[: len(row)].tolist(), bool(ended)]
        for row, said, ended in zip(written.rows(), written.log_probs, written.ended, strict=True)
    ]
    if wrong == "loses a token":
        found[0][0].pop()
        found[0][1].pop()
    if wrong == "loses a log-probability":
        found[0][1].pop()
    if wrong == "loses a completion":
        found.pop()
    if wrong == "one twice":
        found.append(found[0])
    if wrong == "goes on behind the end":
        found[0][0], found[0][1] = [*how.eos, 3], [-1.0, -1.0]
    if wrong == "not a number":
        found[0][1][0] = float("nan")
    return found


def _vllm(server: FakeServer, path: str, given: dict[str, Any]) -> Any:
    if path == "/v1/completions":
        how = _sampling(given, "max_tokens")
        rows = _rows(server, given["prompt"], given["n"], how, given["seed"])
        assert given["top_p"] == 1.0 and given["top_k"] == -1 and given["repetition_penalty"] == 1.0
        choices = [
            {"index": i, "token_ids": ids, "finish_reason": "stop" if ended else "length",
             "logprobs": {"token_logprobs": said}}
            for i, (ids, said, ended) in enumerate(rows)
        ]  # fmt: skip
        return {"choices": choices[::-1]}
    if path == "/reset_prefix_cache":
        return {"success": server.mode != "keeps its cache"}
    folder = given["kwargs"]["weights_path"] if path == "/collective_rpc" else given["lora_path"]
    if server.mode != "keeps its weights":
        server.model = _read(server.model, Path(folder))
    return "Success: LoRA adapter 'rlox' added successfully."  # no JSON, as vLLM 0.32 says it


def _read(model: Any, folder: Path) -> Any:
    """A whole model, or the one that is there with other adapters."""
    if not (folder / "adapter_model.safetensors").exists():
        return load_llama(folder)
    import peft
    from safetensors.torch import load_file

    if not getattr(model, "peft_config", None):
        model = peft.inject_adapter_in_model(peft.LoraConfig.from_pretrained(folder), model)
    there = load_file(folder / "adapter_model.safetensors")
    told = peft.set_peft_model_state_dict(model, there)
    assert not told.unexpected_keys
    return model


def _sglang(server: FakeServer, path: str, given: dict[str, Any]) -> Any:
    if path == "/generate":
        # as SGLang does, a seed says what is drawn of a row, whatever its number is
        rows = []
        for prompt, about in zip(given["input_ids"], given["sampling_params"], strict=True):
            how = _sampling(about, "max_new_tokens")
            rows += _rows(server, prompt, 1, how, about["sampling_seed"])
        return [
            {"output_ids": ids, "meta_info": {
                "output_token_logprobs": [[s, t, None] for s, t in zip(said, ids, strict=False)],
                "finish_reason": {"type": "stop" if ended else "length"},
            }}
            for ids, said, ended in rows
        ]  # fmt: skip
    if server.mode == "does not load":
        return {"success": False, "message": "no such architecture"}
    server.model = load_llama(Path(given["model_path"]))
    return {"success": True, "message": "ok"}


def _tgi(server: FakeServer, path: str, given: dict[str, Any]) -> Any:
    prompt = [ord(letter) - ord("a") for letter in given["inputs"]]
    how = _sampling(given["parameters"], "max_new_tokens")
    how = Sampling(how.max_new_tokens, how.temperature, eos=(1,))
    (ids, said, ended), *_ = _rows(server, prompt, 1, how, given["parameters"]["seed"])
    if server.mode == "reads something else":
        prompt = [*prompt[:-1], prompt[-1] + 1]
    tokens = [{"id": t, "logprob": s, "text": ""} for t, s in zip(ids, said, strict=True)]
    reason = "eos_token" if ended else "length"
    prefill = [{"id": t, "logprob": None, "text": ""} for t in prompt]
    return {"details": {"finish_reason": reason, "prefill": prefill, "tokens": tokens}}


DIALECTS = {"vllm": _vllm, "sglang": _sglang, "tgi": _tgi}


def _handler(server: FakeServer, kind: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.asked.append((self.path, given))
            mode = server.mode if server.mode in _TROUBLE and server.wrong() else ""
            if mode == "hangs":
                server.over.wait()
                return
            reply = DIALECTS[kind](server, self.path, given)
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
            """Nothing."""

    return Handler


_TROUBLE = ("hangs", "500", "400", "no JSON", "too much", "truncates")


@contextmanager
def fake_generation(
    kind: str, model: nn.Module, mode: str = "", times: int = 10**6
) -> Iterator[FakeServer]:
    """A server of that kind; its address is `url`."""
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
