"""A step of GRPO beside TRL: milliseconds of sampling, scoring and updating, and memory of the process.

Both have the same Llama, prompts, rewards and settings: 2 prompts with 8 completions each, 16 new tokens, no
reference model, one thread. Each system runs in its own process, in turn. TRL has its own virtual
environment, which `--install-trl` makes (5.6 GB). The ratios within one call of this script are the result.

    pip install . && python benchmarks/bench_llm_training.py --install-trl
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measurement_process import install_venv, run_measurement

PROMPTS, GROUP_SIZE, PROMPT_LENGTH, NEW_TOKENS, LEARNING_RATE = 2, 8, 8, 16, 1e-5
PAD, END = 0, 1
TRL_PACKAGES = ("trl==1.16.0", "transformers==5.23.0", "peft==0.21.2", "torch==2.15.0")
SYSTEMS = ("trl", "rlox")
PHASE_KEYS = ("write", "score", "update")
# In the second model, matrix products take most of the time.
MODELS: dict[str, dict[str, int]] = {
    "tiny": {"vocab_size": 357, "hidden_size": 64, "num_hidden_layers": 2},
    "wide": {"vocab_size": 2048, "hidden_size": 512, "num_hidden_layers": 6},
}
STEPS = {"tiny": 60, "wide": 8}


def make_model(name: str, folder: Path) -> None:
    """Write the folder of the model, which both systems load, and the prompts."""
    import numpy as np
    import torch

    from rlox.llm import Llama, LlamaSize, save_llama

    torch.manual_seed(0)
    size = MODELS[name]
    heads = size["hidden_size"] // 16 if name == "tiny" else 8
    model = Llama(
        LlamaSize(
            **size, intermediate_size=4 * size["hidden_size"], num_attention_heads=heads,
            num_key_value_heads=heads,
        )
    )  # fmt: skip
    save_llama(model, folder, eos=END, pad=PAD)
    rows = np.random.default_rng(0).integers(2, size["vocab_size"], (200, PROMPT_LENGTH))
    (folder / "prompts.json").write_text(json.dumps(rows.tolist()))


def add_seconds_to(seconds: dict[str, float], phase: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `call` so that its seconds are added to a phase."""

    def timed_call(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return call(*args, **kwargs)
        finally:
            seconds[phase] = seconds.get(phase, 0.0) + time.perf_counter() - start

    return timed_call


def run_rlox(folder: Path, steps: int) -> dict[str, float]:
    """Return the milliseconds of each phase of a step."""
    import torch

    from rlox.algorithms import GRPO
    from rlox.llm import load_llama

    torch.set_num_threads(1)
    prompts = torch.tensor(json.loads((folder / "prompts.json").read_text()))
    half = load_llama(folder).size.vocab_size // 2

    def reward(completions: list[Any], prompts: Any) -> list[float]:
        return [float((tokens < half).float().mean()) for tokens in completions]

    grpo = GRPO(
        load_llama(folder), reward_fn=reward, group_size=GROUP_SIZE, kl_coef=0.0, max_new_tokens=NEW_TOKENS,
        learning_rate=LEARNING_RATE, batch_size=PROMPTS, eos_token_id=(END,), pad_token_id=PAD,
    )  # fmt: skip
    seconds: dict[str, float] = {}
    source = grpo.source
    source._generator = add_seconds_to(seconds, "write", source._generator)
    source._reward_function = add_seconds_to(seconds, "score", source._reward_function)
    warmup_steps = max(steps // 5, 1)
    grpo.train(prompts[: warmup_steps * PROMPTS])
    seconds.clear()
    start = time.perf_counter()
    grpo.train(prompts[warmup_steps * PROMPTS : (warmup_steps + steps) * PROMPTS])
    total_seconds = time.perf_counter() - start
    return phase_milliseconds(seconds, total_seconds, steps)


def run_trl(folder: Path, steps: int) -> dict[str, float]:
    """Measure the same with TRL's trainer."""
    import torch
    from datasets import Dataset
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(folder)
    # The brackets are needed: the end and padding tokens are searched inside words, and `t1` is in `t12`.
    vocabulary = {f"<{number}>": number for number in range(model.config.vocab_size)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<2>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    hf_tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=f"<{END}>", pad_token=f"<{PAD}>", padding_side="left"
    )
    half = model.config.vocab_size // 2

    def reward(completion_ids: list[list[int]], **_: Any) -> list[float]:
        return [sum(token < half for token in ids) / len(ids) for ids in completion_ids]

    rows = json.loads((folder / "prompts.json").read_text())
    data = Dataset.from_list([{"prompt": " ".join(f"<{token}>" for token in row)} for row in rows])
    warmup_steps = max(steps // 5, 1)
    config = GRPOConfig(
        output_dir=str(folder / "trl"), per_device_train_batch_size=PROMPTS * GROUP_SIZE,
        num_generations=GROUP_SIZE, max_completion_length=NEW_TOKENS, beta=0.0, learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant", use_cpu=True, bf16=False, gradient_checkpointing=False,
        report_to=[], logging_steps=10**6, save_strategy="no", disable_tqdm=True,
        max_steps=warmup_steps + steps, seed=0,
    )  # fmt: skip
    seconds: dict[str, float] = {}
    step_times = {"begun": 0.0, "ended": 0.0}

    class StepTimer(TrainerCallback):  # type: ignore[misc]  # of a package that is not here
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            step_times["ended"] = time.perf_counter()
            if state.global_step == warmup_steps:
                seconds.clear()
                step_times["begun"] = step_times["ended"]

    trainer = GRPOTrainer(
        model=model, reward_funcs=reward, args=config, train_dataset=data, processing_class=hf_tokenizer,
        callbacks=[StepTimer()],
    )  # fmt: skip
    trainer._generate = add_seconds_to(seconds, "write", trainer._generate)
    timed_generation = add_seconds_to(seconds, "both", trainer._generate_and_score_completions)
    trainer._generate_and_score_completions = timed_generation
    trainer.train()
    seconds["score"] = seconds.pop("both") - seconds["write"]
    return phase_milliseconds(seconds, step_times["ended"] - step_times["begun"], steps)


def phase_milliseconds(seconds: dict[str, float], total_seconds: float, steps: int) -> dict[str, float]:
    """Return the milliseconds of each phase of a step, and the peak memory in MB.

    The update takes the time that is neither sampling nor scoring.
    """
    update = total_seconds - seconds["write"] - seconds["score"]
    parts = {"write": seconds["write"], "score": seconds["score"], "update": update}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**{name: 1e3 * part / steps for name, part in parts.items()}, "memory": peak}


def compare(python: Path | None, names: list[str], repeats: int) -> None:
    """Measure the systems in turn and print a table of medians."""
    print("| model | system | write ms | score ms | update ms | a step | times TRL | peak MB |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names:
        systems = [system for system in SYSTEMS if system != "trl" or python]
        runs: dict[str, list[dict[str, float]]] = {system: [] for system in systems}
        with tempfile.TemporaryDirectory() as folder:
            make_model(name, Path(folder))
            for _ in range(repeats):
                for system in systems:
                    interpreter = python if system == "trl" else None
                    child_arguments = ("--child", system, folder, "--steps", str(STEPS[name]))
                    runs[system].append(run_measurement(interpreter, __file__, *child_arguments))
        medians = {
            system: {part: statistics.median(run[part] for run in system_runs) for part in system_runs[0]}
            for system, system_runs in runs.items()
        }
        for system, parts in medians.items():
            step = sum(parts[phase] for phase in PHASE_KEYS)
            peer_step = sum(medians["trl"][phase] for phase in PHASE_KEYS) if python else float("nan")
            phase_cells = " | ".join(f"{parts[phase]:.1f}" for phase in PHASE_KEYS)
            print(
                f"| {name} | {system} | {phase_cells} | {step:.1f} | {peer_step / step:.2f} "
                f"| {parts['memory']:.0f} |",
                flush=True,
            )


def main() -> None:
    """Run the comparison, or one of its child processes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--install-trl", action="store_true")
    parser.add_argument("--trl-python", type=Path, help="the interpreter of an environment that has TRL")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        system, folder = args.child
        run = run_trl if system == "trl" else run_rlox
        print(json.dumps(run(Path(folder), args.steps)))
        return
    python = args.trl_python or (install_venv("trl", *TRL_PACKAGES) if args.install_trl else None)
    from rlox_cli.runs.provenance import cpu_model

    print(f"{cpu_model()}; {PROMPTS} prompts of {GROUP_SIZE} completions, {NEW_TOKENS} tokens")
    compare(python, args.models, args.repeats)


if __name__ == "__main__":
    main()
