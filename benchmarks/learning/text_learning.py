"""A small language model learns sums, then gets better at them: experiments/language_models.

SFT until three in ten held-out sums are right; from there each algorithm, beside them GRPO held to where it
began, and GRPO whose rewards have the wrong sign. Missing runs are made, then the report.

    pip install . && python benchmarks/learning/text_learning.py --data FOLDER

TRL's GRPO stands beside them with `--trl-python PYTHON`, an interpreter that has trl 1.16.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from children import RLOX, commit, python, trained
from tables import estimate, finals, markdown, publish

from rlox.algorithms import ALGORITHMS, BestOfN
from rlox.llm import TextModel, task_of
from rlox.llm.batches import answers_of
from rlox.llm.prompts import TaskPrompts
from rlox.sources.text import pairs_of

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "language_models"
LEG, TASK, SEEDS = "arithmetic", "arithmetic", 5
ASKED, HELD_OUT = 1_000, 100_000  # prompts of an evaluation, and the seed of the first
BEST_OF = 8
BEGIN = "SFT"
STOPS = ("eval.every=6400", "stop.score=0.3", "total_steps=512000")
# By name what is trained from where SFT stopped; the presets of conf/tuned/*/text.yaml.
SYSTEMS: dict[str, tuple[str, ...]] = {
    "GRPO": ("algo=grpo",),
    "GRPO held": ("algo=grpo", "algo.kl_coef=0.1"),
    "GRPO wrong sign": ("algo=grpo", "algo.rewards=[right]", "algo.reward_weights=[-1]"),
    "RLOO": ("algo=rloo",),
    "OnlineDPO": ("algo=online_dpo",),
    "DPO": ("algo=dpo", "algo.learning_rate=3e-4", "total_steps=64000"),
}
SAMPLER = f"best of {BEST_OF}"
PEER = "GRPO of TRL"
SAMPLES = 19_200  # prompts of GRPO's preset
HEAD = (
    "system", "prompts", "right of held-out sums, IQM [95% CI]", "mean above SFT [95% CI]",
    "right when drawn", "KL to SFT, nats a completion", "pairs the right way round",
)  # fmt: skip


def path_of(system: str, seed: int) -> Path:
    """Where one result is."""
    name = system.replace(" ", "-")
    return FOLDER / "results" / f"{LEG}_{name}_s{seed}.json"


def evaluated(run: Path, sampled: bool) -> list[float]:
    """Rewards of held-out prompts: of the best completions, or of drawn ones."""
    drawn = str(not sampled).lower()
    python(
        *RLOX, "evaluate", run, f"episodes={ASKED}", f"seed={HELD_OUT}", f"deterministic={drawn}"
    )
    episodes = json.loads((run / "eval" / "last.json").read_text())["episodes"]
    return [abs(worth) for worth in episodes]  # which have another sign in one of the runs


@torch.no_grad()
def apart(run: Any, begin: Any, seed: int) -> dict[str, float]:
    """KL to where it began, over drawn completions, and the part of held-out pairs that it has right."""
    text = run.learner.text
    prompts = text.prompts.held_out(HELD_OUT, 0, ASKED)
    ids = [prompt.ids for prompt in prompts]
    written = text.written(ids, torch.Generator().manual_seed(seed))
    models = [run.learner.text.model, begin.learner.text.model]

    def sums(model: TextModel, answers: Any) -> Any:
        said = model.completion_log_probs(answers.prompts, answers.tokens, answers.mask)
        return said.sum(1).numpy()

    drawn = answers_of(ids, written.rows())
    here, there = (sums(model, drawn) for model in models)
    pairs = pairs_of(TaskPrompts(task_of(TASK), HELD_OUT), prompts, np.arange(len(prompts)))
    margins = [sums(m, pairs.chosen) - sums(m, pairs.rejected) for m in models]
    return {
        "kl": float(np.mean(here - there)),
        "preferred": float(np.mean(margins[0] - margins[1] > 0.0)),
    }


def best_of(begin: Any, seed: int) -> list[float]:
    """Rewards of the best of several completions of each held-out prompt."""
    text = begin.learner.text
    prompts = text.prompts.held_out(HELD_OUT, 0, ASKED)
    answers = {tuple(p.ids.tolist()): p.answer for p in prompts}

    def right(completions: Any, given: Any) -> list[float]:
        rows = zip(completions, given, strict=True)
        return [text.codec.right((), c.numpy(), answers[tuple(p.tolist())]) for c, p in rows]

    how = text.sampling
    ends = {"eos_token_id": how.eos, "pad_token_id": how.pad}
    sampler = BestOfN(text.model.module, right, BEST_OF, how.max_new_tokens, seed=seed, **ends)
    _, worth = sampler.sample([prompt.ids for prompt in prompts])
    rewards: list[float] = worth.max(1).tolist()
    return rewards


def run_of(name: str, seed: int, data: Path, *overrides: str) -> Path:
    """The run folder, which is made where it is not."""
    root = data / f"{name.replace(' ', '_')}_s{seed}"
    asked = f"env=text task={TASK} seed={seed} eval.episodes=200 run_root={root}".split()
    return trained(root, *asked, *overrides)


def begin_of(seed: int, data: Path) -> Path:
    """Where all of a seed go on from."""
    return run_of("sft", seed, data, "algo=sft", *STOPS)


def result_of(system: str, seed: int, data: Path) -> dict[str, Any]:
    """One result."""
    begin = begin_of(seed, data)
    start = ALGORITHMS["sft"].from_checkpoint(begin)
    if system == SAMPLER:
        return {"returns": best_of(start, seed), "samples": 0, **commit()}
    run = begin
    if system != BEGIN:
        run = run_of(system, seed, data, f"init_from={begin}", *SYSTEMS[system])
    loaded = ALGORITHMS[SYSTEMS[system][0].removeprefix("algo=") if system != BEGIN else "sft"]
    return {
        "returns": evaluated(run, sampled=False),
        "drawn": float(np.mean(evaluated(run, sampled=True))),
        **apart(loaded.from_checkpoint(run), start, seed),
        "samples": json.loads((run / "result.json").read_text())["samples"],
        "packages": json.loads((run / "provenance.json").read_text())["packages"],
        **commit(),
    }


def of_peer(interpreter: Path, seed: int, data: Path) -> dict[str, Any]:
    """TRL's, from the same weights, by the same prompts in their order and the same settings."""
    begin = begin_of(seed, data)
    start, folder = ALGORITHMS["sft"].from_checkpoint(begin), data / f"trl_s{seed}"
    text = start.learner.text
    start.save_pretrained(folder)
    rows = [
        [prompt.ids.tolist(), prompt.right.tolist()] for prompt in text.prompts.learned(0, SAMPLES)
    ]
    (folder / "prompts.json").write_text(json.dumps(rows))
    preset = ALGORITHMS["grpo"].tuned(task=TASK).config.algo
    asked = {
        "seed": seed, "batch": preset.batch_size, "group": preset.group_size,
        "longest": text.sampling.max_new_tokens, "learning-rate": preset.initial("learning_rate"),
    }  # fmt: skip
    given = [part for name, value in asked.items() for part in (f"--{name}", str(value))]
    script = Path(__file__).with_name("text_trl.py")
    packages = json.loads(python(script, folder, *given, interpreter=interpreter).splitlines()[-1])
    run = ALGORITHMS["sft"](str(folder / "learned"), task=TASK, seed=seed)
    best, drawn = (run.evaluate(ASKED, HELD_OUT, deterministic=of) for of in (True, False))
    return {
        "returns": list(best.returns),
        "drawn": float(np.mean(drawn.returns)),
        **apart(run, start, seed),
        "samples": SAMPLES,
        "packages": packages,
        **commit(),
    }


def report() -> None:
    """expected.json and the table, of all systems whose seeds are all there."""
    runs = {}
    for system in (BEGIN, *SYSTEMS, SAMPLER, PEER):
        paths = [path_of(system, seed) for seed in range(SEEDS)]
        if all(path.exists() for path in paths):
            runs[system] = [json.loads(path.read_text()) for path in paths]
    if BEGIN not in runs:
        return
    scores = finals(runs)
    found, _ = estimate(scores)
    rows: list[tuple[str, ...]] = [HEAD]
    for system, of in runs.items():
        gain = scores[system] - scores[BEGIN]
        rng = np.random.default_rng(0)
        draws = gain[rng.integers(0, SEEDS, (10_000, SEEDS))].mean(1)
        low, high = np.percentile(draws, [2.5, 97.5])
        found[system] |= {"above_sft": float(gain.mean()), "above_sft_ci95": [low, high]}
        ci = found[system]["ci95"]
        means = {
            k: f"{np.mean([r[k] for r in of]):.2f}"
            for k in ("drawn", "kl", "preferred")
            if k in of[0]
        }
        rows.append(
            (
                system,
                f"{np.mean([r['samples'] for r in of]):,.0f}",
                f"{found[system]['iqm']:.3f} [{ci[0]:.3f}, {ci[1]:.3f}]",
                "" if system == BEGIN else f"{gain.mean():.3f} [{low:.3f}, {high:.3f}]",
                *(means.get(k, "") for k in ("drawn", "kl", "preferred")),
            )
        )
    leg = {"env": f"text/{TASK}", "total_steps": 19_200, "seeds": SEEDS, "systems": found}
    document = {"schema_version": 1, LEG: {**leg, "packages": runs[BEGIN][0]["packages"]}}
    (FOLDER / "expected.json").write_text(json.dumps(document, indent=1) + "\n")
    publish(FOLDER, markdown(rows))


def main() -> None:
    """Run what is missing, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="where runs are kept")
    parser.add_argument("--systems", nargs="+", choices=[BEGIN, *SYSTEMS, SAMPLER])
    parser.add_argument("--seeds", nargs="+", type=int)
    parser.add_argument("--trl-python", type=Path, help="run TRL's GRPO too, by this interpreter")
    given = parser.parse_args()
    torch.set_num_threads(1)
    (FOLDER / "results").mkdir(parents=True, exist_ok=True)
    for seed in given.seeds or range(SEEDS):
        peer = (PEER,) if given.trl_python else ()
        for system in (*(given.systems or (BEGIN, *SYSTEMS, SAMPLER)), *peer):
            path = path_of(system, seed)
            if not path.exists():
                if system == PEER:
                    result = of_peer(given.trl_python, seed, given.data)
                else:
                    result = result_of(system, seed, given.data)
                path.write_text(json.dumps(result, indent=1) + "\n")
                print(f"{path.stem}: {np.mean(result['returns']):.3f}", flush=True)
    report()


if __name__ == "__main__":
    main()
