"""A real vLLM server beside the model that it serves: log-probabilities, adapters, weights that did not come.

`make FOLDER` makes a small Llama; with a tokenizer beside it `vllm serve FOLDER --served-model-name tiny
--dtype float32 --logprobs-mode processed_logprobs --enable-lora --max-lora-rank 8` serves it (the whole
recipe: benchmarks/results/generation_server.md); `check FOLDER URL` asks, compares and tells.

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

# vLLM on the CPU knows heads of 64 numbers.
SIZE = LlamaSize(
    vocab_size=357,
    hidden_size=128,
    intermediate_size=352,
    num_attention_heads=2,
    num_key_value_heads=1,
)
RANK, SCALE = 4, 2.0
PARTS = ("q_proj", "v_proj")


def make(folder: Path) -> None:
    """The model's folder."""
    torch.manual_seed(0)
    save_llama(Llama(SIZE), folder, eos=1, pad=0)
    print(f"{folder}: a Llama of {SIZE}")


def adapted(model: Llama, folder: Path, seed: int) -> Llama:
    """The model with an adapter (Hu et al. 2021, arXiv:2106.09685) merged in; `folder` has it as of peft."""
    model, generator = copy.deepcopy(model), torch.Generator().manual_seed(seed)
    kept: dict[str, torch.Tensor] = {}
    for name, weight in model.named_parameters():
        part = name.removesuffix(".weight")
        if not part.endswith(PARTS):
            continue
        down = 0.1 * torch.randn(RANK, weight.shape[1], generator=generator)
        up = 0.1 * torch.randn(weight.shape[0], RANK, generator=generator)
        weight.data += SCALE * up @ down
        kept[f"base_model.model.{part}.lora_A.weight"] = down
        kept[f"base_model.model.{part}.lora_B.weight"] = up
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(kept, folder / "adapter_model.safetensors")
    about = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": int(SCALE * RANK),
        "target_modules": list(PARTS), "bias": "none", "lora_dropout": 0.0, "fan_in_fan_out": False,
    }  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(about))
    return model


def check(folder: Path, url: str) -> None:
    """Ask, compare, and tell."""
    model = load_llama(folder)
    prompts = [torch.tensor([5, 9, 200, 17]), torch.tensor([40, 41, 42])]
    with GenerationServer("vllm", url, "tiny") as server, tempfile.TemporaryDirectory() as kept:
        server.load(folder, 0, TextModel(model), prompts[0], Sampling(eos=(1,)))
        for temperature in (1.0, 0.7):
            how = Sampling(max_new_tokens=16, temperature=temperature, eos=(1,))
            begun = time.perf_counter()
            written = server.write(prompts, 6, how, [1, 2])
            spent = time.perf_counter() - begun
            rows = [prompt for prompt in prompts for _ in range(6)]
            with torch.no_grad():
                said = TextModel(model).completion_log_probs(
                    rows, written.tokens, written.mask, temperature
                )
            apart = float((said - written.log_probs).abs().max())
            print(f"temperature {temperature:g}: 12 completions, {int(written.mask.sum())} tokens in "
                  f"{spent:.2f} s; a log-probability differs by {apart:.1e} at most")  # fmt: skip
        how = Sampling(max_new_tokens=16, eos=(1,))
        for version in (1, 2):
            other = adapted(model, Path(kept) / f"adapter-{version}", version)
            begun = time.perf_counter()
            server.load(
                Path(kept) / f"adapter-{version}", version, TextModel(other), prompts[0], how
            )
            spent, apart = (
                time.perf_counter() - begun,
                server.check(TextModel(other), prompts[1], how),
            )
            before = server_refuses(server, TextModel(model), prompts[0], how)
            print(f"adapter {version}: loaded and seen in {spent * 1e3:.0f} ms; differs by {apart:.1e}; "
                  f"the model without it is refused ({before})")  # fmt: skip
        # long enough that the server keeps blocks of it, which are of the weights of before
        whole_models(model, url, Path(kept), torch.arange(2, 222), how)
    learn(load_llama(folder), url, prompts)


def whole_models(model: Llama, url: str, kept: Path, prompt: torch.Tensor, how: Sampling) -> None:
    """All weights at once: read again from where they were, then from where the new ones are."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        for weight in other.parameters():
            weight.add_(0.02 * torch.randn(weight.shape))
    save_llama(other, kept / "whole", eos=1, pad=0)
    with GenerationServer("vllm", url, "tiny") as server:
        server.channel.post("/collective_rpc", {"method": "reload_weights"}, read=False)
        try:
            server.check(TextModel(other), prompt, how)
        except GenerationError as error:
            print(f"answered 200 without the new weights, and that is found: {error}")
        else:
            raise SystemExit("a server without the new weights was taken for one that has them")
        server.load(kept / "whole", 3, TextModel(other), prompt, how)
        print("the whole model's weights arrived and were seen")


def learn(model: Llama, url: str, prompts: list[torch.Tensor]) -> None:
    """A few updates of GRPO from what the server writes with the weights of each."""
    with GenerationServer("vllm", url, "tiny") as server:
        grpo = GRPO(
            model, reward_fn=low, server=server, group_size=8, kl_coef=0.0, max_new_tokens=16,
            eos_token_id=(1,), learning_rate=1e-3, correction="token_truncate",
        )  # fmt: skip
        begun = time.perf_counter()
        rewards = [grpo.train_step(prompts)["mean_reward"] for _ in range(10)]
        spent = time.perf_counter() - begun
        print(f"GRPO, 10 updates, the weights sent before each, {spent:.1f} s: "
              f"mean reward {rewards[0]:.2f} to {rewards[-1]:.2f}, server at {server.version}")  # fmt: skip
        grpo.close()


def low(completions: list[torch.Tensor], prompts: Any) -> list[float]:
    """The part of the tokens in the lower half."""
    return [float((row < 178).float().mean()) for row in completions]


def server_refuses(
    server: GenerationServer, model: TextModel, prompt: torch.Tensor, how: Sampling
) -> str:
    """How far its log-probabilities are from another model's."""
    try:
        server.check(model, prompt, how)
    except GenerationError as error:
        return str(error).partition("differs by ")[2].partition(",")[0]
    raise SystemExit("the server was taken for a model that it does not have")


def main() -> None:
    """As the command says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("act", choices=("make", "check"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:8012")
    given = parser.parse_args()
    if given.act == "make":
        make(given.folder)
    else:
        check(given.folder, given.url)


if __name__ == "__main__":
    main()
