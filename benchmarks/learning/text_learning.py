"""A small language model learns sums and then improves: the runs and table of experiments/language_models.

SFT trains until 30% of the held-out sums are right. Each algorithm starts from there. Two controls are GRPO
with a KL penalty towards the start and GRPO whose rewards have the wrong sign. The script makes the missing
runs, then the report.

    pip install . && python benchmarks/learning/text_learning.py --data FOLDER

`--trl-python PYTHON` adds TRL's GRPO; PYTHON is an interpreter that has trl 1.16.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from processes import RLOX, commit_entry, run_python, train_once
from tables import estimate, final_scores, markdown, publish

from rlox.algorithms import ALGORITHMS, BestOfN
from rlox.llm import TextModel, task_of
from rlox.llm.batches import make_completion_batch
from rlox.llm.prompts import TaskPrompts
from rlox.sources.text import pairs_of

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "language_models"
LEG, TASK, SEEDS = "arithmetic", "arithmetic", 5
N_EVAL_PROMPTS, HELD_OUT_SEED = (
    1_000,
    100_000,
)  # prompts of an evaluation, the seed of the first one
BEST_OF = 8
SFT_SYSTEM = "SFT"
SFT_OVERRIDES = ("eval.every=6400", "stop.score=0.3", "total_steps=512000")
# Overrides by name of the system; each starts from the SFT run, with the presets of conf/tuned/*/text.yaml.
SYSTEMS: dict[str, tuple[str, ...]] = {
    "GRPO": ("algo=grpo",),
    "GRPO held": ("algo=grpo", "algo.kl_coef=0.1"),
    "GRPO wrong sign": ("algo=grpo", "algo.rewards=[right]", "algo.reward_weights=[-1]"),
    "RLOO": ("algo=rloo",),
    "OnlineDPO": ("algo=online_dpo",),
    "DPO": ("algo=dpo", "algo.learning_rate=3e-4", "total_steps=64000"),
}
BEST_OF_SYSTEM = f"best of {BEST_OF}"
TRL_SYSTEM = "GRPO of TRL"
N_SAMPLES = 19_200  # prompts in GRPO's preset
HEAD = (
    "system", "prompts", "right of held-out sums, IQM [95% CI]", "mean above SFT [95% CI]",
    "right when drawn", "KL to SFT, nats a completion", "pairs the right way round",
)  # fmt: skip


def result_path(system: str, seed: int) -> Path:
    """Return the path of a result."""
    name = system.replace(" ", "-")
    return FOLDER / "results" / f"{LEG}_{name}_s{seed}.json"


def evaluate_run(run: Path, is_sampled: bool) -> list[float]:
    """Return the rewards of held-out prompts, for the best completions or for sampled ones."""
    deterministic_text = str(not is_sampled).lower()
    run_python(
        *RLOX,
        "evaluate",
        run,
        f"episodes={N_EVAL_PROMPTS}",
        f"seed={HELD_OUT_SEED}",
        f"deterministic={deterministic_text}",
    )
    episodes = json.loads((run / "eval" / "last.json").read_text())["episodes"]
    return [abs(reward) for reward in episodes]  # one of the runs has rewards of the opposite sign


@torch.no_grad()
def distance_to_start(run: Any, start_algorithm: Any, seed: int) -> dict[str, float]:
    """Return the KL to the start over sampled completions, and the fraction of held-out pairs ranked
    correctly.
    """
    text = run.learner.text
    prompts = text.prompts.held_out(HELD_OUT_SEED, 0, N_EVAL_PROMPTS)
    ids = [prompt.ids for prompt in prompts]
    generated = text.generate(ids, torch.Generator().manual_seed(seed))
    models = [run.learner.text.model, start_algorithm.learner.text.model]

    def completion_log_probs(model: TextModel, answers: Any) -> Any:
        log_probs = model.completion_log_probs(answers.prompts, answers.tokens, answers.mask)
        return log_probs.sum(1).numpy()

    answers_batch = make_completion_batch(ids, generated.token_rows())
    log_probs, start_log_probs = (completion_log_probs(model, answers_batch) for model in models)
    pairs = pairs_of(TaskPrompts(task_of(TASK), HELD_OUT_SEED), prompts, np.arange(len(prompts)))
    margins = [
        completion_log_probs(m, pairs.chosen) - completion_log_probs(m, pairs.rejected) for m in models
    ]
    return {
        "kl": float(np.mean(log_probs - start_log_probs)),
        "preferred": float(np.mean(margins[0] - margins[1] > 0.0)),
    }


def best_of_rewards(start_algorithm: Any, seed: int) -> list[float]:
    """Return the reward of the best of several completions of each held-out prompt."""
    text = start_algorithm.learner.text
    prompts = text.prompts.held_out(HELD_OUT_SEED, 0, N_EVAL_PROMPTS)
    answers = {tuple(p.ids.tolist()): p.answer for p in prompts}

    def reward(completions: Any, prompts_of_completions: Any) -> list[float]:
        rows = zip(completions, prompts_of_completions, strict=True)
        return [text.codec.exact_match((), c.numpy(), answers[tuple(p.tolist())]) for c, p in rows]

    sampling = text.sampling
    token_options = {"eos_token_id": sampling.eos, "pad_token_id": sampling.pad}
    sampler = BestOfN(text.model.module, reward, BEST_OF, sampling.max_new_tokens, seed=seed, **token_options)
    _, completion_rewards = sampler.sample([prompt.ids for prompt in prompts])
    rewards: list[float] = completion_rewards.max(1).tolist()
    return rewards


def train_system(name: str, seed: int, data: Path, *overrides: str) -> Path:
    """Return the run folder; train if it does not exist."""
    root = data / f"{name.replace(' ', '_')}_s{seed}"
    common_overrides = f"env=text task={TASK} seed={seed} eval.episodes=200 run_root={root}".split()
    return train_once(root, *common_overrides, *overrides)


def train_sft(seed: int, data: Path) -> Path:
    """Return the SFT run that all systems of a seed start from."""
    return train_system("sft", seed, data, "algo=sft", *SFT_OVERRIDES)


def train_result(system: str, seed: int, data: Path) -> dict[str, Any]:
    """Train and evaluate a system; return its result."""
    sft_run = train_sft(seed, data)
    start_algorithm = ALGORITHMS["sft"].from_checkpoint(sft_run)
    if system == BEST_OF_SYSTEM:
        return {"returns": best_of_rewards(start_algorithm, seed), "samples": 0, **commit_entry()}
    run = sft_run
    if system != SFT_SYSTEM:
        run = train_system(system, seed, data, f"init_from={sft_run}", *SYSTEMS[system])
    algorithm_class = ALGORITHMS[SYSTEMS[system][0].removeprefix("algo=") if system != SFT_SYSTEM else "sft"]
    return {
        "returns": evaluate_run(run, is_sampled=False),
        "drawn": float(np.mean(evaluate_run(run, is_sampled=True))),
        **distance_to_start(algorithm_class.from_checkpoint(run), start_algorithm, seed),
        "samples": json.loads((run / "result.json").read_text())["samples"],
        "packages": json.loads((run / "provenance.json").read_text())["packages"],
        **commit_entry(),
    }


def train_peer(interpreter: Path, seed: int, data: Path) -> dict[str, Any]:
    """Train TRL's GRPO with the same weights, prompts, order of prompts and settings."""
    sft_run = train_sft(seed, data)
    start_algorithm, folder = ALGORITHMS["sft"].from_checkpoint(sft_run), data / f"trl_s{seed}"
    text = start_algorithm.learner.text
    start_algorithm.save_pretrained(folder)
    rows = [
        [prompt.ids.tolist(), prompt.answer_ids.tolist()]
        for prompt in text.prompts.training_prompts(0, N_SAMPLES)
    ]
    (folder / "prompts.json").write_text(json.dumps(rows))
    preset = ALGORITHMS["grpo"].tuned(task=TASK).config.algo
    settings = {
        "seed": seed, "batch": preset.batch_size, "group": preset.group_size,
        "longest": text.sampling.max_new_tokens, "learning-rate": preset.initial("learning_rate"),
    }  # fmt: skip
    arguments = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
    script = Path(__file__).with_name("text_trl.py")
    packages = json.loads(run_python(script, folder, *arguments, interpreter=interpreter).splitlines()[-1])
    run = ALGORITHMS["sft"](str(folder / "learned"), task=TASK, seed=seed)
    greedy_evaluation, sampled_evaluation = (
        run.evaluate(N_EVAL_PROMPTS, HELD_OUT_SEED, deterministic=deterministic)
        for deterministic in (True, False)
    )
    return {
        "returns": list(greedy_evaluation.returns),
        "drawn": float(np.mean(sampled_evaluation.returns)),
        **distance_to_start(run, start_algorithm, seed),
        "samples": N_SAMPLES,
        "packages": packages,
        **commit_entry(),
    }


def report() -> None:
    """Write expected.json and the table of all systems whose seeds are complete."""
    runs = {}
    for system in (SFT_SYSTEM, *SYSTEMS, BEST_OF_SYSTEM, TRL_SYSTEM):
        paths = [result_path(system, seed) for seed in range(SEEDS)]
        if all(path.exists() for path in paths):
            runs[system] = [json.loads(path.read_text()) for path in paths]
    if SFT_SYSTEM not in runs:
        return
    scores = final_scores(runs)
    estimates, _ = estimate(scores)
    rows: list[tuple[str, ...]] = [HEAD]
    for system, system_runs in runs.items():
        gain = scores[system] - scores[SFT_SYSTEM]
        rng = np.random.default_rng(0)
        draws = gain[rng.integers(0, SEEDS, (10_000, SEEDS))].mean(1)
        low, high = np.percentile(draws, [2.5, 97.5])
        estimates[system] |= {"above_sft": float(gain.mean()), "above_sft_ci95": [low, high]}
        ci = estimates[system]["ci95"]
        means = {
            k: f"{np.mean([r[k] for r in system_runs]):.2f}"
            for k in ("drawn", "kl", "preferred")
            if k in system_runs[0]
        }
        rows.append(
            (
                system,
                f"{np.mean([r['samples'] for r in system_runs]):,.0f}",
                f"{estimates[system]['iqm']:.3f} [{ci[0]:.3f}, {ci[1]:.3f}]",
                "" if system == SFT_SYSTEM else f"{gain.mean():.3f} [{low:.3f}, {high:.3f}]",
                *(means.get(k, "") for k in ("drawn", "kl", "preferred")),
            )
        )
    leg = {"env": f"text/{TASK}", "total_steps": 19_200, "seeds": SEEDS, "systems": estimates}
    document = {"schema_version": 1, LEG: {**leg, "packages": runs[SFT_SYSTEM][0]["packages"]}}
    (FOLDER / "expected.json").write_text(json.dumps(document, indent=1) + "\n")
    publish(FOLDER, markdown(rows))


def main() -> None:
    """Make the missing runs, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--systems", nargs="+", choices=[SFT_SYSTEM, *SYSTEMS, BEST_OF_SYSTEM])
    parser.add_argument("--seeds", nargs="+", type=int)
    parser.add_argument("--trl-python", type=Path, help="also run TRL's GRPO, with this interpreter")
    args = parser.parse_args()
    torch.set_num_threads(1)
    (FOLDER / "results").mkdir(parents=True, exist_ok=True)
    for seed in args.seeds or range(SEEDS):
        peer_systems = (TRL_SYSTEM,) if args.trl_python else ()
        for system in (*(args.systems or (SFT_SYSTEM, *SYSTEMS, BEST_OF_SYSTEM)), *peer_systems):
            path = result_path(system, seed)
            if not path.exists():
                if system == TRL_SYSTEM:
                    result = train_peer(args.trl_python, seed, args.data)
                else:
                    result = train_result(system, seed, args.data)
                path.write_text(json.dumps(result, indent=1) + "\n")
                print(f"{path.stem}: {np.mean(result['returns']):.3f}", flush=True)
    report()


if __name__ == "__main__":
    main()
