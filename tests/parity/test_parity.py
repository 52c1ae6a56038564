"""Tests that 20 consecutive updates of rlox equal those of the papers and of Stable-Baselines3."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import pinned_floats

from parity.batches import MARGIN
from parity.cases import CASES, SB3_VERSION, UPDATES, Arrays, load, made_by_sb3
from parity.ours import driven
from parity.table import BEGIN, END, FIGURES, FLOAT32, FLOAT64, PAGE
from parity.traces import difference, transcribed
from rlox.networks import gaussians

ROOT = Path(__file__).resolve().parents[2]
BY_SB3 = [name for name, case in CASES.items() if case.sb3]
CLIPPED = [(name, part) for name, case in CASES.items() for part in case.clipped_together]


@cache
def paper(name: str) -> tuple[Arrays, float]:
    file = load(name)
    return transcribed(CASES[name], file["init"], file["batch"])


def ours(name: str, dtype: torch.dtype = torch.float64, **changed: Any) -> Arrays:
    file, case = load(name), CASES[name]
    case = replace(case, settings={**case.settings, **changed})
    return driven(case, file["init"], file["batch"], dtype)


@pytest.mark.parametrize("name", CASES)
def test_an_update_in_float64_is_that_of_the_papers(name: str) -> None:
    found = difference(ours(name), paper(name)[0])
    assert found.largest <= FLOAT64, found


@pytest.mark.parametrize("name", BY_SB3)
def test_an_update_in_float32_is_that_of_sb3(name: str) -> None:
    found = difference(ours(name, torch.float32), made_by_sb3(load(name)))
    assert found.largest <= FLOAT32, found


@pytest.mark.parametrize("name", BY_SB3)
def test_updates_of_the_papers_equal_those_of_stable_baselines3(name: str) -> None:
    found = difference(paper(name)[0], made_by_sb3(load(name)))
    assert found.largest <= FLOAT32, found


@pytest.mark.parametrize("name", CASES)
def test_no_parity_batch_is_within_rounding_of_a_kink_of_its_loss(name: str) -> None:
    assert paper(name)[1] > MARGIN / 2  # half of it, because other machines differ in the last digits


@pytest.mark.parametrize(("name", "part"), CLIPPED)
def test_some_gradients_are_clipped_and_some_are_not(name: str, part: str) -> None:
    trace, limit = paper(name)[0], CASES[name].settings["max_grad_norm"]
    squares = [(a**2).reshape(UPDATES, -1).sum(1) for k, a in trace.items() if k.startswith(f"grad/{part}")]
    clipped = np.sqrt(np.sum(squares, 0)) > limit
    assert 3 <= clipped.sum() <= UPDATES - 3


# Each change of one setting makes the tests above fail.
@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("ppo_discrete", {"vf_coef": 0.25}),
        ("ppo_discrete", {"ent_coef": 0.0}),
        ("ppo_box", {"normalize_advantages": False}),
        ("ppo_value_clip", {"clip_vloss": False}),
        ("a2c_discrete", {"rms_prop_tf_like": True}),
        ("a2c_box", {"rms_prop_eps": 1e-6}),
        ("pqn", {"learning_rate": 2.9e-3}),
        ("pqn", {"max_grad_norm": 2.0}),
        ("dqn", {"loss": "mse"}),
        ("dqn", {"target_update_interval": 16}),
        ("dqn_double", {"double_dqn": False}),
        ("dqn_double", {"tau": 0.51}),
        ("sac", {"target_entropy": -1.0}),
        ("sac", {"tau": 0.051}),
        ("sac_gsde", {"target_entropy": -1.0}),
        ("sac_parts", {"max_grad_norm": 0.6}),
        ("tqc", {"top_quantiles_to_drop_per_net": 2}),
        ("tqc_parts", {"max_grad_norm": 0.09}),
        ("td3", {"tau": 0.051}),
        ("td3", {"target_noise_clip": 0.5}),
        ("td3_parts", {"max_grad_norm": 1.2}),
        ("td3_clipped", {"max_grad_norm": 0.1}),
    ],
)
def test_changing_any_setting_changes_the_update_beyond_rounding(name: str, changed: dict[str, Any]) -> None:
    found = difference(ours(name, **changed), paper(name)[0])
    assert found.largest > 10 * FLOAT32, found


@pytest.mark.parametrize(
    ("name", "column"),
    [("dqn_parts", "steps"), ("dqn_parts", "weights"), ("sac_n_step", "steps"),
     ("sac_parts", "steps"), ("sac_parts", "weights"), ("tqc_parts", "steps"), ("tqc_parts", "weights"),
     ("td3_parts", "steps"), ("td3_parts", "weights")],
)  # fmt: skip
def test_changing_steps_or_weights_of_the_rows_changes_the_update(name: str, column: str) -> None:
    file = load(name)
    same = {**file["batch"], column: np.ones_like(file["batch"][column])}
    found = driven(CASES[name], file["init"], same, torch.float64)
    assert difference(found, paper(name)[0]).largest > 10 * FLOAT32


def test_the_comparison_detects_another_mean_limit_of_gsde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaussians, "SDE_MEAN_LIMIT", 2.1)
    assert difference(ours("sac_gsde"), paper("sac_gsde")[0]).largest > 10 * FLOAT32


def test_the_parity_comparison_detects_a_wrong_or_missing_tensor() -> None:
    trace = paper("ppo_box")[0]
    off = copy.deepcopy(trace)
    off["grad/log_std"][17] *= 1 + 1e-5
    found = difference(off, trace)
    assert found.worst == "grad/log_std"
    assert found.gradients == pytest.approx(1e-5, rel=1e-6)
    assert found.losses == found.weights == 0
    del off["grad/log_std"]
    with pytest.raises(ValueError, match="grad/log_std"):
        difference(off, trace)


def test_golden_files_name_the_version_that_made_them() -> None:
    for name, case in CASES.items():
        made_by = str(load(name)["meta"]["made_by"])
        assert made_by == (f"stable-baselines3 {SB3_VERSION}" if case.sb3 else "")
    assert f'"stable-baselines3=={SB3_VERSION}"' in (ROOT / "pyproject.toml").read_text("utf-8")


@pytest.mark.parametrize("name", ["ppo_box", "a2c_tf_like", "dqn", "sac", "sac_n_step", "sac_gsde", "td3"])
def test_the_script_makes_the_golden_file_again(name: str) -> None:
    pytest.importorskip("stable_baselines3")
    from parity.make_sb3 import golden

    made, kept = golden(name), load(name)
    for key, array in made.items():
        part, _, rest = key.partition("/")
        if array.dtype.kind == "f":
            np.testing.assert_allclose(kept[part][rest], array, rtol=1e-4, atol=1e-6)
        else:
            assert np.array_equal(kept[part][rest], array)
    assert sum(map(len, kept.values())) == len(made)


def figures(text: str) -> dict[str, list[float]]:
    """Return the figures of each case on the page."""
    table = text[text.index(BEGIN) : text.index(END)]
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", table, re.M)
    return {name: [float(cell) for cell in row.split("|") if cell.strip()] for name, row in rows}


def test_the_page_shows_and_explains_every_case() -> None:
    text = PAGE.read_text("utf-8")
    assert list(figures(text)) == list(CASES)
    table = text[text.index(END) :].partition("\n\nBatches in which")[0]
    explained = [
        name for names in re.findall(r"^\| (`.*?) \|", table, re.M) for name in re.findall(r"`(\w+)`", names)
    ]
    assert sorted(explained) == sorted(CASES)


@cache
def figures_now() -> dict[str, list[float]]:
    """Measure with kernels that round alike on every x86 CPU."""
    return figures(pinned_floats.run("parity.table", "print").stdout)


@pytest.mark.parametrize("name", CASES)
def test_the_page_shows_the_figures_that_its_script_measures(name: str) -> None:
    """The figures are equal on x86 CPUs; another PyTorch may change them by a factor of ten at most."""
    shown, now = figures(PAGE.read_text("utf-8"))[name], figures_now()[name]
    assert len(shown) == len(now) == (FIGURES if name in BY_SB3 else 3)
    for on_page, here, limit in zip(shown, now, [FLOAT64] * 3 + [FLOAT32] * 4, strict=False):
        assert on_page <= limit
        assert here / 10 <= max(on_page, 1e-17)
        assert on_page / 10 <= max(here, 1e-17)
