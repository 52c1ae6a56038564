"""Tests that the worked examples of docs/extending.md train, resume exactly, and are those of the page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from helpers.installed_copies import EXTENDING, install_copy, run_python, run_rlox

PAGE = EXTENDING.parents[1] / "docs" / "extending.md"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder into which pip has installed a copy of the examples."""
    return install_copy(EXTENDING, tmp_path_factory.mktemp("pip"))


# The arguments of a run, and a score that a policy which does not learn stays far below: that of a random
# policy, the least of five seeds, and the limit.
RUNS = {
    # a random policy: 22
    "PPO with a KL penalty": ("algo=ppo_kl env=CartPole-v1 total_steps=20000", 80.0),
    # random: about -1,200
    "CrossQ": (
        "algo=crossq env=Pendulum-v1 algo.net_arch=[64,64] algo.batch_size=64 algo.policy_delay=1 "
        "total_steps=3000",
        -900.0,
    ),
    # random: 0
    "attention": (
        "algo=ppo env=Set-v0 algo.policy=rlox_extending.attention:Attention algo.learning_rate=1e-3 "
        "algo.n_steps=64 algo.batch_size=128 algo.n_epochs=5 total_steps=8000",
        3.0,
    ),
    # random: about 3
    "two agents": (
        "algo=two_ppo env=Meeting-v0 algo.policy=rlox_extending.two_ppo:Team total_steps=12000",
        8.0,
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_an_example_learns(name: str, site: Path, tmp_path: Path) -> None:
    arguments, limit = RUNS[name]
    ran = run_rlox(site, tmp_path, "train", *arguments.split(), "hydra.run.dir=run", "eval.episodes=10")
    assert ran.returncode == 0, ran.stderr
    assert json.loads((tmp_path / "run" / "result.json").read_text())["score"] > limit


def test_a_run_names_the_fields_that_a_plugin_leaves_out_of_the_preset_of_its_base(
    site: Path, tmp_path: Path
) -> None:
    env = "env=MountainCarContinuous-v0 algo.net_arch=[8] algo.batch_size=8 total_steps=64 log.every=64"
    ran = run_rlox(site, tmp_path, "train", "algo=crossq", *env.split(), "hydra.run.dir=run")
    assert ran.returncode == 0, ran.stderr
    preset = "tuned preset sac/MountainCarContinuous-v0 without learning_rate, tau, use_sde, log_std_init"
    assert preset in ran.stdout
    algo = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["algo"]
    assert (algo["learning_rate"], algo["tau"]) == (1e-3, 5e-3)


def test_a_term_of_a_plugin_in_sacs_loss_makes_actions_smaller(site: Path, tmp_path: Path) -> None:
    said = run_python(
        site,
        tmp_path,
        """
        import numpy as np
        from rlox_extending.sac_small_actions import SACSmallActions

        obs = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
        for cost in (0.0, 100.0):
            run = SACSmallActions("Pendulum-v1", action_cost=cost, net_arch=[16], learning_starts=64,
                                  learning_rate=0.01, batch_size=32)
            run.train(400)
            print(float(np.abs(run.predict(obs)[0]).mean()))
        """,
    )
    free, costly = map(float, said.split())
    assert costly < 0.5 * free


def test_the_bonus_of_rnd_is_high_for_new_observations_and_without_it_ppo_remains(
    site: Path, tmp_path: Path
) -> None:
    said = run_python(
        site,
        tmp_path,
        """
        import torch
        from rlox.algorithms import PPO
        from rlox_extending.ppo_rnd import PPORND

        options = {"n_envs": 4, "n_steps": 64}
        plain = PPO("MountainCar-v0", backend="torch", **options)
        plain.train(4096)
        for weight in (0.0, 1.0):
            run = PPORND("MountainCar-v0", bonus_coef=weight, **options)
            run.train(4096)
            same = all(map(torch.equal, plain.policy.parameters(), run.policy.parameters()))
            known, new = torch.tensor([[-0.5, 0.0], [0.5, 0.06]])  # where an episode begins; the goal
            errors = [float((run.learner.predictor(x) - run.learner.random(x)).square().mean())
                      for x in (known, new)]
            print(errors[1] > 5 * errors[0], same)
        """,
    )
    assert said.splitlines() == ["True True", "True False"]


def test_batches_of_the_lambda_buffer_have_the_lambda_return_on_average(site: Path, tmp_path: Path) -> None:
    said = run_python(
        site,
        tmp_path,
        """
        import numpy as np
        from rlox.algorithms import DQN
        from rlox_extending.lambda_returns import window_counts

        print(window_counts(32, 4, 0.5), window_counts(8, 3, 0.0), window_counts(8, 3, 1.0))
        run = DQN("CartPole-v1", buffer="lambda", n_step=4, gamma=0.5, batch_size=1000, net_arch=[8],
                  learning_starts=500, backend="torch")
        run.train(500)
        batch = run.source.replay_sampler.sample(1, 0.0, 500)
        inside = np.asarray(batch.discounts)[0] > 0  # windows that no episode's end cuts short
        print(np.unique(np.asarray(batch.discounts)[0][inside]).tolist())
        print(np.unique(np.asarray(batch.rewards)[0][inside]).tolist())
        """,
    )
    counts, discounts, rewards = said.splitlines()
    assert counts == "[16, 8, 4, 4] [8, 0, 0] [0, 0, 8]"
    assert discounts == "[0.0625, 0.125, 0.25, 0.5]"
    assert rewards == "[1.0, 1.5, 1.75, 1.875]"


def test_lambda_1_of_the_lambda_buffer_is_n_step_dqn(site: Path, tmp_path: Path) -> None:
    losses = []
    common = "train algo=dqn env=CartPole-v1 tuned=null algo.n_step=4 algo.net_arch=[8] total_steps=400"
    for buffer in ("buffer=uniform", "buffer=lambda buffer.lam=1", "buffer=lambda buffer.lam=0.5"):
        folder = f"run{len(losses)}"
        ran = run_rlox(
            site, tmp_path, *common.split(), *buffer.split(), "log.every=100", f"hydra.run.dir={folder}"
        )
        assert ran.returncode == 0, ran.stderr
        rows = (tmp_path / folder / "metrics.jsonl").read_text().splitlines()
        losses.append([row["loss/q"] for row in map(json.loads, rows) if "loss/q" in row])
    assert losses[0]
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.parametrize(
    "make",
    [
        'ppo_kl.PPOKL("CartPole-v1", n_envs=2, n_steps=16, batch_size=16, kl_target=1e-4)',
        'ppo_rnd.PPORND("CartPole-v1", n_envs=2, n_steps=16, batch_size=16)',
        'crossq.CrossQ("Pendulum-v1", net_arch=[8], learning_starts=16, batch_size=8)',
        'rlox.algorithms.DQN("CartPole-v1", buffer="lambda", n_step=4, net_arch=[8], learning_starts=16)',
    ],
)
def test_an_example_that_was_saved_and_loaded_goes_on_as_if_it_had_not_stopped(
    make: str, site: Path, tmp_path: Path
) -> None:
    said = run_python(
        site,
        tmp_path,
        f"""
        import rlox.algorithms
        from rlox_extending import crossq, ppo_kl, ppo_rnd

        def numbers(value):
            if isinstance(value, dict):
                return [x for key in sorted(value) for x in numbers(value[key])]
            return [value.tolist() if hasattr(value, "tolist") else value]

        whole = {make}
        whole.train(64)
        whole.save("half")
        loaded = type(whole).from_checkpoint("half")
        for run in (whole, loaded):
            run.train(128)
        print(numbers(whole.learner.state()) == numbers(loaded.learner.state()))
        """,
    )
    assert said == "True\n"


def without_spaces(text: str) -> str:
    return re.sub(r"\s", "", text)


def test_the_pages_code_is_that_of_the_examples() -> None:
    files = [*EXTENDING.rglob("*.py"), *(EXTENDING.parents[1] / "rlox").rglob("*.py")]
    sources = [without_spaces(path.read_text("utf-8")) for path in files]
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 11
    # the formatter dedents the page's blocks and breaks their lines elsewhere
    edits = [block for block in blocks if not any(without_spaces(block) in source for source in sources)]
    # the line that the reader adds
    assert [block.split()[:2] for block in edits] == [["return", "soft_policy_loss(log_prob,"]]


def test_the_page_names_files_that_exist() -> None:
    named = re.findall(r"`(rlox/[\w/.]+\.py)`", PAGE.read_text("utf-8"))
    assert len(named) >= 15
    missing = [path for path in named if not (EXTENDING.parents[1] / path).is_file()]
    assert missing == [path for path in named if "NAME" in path]
