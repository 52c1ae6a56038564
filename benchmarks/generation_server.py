"""Compare a real vLLM server with the model that it serves: log-probabilities, adapters, missing weights.

`make FOLDER` makes a small Llama. With a tokenizer in the same folder, `vllm serve FOLDER --served-model-name
tiny --dtype float32 --logprobs-mode processed_logprobs --enable-lora --max-lora-rank 8` serves it (the whole
recipe: benchmarks/results/generation_server.md). `check FOLDER URL` sends requests to the server, compares
its answers with the model and prints the differences.

    pip install '.[llm]' && python benchmarks/generation_server.py make FOLDER
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from rlox.algorithms import GRPO
from rlox.errors import GenerationError
from rlox.llm import Llama, LlamaSize, Sampling, TextModel, load_llama, save_llama
from rlox.llm.serving import GenerationServer

# vLLM on the CPU supports attention heads of 64 numbers.
SIZE = LlamaSize(
    vocab_size=357,
    hidden_size=128,
    intermediate_size=352,
    num_attention_heads=2,
    num_key_value_heads=1,
)
RANK, SCALE = 4, 2.0
ADAPTED_LAYERS = ("q_proj", "v_proj")


def make_model(folder: Path) -> None:
    """Write the folder of the model."""
    torch.manual_seed(0)
    save_llama(Llama(SIZE), folder, eos=1, pad=0)
    print(f"{folder}: a Llama of {SIZE}")


def merge_adapter(model: Llama, folder: Path, seed: int) -> Llama:
    """Return the model with an adapter (Hu et al. 2021, arXiv:2106.09685) merged in.

    `folder` gets the adapter in peft's format.
    """
    model, generator = copy.deepcopy(model), torch.Generator().manual_seed(seed)
    adapter_weights: dict[str, torch.Tensor] = {}
    for name, weight in model.named_parameters():
        part = name.removesuffix(".weight")
        if not part.endswith(ADAPTED_LAYERS):
            continue
        down = 0.1 * torch.randn(RANK, weight.shape[1], generator=generator)
        up = 0.1 * torch.randn(weight.shape[0], RANK, generator=generator)
        weight.data += SCALE * up @ down
        adapter_weights[f"base_model.model.{part}.lora_A.weight"] = down
        adapter_weights[f"base_model.model.{part}.lora_B.weight"] = up
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(adapter_weights, folder / "adapter_model.safetensors")
    adapter_config = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": int(SCALE * RANK),
        "target_modules": list(ADAPTED_LAYERS), "bias": "none", "lora_dropout": 0.0, "fan_in_fan_out": False,
    }  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(adapter_config))
    return model


def check_server(folder: Path, url: str) -> None:
    """Send requests to the server, compare the answers, and print the result."""
    model = load_llama(folder)
    prompts = [torch.tensor([5, 9, 200, 17]), torch.tensor([40, 41, 42])]
    with (
        GenerationServer("vllm", url, "tiny") as server,
        tempfile.TemporaryDirectory() as scratch_dir,
    ):
        server.load(folder, 0, TextModel(model), prompts[0], Sampling(eos=(1,)))
        for temperature in (1.0, 0.7):
            sampling = Sampling(max_new_tokens=16, temperature=temperature, eos=(1,))
            start = time.perf_counter()
            generated = server.generate(prompts, 6, sampling, [1, 2])
            elapsed = time.perf_counter() - start
            rows = [prompt for prompt in prompts for _ in range(6)]
            with torch.no_grad():
                log_probs = TextModel(model).completion_log_probs(
                    rows, generated.tokens, generated.mask, temperature
                )
            difference = float((log_probs - generated.log_probs).abs().max())
            print(f"temperature {temperature:g}: 12 completions, {int(generated.mask.sum())} tokens in "
                  f"{elapsed:.2f} s; a log-probability differs by {difference:.1e} at most")  # fmt: skip
        sampling = Sampling(max_new_tokens=16, eos=(1,))
        for version in (1, 2):
            adapted_model = merge_adapter(model, Path(scratch_dir) / f"adapter-{version}", version)
            start = time.perf_counter()
            server.load(
                Path(scratch_dir) / f"adapter-{version}",
                version,
                TextModel(adapted_model),
                prompts[0],
                sampling,
            )
            elapsed, difference = (
                time.perf_counter() - start,
                server.check(TextModel(adapted_model), prompts[1], sampling),
            )
            refusal = require_refusal(server, TextModel(model), prompts[0], sampling)
            print(
                f"adapter {version}: loaded and seen in {elapsed * 1e3:.0f} ms; "
                f"differs by {difference:.1e}; the model without it is refused ({refusal})"
            )
        # This prompt is long enough for the server to cache blocks of it, which belong to the earlier
        # weights.
        check_weight_reload(model, url, Path(scratch_dir), torch.arange(2, 222), sampling)
    check_learning(load_llama(folder), url, prompts)


def check_weight_reload(
    model: Llama, url: str, scratch_dir: Path, prompt: torch.Tensor, sampling: Sampling
) -> None:
    """Let the server reload all weights: first from the old place, then from that of the new weights."""
    changed_model = copy.deepcopy(model)
    with torch.no_grad():
        for weight in changed_model.parameters():
            weight.add_(0.02 * torch.randn(weight.shape))
    save_llama(changed_model, scratch_dir / "whole", eos=1, pad=0)
    with GenerationServer("vllm", url, "tiny") as server:
        server.channel.post("/collective_rpc", {"method": "reload_weights"}, reads_reply=False)
        try:
            server.check(TextModel(changed_model), prompt, sampling)
        except GenerationError as error:
            print(f"answered 200 without the new weights, and that is found: {error}")
        else:
            raise SystemExit("a server without the new weights was taken for one that has them")
        server.load(scratch_dir / "whole", 3, TextModel(changed_model), prompt, sampling)
        print("the whole model's weights arrived and were seen")


def check_learning(model: Llama, url: str, prompts: list[torch.Tensor]) -> None:
    """Train a few updates of GRPO; the server samples with the weights of each update."""
    with GenerationServer("vllm", url, "tiny") as server:
        grpo = GRPO(
            model, reward_fn=lower_half_reward, server=server, group_size=8, kl_coef=0.0, max_new_tokens=16,
            eos_token_id=(1,), learning_rate=1e-3, correction="token_truncate",
        )  # fmt: skip
        start = time.perf_counter()
        rewards = [grpo.train_step(prompts)["mean_reward"] for _ in range(10)]
        elapsed = time.perf_counter() - start
        print(f"GRPO, 10 updates, the weights sent before each, {elapsed:.1f} s: "
              f"mean reward {rewards[0]:.2f} to {rewards[-1]:.2f}, server at {server.version}")  # fmt: skip
        grpo.close()


def lower_half_reward(completions: list[torch.Tensor], prompts: Any) -> list[float]:
    """Return the share of the tokens in the lower half of the vocabulary."""
    return [float((row < 178).float().mean()) for row in completions]


def require_refusal(
    server: GenerationServer, model: TextModel, prompt: torch.Tensor, sampling: Sampling
) -> str:
    """Require that the server is refused for another model; return how far the log-probabilities differ."""
    try:
        server.check(model, prompt, sampling)
    except GenerationError as error:
        return str(error).partition("differs by ")[2].partition(",")[0]
    raise SystemExit("the server was taken for a model that it does not have")


def main() -> None:
    """Run the given command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("act", choices=("make", "check"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:8012")
    args = parser.parse_args()
    if args.act == "make":
        make_model(args.folder)
    else:
        check_server(args.folder, args.url)


if __name__ == "__main__":
    main()
