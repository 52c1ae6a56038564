"""Tests that DQN, SAC and TD3 give the same bits whether they explore in one call of Rust or by steps."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.mid_call import raise_during
from helpers.states import assert_same_state, pack_state

from rlox import set_num_threads
from rlox._core import Explorer, ReplayIteration
from rlox.algorithms import DDPG, DQN, SAC, TD3
from rlox.algorithms.td3 import native as td3_native
from rlox.callbacks import Callback
from rlox.errors import ConfigError, NonFiniteError, ShapeError
from rlox.native import sources
from rlox.native.sources import NativeReplaySource
from rlox.sources.replay import ReplaySource
from rlox.training.loop import fit
from rlox.types import Clock, FusedUpdate, Progress, Transitions, Update

POLE, PENDULUM = "CartPole-v1", "Pendulum-v1"
SETTINGS: list[dict[str, Any]] = [
    {"algo": DQN, "env_id": POLE, "train_freq": 16, "gradient_steps": 5},
    {
        "algo": DQN,
        "env_id": POLE,
        "n_envs": 3,
        "double_dqn": True,
        "dueling": True,
        "tau": 0.5,
        "target_update_interval": 30,
    },
    {"algo": DQN, "env_id": POLE, "n_envs": 2, "prioritized": True, "gradient_steps": 3},
    {"algo": DQN, "env_id": POLE, "n_step": 3, "exploration_eps": "lin_0.9", "target_update_interval": 50},
    {
        "algo": DQN,
        "env_id": "Acrobot-v1",
        "learning_starts": 0,
        "train_freq": 7,
        "target_update_interval": 50,
        "tau": 0.3,
    },
    {"algo": DQN, "env_id": POLE, "train_freq": 200, "gradient_steps": 70, "buffer_size": 90},
    {"algo": SAC, "env_id": PENDULUM},
    {"algo": SAC, "env_id": PENDULUM, "n_envs": 2, "train_freq": 5, "gradient_steps": 3},
    {"algo": SAC, "env_id": "MountainCarContinuous-v0", "ent_coef": 0.2, "prioritized": True},
    {"algo": TD3, "env_id": PENDULUM, "train_freq": 3, "gradient_steps": 2},
    {"algo": TD3, "env_id": "MountainCarContinuous-v0", "n_envs": 4, "target_noise": 0.0},
    {"algo": DDPG, "env_id": PENDULUM, "n_step": 2},
]
EACH = pytest.mark.parametrize("settings", SETTINGS, ids=str)


def made(settings: dict[str, Any], apart: bool = False) -> Any:
    """Return a run; with `apart` it calls Rust for each step."""
    given = {
        "seed": 7, "net_arch": (16, 8), "learning_starts": 60, "batch_size": 16,
        "buffer_size": 2_000, "train_freq": 4, "gradient_steps": 1, **settings,
    }  # fmt: skip
    facade = given.pop("algo")
    run = facade(backend="native", **given)
    assert isinstance(run.source, NativeReplaySource)
    if apart:
        run.source = stepping(run.source)
    return run


def stepping(source: NativeReplaySource) -> ReplaySource:
    """Return the source that learners have with environments that Rust does not step."""
    given = (source.env, source.replay_sampler, source.exploration, source.update_schedule)
    return ReplaySource(*given, action_codec=source.action_codec)


def counted(run: Any) -> Counter[type]:
    """Count the batches that the source gives from now on, by type."""
    counts: Counter[type] = Counter()
    following = run.source.next

    def told(clock: Clock) -> Any:
        batch, progress = following(clock)
        counts[type(batch)] += 1
        return batch, progress

    run.source.next = told
    return counts


def trained(run: Any, steps: int) -> list[tuple[Clock, Progress, Update]]:
    """Train for so many steps and return the arguments of the hooks; arrays for the buffer become lists."""
    told: list[tuple[Clock, Progress, Update]] = []

    def tell(clock: Clock, progress: Progress, update: Update) -> None:
        columns = {name: column.tolist() for name, column in update.columns.items()}
        indices: Any = None if update.indices is None else update.indices.tolist()
        told.append((clock, progress, replace(update, columns=columns, indices=indices)))

    run.fit(steps, [tell])
    return told


def all_metrics(update: Update) -> list[Mapping[str, float]]:
    """Return the metrics of each training."""
    return [*update.earlier_metrics, update.metrics]


def saved(run: Any, folder: Path) -> dict[str, Any]:
    """Return the whole state, the rows of the buffer, and the last steps and draws."""
    run.save(folder)
    source = run.source
    state = {"learner": run.learner.state(), "env": source.env.state(), "steps": source.vector_steps}
    state |= {"episodes": source.tracker.state(), "last": source.last_batch()}
    state |= {"clock": run.clock.counters, "buffer": source.replay_sampler.buffer.state()}
    return pack_state(state)


@EACH
def test_fused_dqn_sac_and_td3_equal_stepwise_exploration_bit_for_bit(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    whole, apart = made(settings), made(settings, apart=True)
    calls = counted(whole)
    told, others = trained(whole, 640), trained(apart, 640)
    assert calls[FusedUpdate] > 0  # some of them learned too
    assert told == others  # clocks, episodes, numbers, and priorities
    assert any(update.count for *_, update in told)
    assert_same_state(saved(whole, tmp_path / "whole"), saved(apart, tmp_path / "apart"))
    assert whole.recent.state() == apart.recent.state()


@EACH
def test_fused_dqn_sac_and_td3_resume_bit_for_bit_from_a_checkpoint(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    straight, first = made(settings), made(settings)
    told = trained(straight, 640)
    first.set_total_steps(straight.config.total_steps)  # the schedules depend on the total
    early: list[Any] = []

    def stop(*of: Any) -> None:
        early.append(of)
        if of[0].env_steps >= 290:
            first.stop("enough")

    first.fit(first.config.total_steps, [stop])
    first.save(tmp_path / "first")
    back = type(first).from_checkpoint(tmp_path / "first")
    assert isinstance(back.source, NativeReplaySource)
    late = trained(back, 640)
    assert told[len(early) :] == late
    assert 0 < len(late) < len(told)
    assert_same_state(saved(back, tmp_path / "back"), saved(straight, tmp_path / "straight"))


@pytest.fixture(autouse=True)
def calls_may_take_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_CALL_SECONDS", 1e9)


@EACH
def test_trainings_in_one_call_equal_trainings_one_by_one_bit_for_bit(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    together, apart = made(settings), made(settings)
    ticks: list[tuple[Clock, Progress, Update]] = []
    together.fit(640, [lambda *tick: ticks.append(tick)], hook_intervals=(100, 0, 250))
    single_ticks = trained(apart, 640)
    states = [saved(run, tmp_path / name) for run, name in ((together, "together"), (apart, "apart"))]
    for state in states:  # a longer call has more last steps
        state["arrays"] = {k: v for k, v in state["arrays"].items() if not k.startswith("last/steps_")}
    assert_same_state(*states)
    totals: list[dict[str, Any]] = []
    assert together.recent.state() == apart.recent.state()
    for run_ticks, sums in ((ticks, {}), (single_ticks, {})):
        sums["episodes"] = [episode for _, progress, _ in run_ticks for episode in progress.episodes]
        sums["updates"] = sum(update.count for *_, update in run_ticks)
        sums["samples"] = sum(update.samples for *_, update in run_ticks)
        totals.append(sums)
    assert totals[0] == totals[1]
    metrics, single_metrics = (
        [all_metrics(update) for *_, update in run_ticks if update.count]
        for run_ticks in (ticks, single_ticks)
    )
    assert list(chain(*metrics)) == list(chain(*single_metrics))
    has_equal_steps = settings.get("train_freq", 4) % settings.get("n_envs", 1) == 0
    is_alone = "prioritized" in settings or settings.get("gradient_steps", 1) > 8
    most = max(map(len, metrics))
    assert most == 1 if is_alone else most > 2 if has_equal_steps else most <= 2


@EACH
@pytest.mark.parametrize("intervals", [(70,), (0, 48, 130)])
def test_a_call_ends_where_hooks_are_due(settings: dict[str, Any], intervals: tuple[int, ...]) -> None:
    def first_after_multiples(run: Any, hook_intervals: tuple[int, ...]) -> list[int]:
        positions: list[int] = []
        run.fit(640, [lambda clock, *_: positions.append(clock.now)], hook_intervals=hook_intervals)
        multiples = {m for every in intervals if every for m in range(every, 641, every)}
        return [min(p for p in positions if p >= multiple) for multiple in sorted(multiples)]

    assert first_after_multiples(made(settings), intervals) == first_after_multiples(made(settings), (1,))


def test_callbacks_and_schedules_take_one_training_a_call() -> None:
    class Counter(Callback):
        steps: list[int]

        def on_step(self, *, algo: Any, step: int, metrics: Any, episodes: Any) -> bool:
            self.steps.append(step)
            return True

    counter = Counter()
    counter.steps = []
    run = TD3(PENDULUM, backend="native", learning_starts=20, net_arch=(8,), callbacks=counter, train_freq=2)
    run.train(60)
    assert counter.steps == [*range(22, 61, 2)]
    for settings, most in (({}, 16), ({"learning_rate": "lin_0.001"}, 1), ({"anneal_lr": True}, 1)):
        ticks: list[Update] = []
        run = TD3(PENDULUM, backend="native", learning_starts=20, net_arch=(8,), **settings)
        run.fit(100, [lambda *tick, ticks=ticks: ticks.append(tick[2])], hook_intervals=())
        assert max(len(all_metrics(update)) for update in ticks) == most


def test_an_update_that_fails_is_named_alike_in_a_call_of_many_trainings_and_in_one_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = td3_native.stacked_update_noise

    def with_nan(seed: int, batch: Any, clock: Clock, trainings: int = 1) -> Any:
        noise = draw(seed, batch, clock, trainings=trainings)
        if clock.updates <= 9 < clock.updates + trainings:
            noise.reshape(trainings, -1)[9 - clock.updates] = np.nan
        return noise

    monkeypatch.setattr(td3_native, "stacked_update_noise", with_nan)
    messages, updates = [], []
    for intervals in ((), (1,)):
        run = made({"algo": TD3, "env_id": PENDULUM})
        with pytest.raises(NonFiniteError, match=r"in the update 9 \(env_steps 100\)") as raised:
            run.fit(4_000, [lambda *_: None], hook_intervals=intervals)
        messages.append(str(raised.value))
        updates.append(run.clock.updates)
        assert run.source.is_mid_update
    assert messages[0] == messages[1]
    assert updates == [2, 9]  # the first two trainings have calls of their own


def test_a_call_of_dqn_ends_where_its_target_network_is_updated() -> None:
    run = made({"algo": DQN, "env_id": POLE, "target_update_interval": 50, "learning_starts": 0})
    trainings_of_calls: list[int] = []
    iterate = run.learner.iterate

    def count_trainings(iteration: ReplayIteration, *arguments: Any) -> Update:
        trainings_of_calls.append(iteration.trainings)
        return iterate(iteration, *arguments)

    run.learner.iterate = count_trainings
    run.fit(200, hook_intervals=())
    # the first training, at 4, has no such call; that at 8 shows how long one takes; the others up to 48,
    # 96, 148, 196 and 200
    assert trainings_of_calls == [1, 10, 12, 13, 12, 1]


@pytest.mark.parametrize("method", ["_apply_schedules", "_own_metrics", "iterate"])
def test_a_subclass_with_a_method_of_its_own_for_each_training_gets_one_training_a_call(method: str) -> None:
    run = made({"algo": SAC, "env_id": PENDULUM})
    learner = type(run.learner)

    def same(self: Any, *arguments: Any) -> Any:
        return getattr(learner, method)(self, *arguments)

    for declared, expected in ((None, 1), (False, 1), (True, sys.maxsize)):
        members: dict[str, Any] = {method: same}
        members |= {} if declared is None else {"learns_repeatedly": declared}
        run.learner.__class__ = type("Changed", (learner,), members)
        assert run.learner.steps_to_change(100) == expected
    run.learner.__class__ = type("Opted", (learner,), {"learns_repeatedly": False})
    assert run.learner.steps_to_change(100) == 1


def test_an_error_of_later_steps_is_the_cause_of_an_error_of_a_hook() -> None:
    later = NonFiniteError("steps")

    class Source:
        def next(self, clock: Clock) -> tuple[FusedUpdate, Progress]:
            return FusedUpdate(Update(count=1), 0.0, later), Progress(env_steps=1)

        def feedback(self, update: Update) -> None: ...

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    source: Any = Source()
    with pytest.raises(OSError, match="disk full") as raised:
        fit(source, source, Clock(), done=lambda clock: False, hooks=[fail])
    assert raised.value.__cause__ is later


@pytest.mark.parametrize("intervals", [(-5,), (0.5,), (float("nan"),), (True,), ("often",), 70, "12", None])
def test_intervals_of_hooks_that_are_no_whole_numbers_are_refused(intervals: Any) -> None:
    run = made({"algo": TD3, "env_id": PENDULUM})
    with pytest.raises(ConfigError, match=r"hook_intervals=.*expected"):
        run.fit(100, hook_intervals=intervals)
    assert run.clock.now == 0


@pytest.mark.parametrize("is_stopped", [False, True])
def test_steps_that_fail_in_a_later_training_of_a_call_end_the_run_after_complete_trainings(
    monkeypatch: pytest.MonkeyPatch, is_stopped: bool
) -> None:
    run = made({"algo": TD3, "env_id": PENDULUM, "learning_starts": 20})
    run.fit(36, hook_intervals=())
    start, n_rows, n_updates = run.clock.now, len(run.source.replay_sampler.buffer), run.clock.updates
    draw_ahead = run.source.exploration.draw_ahead

    def with_nan(step: int, actions: Any, elapsed: Any) -> Any:
        noise = draw_ahead(step, actions, elapsed)
        noise[9] = np.nan  # the second step of the third training
        return noise

    monkeypatch.setattr(run.source.exploration, "draw_ahead", with_nan)
    ticks: list[Clock] = []

    def tick(clock: Clock, *_: Any) -> None:
        ticks.append(clock)
        if is_stopped:
            run.stop("enough")

    with pytest.raises(NonFiniteError, match=rf"actions is not finite in environment 0 .*{start + 10}\)"):
        run.fit(640, [tick], hook_intervals=())
    assert [clock.now for clock in ticks] == [start + 8]
    assert run.source.vector_steps == run.clock.now == start + 8
    assert len(run.source.replay_sampler.buffer) == n_rows + 8
    assert run.learner.critic_optimizer.steps == run.clock.updates == n_updates + 2
    assert not run.source.is_mid_update
    assert np.isnan(run.source.last_batch()["steps_actions"]).sum() == 1


def test_an_error_after_the_last_training_of_a_call_drops_no_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    run = made({"algo": TD3, "env_id": PENDULUM, "learning_starts": 20})
    run.fit(36, hook_intervals=())
    iterate, steps = run.learner.iterate, run.source.vector_steps

    def failing(*arguments: Any) -> Update:
        iterate(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(run.learner, "iterate", failing)
    with pytest.raises(KeyboardInterrupt):
        run.fit(100, hook_intervals=())
    assert run.source.vector_steps > steps + 4
    assert run.source.tracker.lengths[0] == run.source.vector_steps  # the episode goes on
    assert run.source.is_mid_update
    monkeypatch.undo()
    assert run.fit(120, hook_intervals=()).now == 120


@pytest.mark.parametrize("algo", [DQN, SAC, TD3])
def test_native_exploration_chooses_the_actions_of_torch_up_to_rounding(algo: Any) -> None:
    given: dict[str, Any] = {
        "env_id": POLE if algo is DQN else PENDULUM, "n_envs": 64, "seed": 3, "net_arch": (32, 32),
    }  # fmt: skip
    runs = [algo(backend=backend, **given) for backend in ("native", "torch")]
    obs = np.random.default_rng(1).normal(size=(64, 4 if algo is DQN else 3)).astype(np.float32)
    seen = []
    for step in range(40):
        with torch.inference_mode():
            done = [run.source.exploration.act(obs, step, step / 40) for run in runs]
        np.testing.assert_allclose(*done, rtol=1e-5, atol=1e-6)
        chance = [run.source.exploration.random_actions(step, obs) for run in runs]
        assert np.array_equal(*chance)
        seen += [(done[0] == chance[0]).mean()]
    assert 0.2 < np.mean(seen) < 1.0 if algo is DQN else np.mean(seen) == 0.0


@pytest.mark.parametrize("algo", [DQN, SAC, TD3])
def test_fused_dqn_sac_and_td3_give_equal_bits_for_any_number_of_threads(algo: Any, tmp_path: Path) -> None:
    wide = {"algo": algo, "env_id": POLE if algo is DQN else PENDULUM, "n_envs": 20_000}
    wide |= {"buffer_size": 60_000, "train_freq": 40_000, "batch_size": 64}
    found = []
    try:
        for threads in (1, 2, 7):
            set_num_threads(threads)
            run = made(wide)
            trained(run, 80_000)
            found.append(saved(run, tmp_path / str(threads)))
    finally:
        set_num_threads(None)
    assert_same_state(found[0], found[1])
    assert_same_state(found[0], found[2])


def test_only_fully_native_replay_runs_explore_in_one_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases: list[tuple[dict[str, Any], bool]] = [
        ({}, True),
        ({"normalize_obs": True}, False),
        ({"normalize_reward": True}, False),
        ({"env_backend": "gymnasium"}, False),
    ]
    for settings, whole in cases:
        run = made({"algo": DQN, "env_id": POLE, "learning_starts": 0, **settings})
        acted: list[int] = []
        act = run.source.exploration.act

        def counted(obs: Any, step: int, elapsed: float, acted=acted, act=act) -> Any:  # type: ignore[no-untyped-def]
            acted.append(step)
            return act(obs, step, elapsed)

        monkeypatch.setattr(run.source.exploration, "act", counted)
        trained(run, 40)
        assert acted == ([] if whole else list(range(40)))
    for torchs in (DQN(POLE, backend="torch"), DQN(POLE, backend="auto", noisy=True)):
        assert type(torchs.source) is ReplaySource


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("algo", [DQN, SAC, TD3])
def test_a_nan_parameter_raises_in_the_same_update(algo: Any, apart: bool) -> None:
    run = made({"algo": algo, "env_id": POLE if algo is DQN else PENDULUM}, apart)
    trained(run, 100)
    updates, begun = run.clock.updates, run.source.vector_steps
    layers = run.policy.q if algo is DQN else run.policy.critic
    with torch.no_grad():
        next(iter(layers.parameters())).fill_(float("nan"))
    says = rf" is NaN at .*, in the update {updates} \(env_steps {begun + 4}\); lower algo.learning_rate"
    with pytest.raises(NonFiniteError, match=says):
        trained(run, 200)


def test_a_call_that_cannot_be_made_is_refused_by_name() -> None:
    run = made({"algo": DQN, "env_id": POLE})
    core, engine = run.source.env.core, run.learner.native.engine
    vector, explorer = run.learner.native.vector, run.learner.native.explorer
    with pytest.raises(ConfigError, match="engine is 3, expected an OffPolicyEngine"):
        Explorer(3)  # type: ignore[arg-type]
    obs, actions = np.zeros((2, 4), np.float32), np.full(2, -1)
    with pytest.raises(ShapeError, match="noise"):
        explorer.act(vector, obs, actions, np.zeros((2, 1), np.float32))
    with pytest.raises(ShapeError, match="parameters"):
        Explorer(engine).act(vector[1:], obs, actions)
    stretch, given = run.source._collect_arguments(1, run.clock)
    settings: dict[str, Any] = {"given": given, "gamma": 0.9}
    with pytest.raises(ConfigError, match="n_step"):
        ReplayIteration(
            explorer, core, run.source.replay_sampler.buffer, {}, vector, *stretch, n_step=0, **settings
        )
    other: Any = object()
    iteration = ReplayIteration(explorer, core, other, {}, vector, *stretch, n_step=1, **settings)
    with pytest.raises(ConfigError, match="buffer is <object"):
        iteration.learn({}, {}, *[obs] * 6)
    assert (iteration.stored, iteration.learned, iteration.trainings) == (0, 0, 1)
    assert (iteration.seconds, iteration.episodes()) == (0.0, None)
    with pytest.raises(ConfigError, match="trainings is 0, expected at least 1"):
        ReplayIteration(explorer, core, other, {}, vector, *stretch, n_step=1, trainings=0, **settings)


def test_a_nan_observation_raises_with_its_environment_and_step() -> None:
    said = []
    for apart in (False, True):
        run = made({"algo": DQN, "env_id": POLE, "n_envs": 3, "train_freq": 30}, apart)
        trained(run, 90)
        held = len(run.source.replay_sampler.buffer)
        run.source._obs[1, 2] = np.nan
        with pytest.raises(NonFiniteError) as raised:
            trained(run, 150)
        said.append(str(raised.value))
        assert len(run.source.replay_sampler.buffer) == held
    assert said == ["obs is not finite in environment 1 (env_steps 90)"] * 2


def stand(run: Any) -> tuple[int, int]:
    """Return the number of vector steps taken and of transitions stored."""
    return run.source.vector_steps, len(run.source.replay_sampler.buffer)


def broken_off(algo: Any, trainings: int, width: int) -> tuple[Any, tuple[int, int]]:
    """Return a run with an interrupted call, which wide networks make long, and its earlier `stand`."""
    found: list[tuple[Any, tuple[int, int]]] = []

    def call(width: int) -> Callable[[], object]:
        run = made(
            {
                "algo": algo, "env_id": POLE if algo is DQN else PENDULUM, "n_envs": 16,
                "buffer_size": 8_192, "learning_starts": 0, "train_freq": 4_096, "net_arch": (width, width),
                **({"exploration_initial_eps": 0.5} if algo is DQN else {}),
            }
        )  # fmt: skip
        if trainings:
            trained(run, 4_096)
        run.set_total_steps(10**9)
        found.append((run, stand(run)))
        return lambda: run.source.next(run.clock)

    raise_during(call, width)
    return found[-1]


@pytest.mark.parametrize("trainings", [0, 1])
@pytest.mark.parametrize("algo", [DQN, SAC, TD3])
def test_an_interrupted_fused_collection_leaves_a_consistent_replay_run(algo: Any, trainings: int) -> None:
    # A fast machine may interrupt the call only while it learns, after the steps; such a run does not count.
    found = (broken_off(algo, trainings, 512 << more) for more in range(4))
    run = next((run for run, before in found if stand(run) == before), None)
    assert run is not None, "never broken off while it collected"
    assert not run.source.tracker.lengths.any()
    batch, progress = run.source.next(run.clock)
    assert isinstance(batch, FusedUpdate if trainings else Transitions)
    assert progress.env_steps == 4_096
    assert run.source.env_steps == 4_096 * (1 + trainings)
