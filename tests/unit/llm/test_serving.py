"""Tests generation servers: completions come from the server's model; errors are reported or retried."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers.fake_generation import FakeServer, fake_generation
from helpers.waiting import PATIENCE, until

from rlox.algorithms import GRPO, RLOO
from rlox.configs import make_run
from rlox.configs.params import code_paths, require_trusted
from rlox.errors import ConfigError, GenerationError, UnknownNameError
from rlox.llm import Llama, LlamaSize, Sampling, TextModel, save_llama
from rlox.llm.serving import DIALECTS, GenerationServer, channel

SIZE = LlamaSize(vocab_size=11, hidden_size=32, num_hidden_layers=1)
PROMPTS = [torch.tensor([3, 4, 5]), torch.tensor([6, 3, 4, 2]), torch.tensor([7])]
HOW = Sampling(max_new_tokens=6, temperature=0.8, eos=(1,), pad=0)
KINDS = tuple(DIALECTS)
UPDATE = "/update_weights_from_disk"


def llama(seed: int = 0) -> Llama:
    torch.manual_seed(seed)
    return Llama(SIZE)


def letters(ids: list[int]) -> str:
    return "".join(chr(ord("a") + token) for token in ids)


def asked(server: FakeServer, kind: str, **options: Any) -> GenerationServer:
    made = GenerationServer(kind, server.url, **{"decode": letters, "timeout": PATIENCE, **options})
    made.channel.retry_delay = 0.01
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_completions_and_their_log_probabilities_are_those_of_the_servers_model(kind: str) -> None:
    model = llama()
    with fake_generation(kind, model) as fake, asked(fake, kind) as server:
        written = server.generate(PROMPTS, 4, HOW, [1, 2, 3])
        again = server.generate(PROMPTS, 4, HOW, [1, 2, 3])
    assert written.tokens.shape[0] == 12
    assert all(map(torch.equal, written.token_rows(), again.token_rows())), (
        "a prompt's seed says what is drawn"
    )
    assert len({tuple(row.tolist()) for row in written.token_rows()[:4]}) > 1, "of a prompt's each is drawn"
    rows = [prompt for prompt in PROMPTS for _ in range(4)]
    said = TextModel(model).completion_log_probs(rows, written.tokens, written.mask, 0.8)
    torch.testing.assert_close(written.log_probs, said.detach(), rtol=0.0, atol=1e-5)
    ends = [row[-1] == 1 for row in written.token_rows()]
    assert written.has_ended.tolist() == ends
    assert all(end or len(row) == 6 for end, row in zip(ends, written.token_rows(), strict=True))


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_a_server_records_loaded_versions_and_detects_other_weights(kind: str, tmp_path: Path) -> None:
    other = llama(1)
    save_llama(other, tmp_path)
    with fake_generation(kind, llama()) as fake, asked(fake, kind) as server:
        assert server.version is None
        server.load(tmp_path, 3, TextModel(other), PROMPTS[0], HOW)
        assert server.version == 3
        with pytest.raises(GenerationError, match="has other weights than the model that learns"):
            server.check(TextModel(llama()), PROMPTS[0], HOW)


def test_load_detects_a_server_that_keeps_its_old_weights(tmp_path: Path) -> None:
    other = llama()
    with torch.no_grad():
        other.lm_head.weight.add_(0.01 * torch.randn(other.lm_head.weight.shape))
    save_llama(other, tmp_path)
    with (
        fake_generation("vllm", llama(), "keeps its weights") as fake,
        asked(fake, "vllm") as server,
    ):
        server.check(TextModel(llama()), PROMPTS[0], HOW)
        with pytest.raises(GenerationError, match="It may have answered without loading them"):
            server.load(tmp_path, 1, TextModel(other), PROMPTS[0], HOW)
        assert server.version is None


def test_load_refuses_a_server_that_does_not_reset_its_prefix_cache(tmp_path: Path) -> None:
    save_llama(llama(), tmp_path)
    with (
        fake_generation("vllm", llama(), "keeps its cache") as fake,
        asked(fake, "vllm") as server,
        pytest.raises(GenerationError, match="did not reset its prefix cache"),
    ):
        server.load(tmp_path, 1, TextModel(llama()), PROMPTS[0], HOW)
    assert server.version is None


def test_an_adapter_takes_the_place_of_the_last_one_and_is_asked_for_by_its_name(
    tmp_path: Path,
) -> None:
    other = llama(1)
    save_llama(other, tmp_path)
    (tmp_path / "adapter_config.json").write_text("{}")
    with fake_generation("vllm", llama()) as fake, asked(fake, "vllm", model="tiny") as server:
        server.generate(PROMPTS[:1], 1, HOW, [0])
        server.load(tmp_path, 1, TextModel(other), PROMPTS[0], HOW)
        told = dict(fake.requests)["/v1/load_lora_adapter"]
    assert told["load_inplace"] is True
    names = [given["model"] for path, given in fake.requests if path == "/v1/completions"]
    assert names == ["tiny", told["lora_name"]]
    assert told["lora_name"].startswith("rlox-")


def close(completions: list[torch.Tensor], prompts: Any) -> list[float]:
    """Returns the fraction of tokens below 5."""
    return [float((row < 5).double().mean()) for row in completions]


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_a_model_learns_from_what_a_server_writes_with_its_weights(kind: str) -> None:
    model = llama()
    options = {"max_new_tokens": 6, "eos_token_id": (1,), "learning_rate": 3e-3, "kl_coef": 0.0}
    with fake_generation(kind, llama(7)) as fake, asked(fake, kind) as server:
        grpo = GRPO(model, reward_fn=close, server=server, group_size=8, seed=1, **options)
        before = grpo.evaluate(PROMPTS)
        first = grpo.train_step(PROMPTS)
        for _ in range(14):
            last = grpo.train_step(PROMPTS)
        loads = [path for path, _ in fake.requests if path in ("/collective_rpc", UPDATE)]
        assert len(loads) == 15, "weights go before every batch"
        if kind == "vllm":
            resets = [i for i, (path, _) in enumerate(fake.requests) if path == "/reset_prefix_cache"]
            assert [fake.requests[i - 1][0] for i in resets] == loads
        assert last["mean_reward"] > first["mean_reward"]
        assert grpo.evaluate(PROMPTS) >= before
        assert grpo.source.resume_grade == "episode_start"
        grpo.close()
    assert server.version == 14


def test_staleness_limits_the_age_of_a_servers_weights() -> None:
    options = {"max_new_tokens": 6, "eos_token_id": (1,), "learning_rate": 1e-3}
    with fake_generation("vllm", llama(7)) as fake, asked(fake, "vllm") as server:
        options["correction"] = "token_truncate"
        grpo = GRPO(llama(), reward_fn=close, server=server, staleness=2, **options)
        versions = []
        for _ in range(7):
            grpo.train_step(PROMPTS)
            versions.append(server.version)
        grpo.close()
    assert versions == [0, 0, 0, 3, 3, 3, 6]


def test_ratios_of_stale_completions_refer_to_the_servers_weights() -> None:
    options = {"max_new_tokens": 6, "eos_token_id": (1,), "learning_rate": 0.01, "kl_coef": 0.0}
    with fake_generation("vllm", llama()) as fake, asked(fake, "vllm") as server:
        rloo = RLOO(llama(), reward_fn=close, server=server, staleness=2, **options)
        ratios = [rloo.train_step(PROMPTS)["policy/ratio"] for _ in range(3)]
        rloo.close()
    assert ratios[0] == pytest.approx(1.0, abs=1e-3)
    assert all(abs(ratio - 1.0) > 0.01 for ratio in ratios[1:])


def test_two_runs_that_share_a_server_learn_from_their_own_models_completions() -> None:
    options = {"max_new_tokens": 6, "eos_token_id": (1,), "learning_rate": 1e-3, "kl_coef": 0.0}
    with fake_generation("vllm", llama(7)) as fake, asked(fake, "vllm") as server:
        both = [GRPO(llama(seed), reward_fn=close, server=server, **options) for seed in (0, 1)]
        for grpo in (*both, *both):
            grpo.train_step(PROMPTS)
            weights = fake.model.lm_head.weight
            apart = [float((g.policy.lm_head.weight - weights).detach().abs().max()) for g in both]
            assert apart[both.index(grpo)] < 0.01 < max(apart)
        for grpo in both:
            grpo.close()


def test_training_detects_weights_that_another_run_loads_into_its_server() -> None:
    options = {"max_new_tokens": 6, "eos_token_id": (1,), "learning_rate": 1e-3}
    with fake_generation("vllm", llama()) as fake, asked(fake, "vllm") as server:
        grpo = GRPO(llama(), reward_fn=close, server=server, **options)
        load = server.load

        def overtaken(*given: Any) -> None:
            load(*given)
            fake.model = llama(5)

        server.load = overtaken  # type: ignore[method-assign]
        with pytest.raises(GenerationError, match="has other weights than the model that learns"):
            grpo.train_step(PROMPTS)
        grpo.close()


def test_a_server_that_keeps_its_weights_ends_the_run_before_an_update() -> None:
    model = llama()
    begin = model.lm_head.weight.detach().clone()
    options = {"max_new_tokens": 6, "eos_token_id": (1,)}
    with fake_generation("vllm", llama(7), "keeps its weights") as fake:
        grpo = GRPO(model, reward_fn=close, server=asked(fake, "vllm"), **options)
        with pytest.raises(GenerationError, match="has other weights than the model that learns"):
            grpo.train_step(PROMPTS)
        grpo.close()
    assert torch.equal(model.lm_head.weight, begin)


def test_a_run_folder_that_names_any_server_needs_trust() -> None:
    for url in ("http://127.0.0.1:8000", "http://localhost:9", "http://elsewhere.invalid:8000"):
        config = {"rewards": ["close"], "server": "vllm", "server_url": url}
        made = make_run({"algo": {"name": "grpo", **config}, "env": {"id": "text/copy", "n_envs": 1},
                         "task": "copy"})  # fmt: skip
        assert list(code_paths(made)) == [("algo.server_url", url)]
        with pytest.raises(ConfigError, match=rf"names an address: algo\.server_url={url}"):
            require_trusted(made, [], "runs/x", lambda _: "")
        require_trusted(made, [f"algo.server_url={url}"], "runs/x", lambda _: "")
    alone = {
        "algo": {"name": "grpo", "rewards": ["close"]},
        "env": {"id": "text/copy", "n_envs": 1},
    }
    assert list(code_paths(make_run(alone | {"task": "copy"}))) == [], "nobody is asked"


FAILS = {
    "hangs": "did not answer within 0.1 s (tried 3 times)",
    "500": "answers 500: ",
    "400": 'answers 400: {"error": "prompt must be a string"}',
    "no JSON": "answers 17 bytes that are no JSON: <html>busy</html> (tried 3 times)",
    "too much": "answers more than 1,048,576 bytes",
    "truncates": "(tried 3 times)",
    "loses a token": "some were lost",
    "loses a log-probability": "expected one <= 0 for each",
    "loses a completion": "wrote 3 completions of a prompt, 4 were asked for",
    "one twice": "wrote 5 completions of a prompt, 4 were asked for",
    "goes on behind the end": "with an end among them, expected 1 to 6 up to the first end",
    "not a number": "and log-probabilities [nan",
}
IN_VAIN = 0.1  # seconds until a request without an answer times out
AGAIN = ("hangs", "500", "no JSON", "truncates")  # faults that a retry may cure


@pytest.mark.parametrize("mode", FAILS)
def test_an_error_says_the_fault_of_a_server(mode: str) -> None:
    options = {"max_bytes": 1 << 20, "timeout": IN_VAIN if mode == "hangs" else PATIENCE}
    with (
        fake_generation("vllm", llama(), mode) as fake,
        asked(fake, "vllm", **options) as server,
    ):
        with pytest.raises(GenerationError) as raised:
            server.generate(PROMPTS[:1], 4, HOW, [1])
        assert FAILS[mode] in str(raised.value)
        assert fake.url in str(raised.value)
        tries = 3 if mode in AGAIN else 1
        until(lambda: len(fake.requests) >= tries, "request that came after its sender gave it up")
    assert len(fake.requests) == tries


def hangs_twice(server: GenerationServer, fake: FakeServer, patch: pytest.MonkeyPatch) -> None:
    """Makes the two hanging requests time out soon, and no other: the pause after a try sets the timeout."""
    tries = 0

    def pause(seconds: float) -> None:
        nonlocal tries
        tries += 1
        until(lambda: len(fake.requests) == tries, "request that hangs")
        server.channel.timeout = IN_VAIN if tries < 2 else PATIENCE

    server.channel.timeout = IN_VAIN
    patch.setattr(channel, "time", SimpleNamespace(monotonic=time.monotonic, sleep=pause))


@pytest.mark.parametrize("mode", AGAIN)
def test_retried_requests_neither_lose_nor_repeat_completions(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = llama()
    with fake_generation("vllm", model) as fake, asked(fake, "vllm") as server:
        whole = server.generate(PROMPTS, 4, HOW, [1, 2, 3])
    options = {"concurrency": 1} if mode == "hangs" else {}
    with (
        fake_generation("vllm", model, mode, times=2) as fake,
        asked(fake, "vllm", **options) as server,
    ):
        if mode == "hangs":
            hangs_twice(server, fake, monkeypatch)
        written = server.generate(PROMPTS, 4, HOW, [1, 2, 3])
        assert server.channel.failures == 2
    assert torch.equal(written.tokens, whole.tokens)
    assert torch.equal(written.log_probs, whole.log_probs)


def test_a_server_that_is_not_there_is_named() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with GenerationServer("vllm", f"http://127.0.0.1:{port}", retries=1) as server:
        server.channel.retry_delay = 0.01
        with pytest.raises(GenerationError, match=rf"127\.0\.0\.1:{port}/v1/completions cannot be reached"):
            server.generate(PROMPTS, 1, HOW, [0, 0, 0])


def test_a_text_that_is_read_as_other_tokens_is_refused() -> None:
    with (
        fake_generation("tgi", llama(), "reads something else") as fake,
        asked(fake, "tgi") as server,
        pytest.raises(GenerationError, match=r"reads 'def' as tokens \[3, 4, 6\], the prompt is"),
    ):
        server.generate(PROMPTS[:1], 1, HOW, [0])


def test_a_server_that_does_not_load_says_why(tmp_path: Path) -> None:
    save_llama(llama(), tmp_path)
    args = (1, TextModel(llama()), PROMPTS[0], HOW)
    with (
        fake_generation("sglang", llama(), "does not load") as fake,
        asked(fake, "sglang") as server,
        pytest.raises(GenerationError, match=r"does not load .*: no such architecture"),
    ):
        server.load(tmp_path, *args)
    with fake_generation("tgi", llama()) as fake, asked(fake, "tgi") as server:
        with pytest.raises(ConfigError, match="cannot load new weights: start it again with"):
            server.load(tmp_path, *args)
        with pytest.raises(ConfigError, match=r"has no \*\.safetensors"):
            server.load(tmp_path / "nothing", *args)


def test_a_generation_server_refuses_invalid_requests_before_sending() -> None:
    with pytest.raises(UnknownNameError, match="server 'vlm': expected one of vllm, sglang, tgi; did you"):
        GenerationServer("vlm")
    with pytest.raises(ConfigError, match="expected http:// or https://"):
        GenerationServer("vllm", "localhost:8000")
    with pytest.raises(ConfigError, match="top_k, top_p and min_p with a server"):
        GenerationServer("vllm").generate(PROMPTS, 1, Sampling(top_k=3), [0, 0, 0])
    with pytest.raises(ConfigError, match="give decode"):
        GenerationServer("tgi").generate(PROMPTS[:1], 1, HOW, [0])
