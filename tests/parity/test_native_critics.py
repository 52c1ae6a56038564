"""Tests the native engine's SAC and TD3 updates against autograd, on random networks, batches and settings.

The float64 reference is written here from the losses, with torch's autograd, clipping and Adam. The test
compares the networks after some batches, and the error of each row. Adam's epsilon is large, so that a step
does not depend on the sign of a gradient near 0.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlox._core import OffPolicyEngine
from rlox.errors import ConfigError, NonFiniteError, ShapeError, UnknownNameError
from rlox.losses import critics_loss, soft_policy_loss, td_target, temperature_loss
from rlox.networks import EnsembleMLP, SquashedGaussianPolicy, mlp
from rlox.networks.critics import q_values
from rlox.optim import FlatParameters

CASES, BATCHES = 96, 3
EACH = pytest.mark.parametrize("cases", [CASES // 4, pytest.param(CASES, marks=pytest.mark.slow)])
DOUBLE = 1e-9  # norm of a difference over the norm
RATE, EPS, TAU = 0.01, 1e-3, 0.3


class Case:
    """An actor, critics, their batches and settings, drawn by a number."""

    def __init__(self, number: int, outputs: int) -> None:
        draw = self.draw = np.random.default_rng(number)
        self.number = number
        self.activation = ("relu", "tanh", "elu", "silu")[number % 4]
        self.weighted, self.norm = bool(number // 4 % 2), (None, 0.2, 1e3)[number % 3]
        self.every, self.first = int(draw.integers(1, 4)), int(draw.integers(0, 6))
        self.rows, self.size = int(draw.integers(1, 30)), int(draw.integers(1, 5))
        self.obs_dim, self.members = int(draw.integers(1, 12)), int(draw.integers(1, 4))
        self.actor_widths, self.critic_widths = (
            [int(w) for w in draw.integers(1, 25, int(draw.integers(1, 4)))] for _ in range(2)
        )
        with torch.random.fork_rng():
            torch.manual_seed(number)
            self.actor, self.critic = self.nets(outputs)
            self.target_actor, self.target_critic = self.nets(outputs)
        shape = (BATCHES, self.rows)
        self.columns: dict[str, Any] = {
            "obs": draw.standard_normal((*shape, self.obs_dim)),
            "actions": draw.uniform(-1.0, 1.0, (*shape, self.size)),
            "rewards": 2.0 * draw.standard_normal(shape),
            "next_obs": draw.standard_normal((*shape, self.obs_dim)),
            "discounts": np.where(draw.random(shape) < 0.3, 0.0, 0.97),
        }
        self.weights = draw.uniform(0.1, 1.0, shape) if self.weighted else None
        self.noise = draw.standard_normal((BATCHES, 2, self.rows, self.size))

    def nets(self, outputs: int) -> tuple[nn.Sequential, EnsembleMLP]:
        actor = mlp((self.obs_dim, *self.actor_widths, outputs * self.size), self.activation)
        sizes = (self.obs_dim + self.size, *self.critic_widths, 1)
        return actor.double(), EnsembleMLP(self.members, sizes, self.activation).double()

    def engine(self, algorithm: str) -> OffPolicyEngine:
        actor = [(f"actor.{name}", tuple(p.shape)) for name, p in self.actor.named_parameters()]
        critic = [(name, tuple(p.shape)) for name, p in self.critic.named_parameters()]
        return OffPolicyEngine(
            algorithm,
            {"actor": actor, "critic": critic},
            obs_dim=self.obs_dim,
            size=self.size,
            members=self.members,
            actor=self.actor_widths,
            critic=self.critic_widths,
            activation=self.activation,
            precision="f64",
        )

    def torches(self) -> list[dict[str, Tensor]]:
        """Return each batch as tensors."""
        return [
            {name: torch.from_numpy(column[i]) for name, column in self.columns.items()}
            for i in range(BATCHES)
        ]

    def weight(self, i: int) -> Tensor | None:
        return None if self.weights is None else torch.from_numpy(self.weights[i])


def flat(net: nn.Module) -> NDArray[np.float64]:
    vector: NDArray[np.float64] = FlatParameters(copy.deepcopy(net)).vector.numpy().copy()
    return vector


def adams(vector: NDArray[np.float64]) -> tuple[NDArray[Any], ...]:
    return (vector, np.zeros_like(vector), np.zeros_like(vector), np.zeros(1, np.int64))


def stepper(net: nn.Module, norm: float | None) -> Callable[[Tensor], float]:
    """Return a function that takes a step along a loss's gradient and returns the gradient norm."""
    adam = torch.optim.Adam(net.parameters(), RATE, eps=EPS)

    def step(loss: Tensor) -> float:
        adam.zero_grad()
        loss.backward()
        found = nn.utils.clip_grad_norm_(net.parameters(), float("inf") if norm is None else norm)
        adam.step()
        return float(found)

    return step


def follow(target: nn.Module, online: nn.Module) -> None:
    with torch.no_grad():
        for ours, theirs in zip(target.parameters(), online.parameters(), strict=True):
            ours.lerp_(theirs, TAU)


def assert_close(found: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]]) -> None:
    for i, (left, right) in enumerate(zip(found, expected, strict=True)):
        distance = np.linalg.norm(left - right) / max(np.linalg.norm(right), 1e-30)
        assert distance <= DOUBLE, (i, distance)


def drawn(actor: nn.Sequential, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Sample with the module's own `draw`, so that autograd sees every operation."""
    policy = SquashedGaussianPolicy(1, noise.shape[-1], 1)
    policy.net = actor
    return policy.draw(obs, noise)


@EACH
@pytest.mark.parametrize("learned", [True, False])
def test_native_sac_updates_equal_autograd_in_float64(learned: bool, cases: int) -> None:
    for number in range(cases):
        case = Case(number, outputs=2)
        actor, critic, target = map(copy.deepcopy, (case.actor, case.critic, case.target_critic))
        log = torch.tensor(-0.7, dtype=torch.float64, requires_grad=True)
        temperature = torch.optim.Adam([log], RATE, eps=EPS)
        of_actor, of_critic = stepper(actor, case.norm), stepper(critic, case.norm)
        errors, told = [], []
        for i, batch in enumerate(case.torches()):
            noise = torch.from_numpy(case.noise[i])
            obs, alpha = batch["obs"], log.detach().exp()
            action, log_prob = drawn(actor, obs, noise[0])
            loss_temperature = temperature_loss(log, log_prob, -1.5)
            if learned:
                temperature.zero_grad()
                loss_temperature.backward()
                temperature.step()
            with torch.no_grad():
                after, log_after = drawn(actor, batch["next_obs"], noise[1])
                value = q_values(target, batch["next_obs"], after).amin(0) - alpha * log_after
                goal = td_target(batch["rewards"], batch["discounts"], value)
            q = q_values(critic, obs, batch["actions"])
            loss_critic = 0.5 * critics_loss(q, goal, case.weight(i))
            norm = of_critic(loss_critic)
            action, log_prob = drawn(actor, obs, noise[0])
            lowest = q_values(critic, obs, action).amin(0)
            loss_actor = soft_policy_loss(log_prob, lowest, alpha)
            of_actor(loss_actor)
            if (case.first + i + 1) % case.every == 0:
                follow(target, critic)
            errors.append((q - goal).abs().mean(0).detach().numpy())
            losses = (loss_critic, loss_actor, loss_temperature if learned else torch.zeros(()))
            numbers = [*losses, q.mean(), -log_prob.mean(), alpha]
            told.append([*(float(x.detach()) for x in numbers), norm])
        state = [adams(flat(net)) for net in (case.actor, case.critic)]
        ours, found = flat(case.target_critic), np.zeros((BATCHES, case.rows))
        held = adams(np.array([-0.7] + [0.0] * 15))
        temperature_of = {"temperature": held} if learned else {}
        setting = {"target_entropy": -1.5} if learned else {"alpha": float(np.exp(-0.7))}
        said = case.engine("sac").learn(
            {"actor": state[0], "critic": state[1], **temperature_of}, {"critic": ours},
            *case.columns.values(), found, case.noise, case.weights, **setting, first=case.first,
            learning_rate=RATE, tau=TAU, target_update_interval=case.every, max_grad_norm=case.norm,
             adam_eps=EPS,
        )  # fmt: skip
        left = [state[0][0], state[1][0], ours, found]
        assert_close(left, [flat(actor), flat(critic), flat(target), np.stack(errors)])
        names = ("critic", "actor", "temperature", "q_mean", "entropy", "alpha", "grad_norm")
        for name, value in zip(names, np.mean(told, 0), strict=True):
            assert said[name] == pytest.approx(value, rel=1e-9, abs=1e-11), (number, name)
        if learned:
            assert held[0][0] == pytest.approx(float(log.detach()), rel=1e-12)
        assert [int(s[3][0]) for s in state] == [BATCHES, BATCHES]


@EACH
@pytest.mark.parametrize("deviation", [0.2, 0.0])
def test_native_td3_updates_equal_autograd_in_float64(deviation: float, cases: int) -> None:
    for number in range(cases):
        case = Case(number, outputs=1)
        nets = (case.actor, case.critic, case.target_actor, case.target_critic)
        actor, critic, target_actor, target_critic = map(copy.deepcopy, nets)
        of_actor, of_critic = stepper(actor, case.norm), stepper(critic, case.norm)
        errors, told, losses = [], [], []
        for i, batch in enumerate(case.torches()):
            with torch.no_grad():
                noise = torch.from_numpy(case.noise[i, 0]) * deviation
                after = target_actor(batch["next_obs"]).tanh() + noise.clamp(-0.3, 0.3)
                after = after.clamp(-1.0, 1.0)
                value = q_values(target_critic, batch["next_obs"], after).amin(0)
                goal = td_target(batch["rewards"], batch["discounts"], value)
            q = q_values(critic, batch["obs"], batch["actions"])
            loss = critics_loss(q, goal, case.weight(i))
            norm = of_critic(loss)
            if (case.first + i + 1) % case.every == 0:
                loss_actor = -q_values(critic, batch["obs"], actor(batch["obs"]).tanh())[0].mean()
                of_actor(loss_actor)
                losses.append(float(loss_actor.detach()))
                follow(target_actor, actor)
                follow(target_critic, critic)
            errors.append((q - goal).abs().mean(0).detach().numpy())
            told.append([float(loss.detach()), float(q.detach().mean()), norm])
        state = [adams(flat(net)) for net in (case.actor, case.critic)]
        targets = [flat(net) for net in (case.target_actor, case.target_critic)]
        found = np.zeros((BATCHES, case.rows))
        said = case.engine("td3").learn(
            {"actor": state[0], "critic": state[1]}, {"actor": targets[0], "critic": targets[1]},
            *case.columns.values(), found, case.noise[:, 0] if deviation else None, case.weights,
            first=case.first, learning_rate=RATE, tau=TAU, policy_delay=case.every,
            target_noise=deviation, noise_clip=0.3, alpha=None, max_grad_norm=case.norm, adam_eps=EPS,
        )  # fmt: skip
        left = [state[0][0], state[1][0], *targets, found]
        expected = [flat(net) for net in (actor, critic, target_actor, target_critic)]
        assert_close(left, [*expected, np.stack(errors)])
        for name, value in zip(("critic", "q_mean", "grad_norm"), np.mean(told, 0), strict=True):
            assert said[name] == pytest.approx(value, rel=1e-9, abs=1e-11), (number, name)
        assert ("actor" in said) == bool(losses)
        if losses:
            assert said["actor"] == pytest.approx(np.mean(losses), rel=1e-9)
        assert int(state[0][3][0]) == len(losses)


def trained(case: Case, omitted: Sequence[str] = (), **changes: Any) -> Any:
    """Run one TD3 update with some changed and omitted arguments."""
    given: dict[str, Any] = {
        "learned": {"actor": adams(flat(case.actor)), "critic": adams(flat(case.critic))},
        "targets": {"actor": flat(case.target_actor), "critic": flat(case.target_critic)},
        **case.columns, "errors": np.zeros((BATCHES, case.rows)), "noise": case.noise[:, 0],
        "first": 0, "learning_rate": RATE, "tau": TAU, "policy_delay": 1, "target_noise": 0.2,
        "noise_clip": 0.3, "max_grad_norm": None, "alpha": None,
    }  # fmt: skip
    given = {name: value for name, value in (given | changes).items() if name not in omitted}
    return case.engine("td3").learn(**given)


def test_native_sac_and_td3_updates_refuse_invalid_arguments_by_name() -> None:
    case = Case(5, outputs=1)
    short = (*adams(flat(case.actor))[:3], np.zeros(2, np.int64))
    states = {"actor": adams(flat(case.actor)), "critic": adams(flat(case.critic))}
    targets = {"actor": flat(case.target_actor), "critic": flat(case.target_critic)}
    for changes, error, says in (
        ({"actions": case.columns["actions"][..., :0]}, ShapeError, "actions has shape"),
        ({"noise": None}, ShapeError, "noise"),
        ({"tau": 1.5}, ConfigError, r"tau is 1\.5, expected 0 to 1"),
        ({"tau": None}, ConfigError, "tau is None, expected a number"),
        ({"tau": "slow"}, ConfigError, 'tau is "slow", expected a number'),
        ({"policy_delay": 0}, ConfigError, "policy_delay is 0"),
        ({"policy_delay": 1.5}, ConfigError, r"policy_delay is 1\.5, expected an integer in 0\.\.2\*\*64"),
        ({"policy_delays": 2}, UnknownNameError, 'unknown setting "policy_delays"; did you mean policy_del'),
        ({"alpha": True}, ConfigError, "alpha is true, expected a number"),
        ({"learned": states | {"actor": flat(case.actor)}}, ConfigError, "expected four arrays: parameters"),
        ({"learned": states | {"actor": short}}, ShapeError, "steps is"),
        ({"learned": states | {"critic": adams(flat(case.critic)[:-1])}}, ShapeError, "parameters of critic"),
        ({"learned": {"actor": states["actor"]}}, ConfigError, "critic is missing"),
        (
            {"learned": states | {"value": short}},
            UnknownNameError,
            'learned has the network "value", expected only actor',
        ),
        ({"targets": {"actor": targets["actor"]}}, ConfigError, "critic is missing"),
        ({"targets": targets | {"critic": targets["actor"]}}, ShapeError, "target of critic"),
    ):
        with pytest.raises(error, match=says):
            trained(case, **changes)
    for name in ("tau", "max_grad_norm", "alpha"):
        with pytest.raises(ConfigError, match=f"{name} is missing, expected a number"):
            trained(case, omitted=(name,))
    wrong = case.columns["rewards"].copy()
    wrong[1, 0] = np.inf
    with pytest.raises(NonFiniteError, match="critic loss by minibatch"):
        trained(case, rewards=wrong)


@pytest.mark.parametrize(
    ("algorithm", "changes", "error", "says"),
    [
        ("td", {}, UnknownNameError, 'unknown algorithm "td"; did you mean td3?'),
        ("td3", {"activation": "gelu"}, UnknownNameError, 'unknown activation "gelu"'),
        ("td3", {"members": "two"}, ConfigError, 'members is "two", expected an integer'),
        ("td3", {"actor": 64}, ConfigError, "actor is 64, expected widths of hidden layers"),
        ("td3", {"actor": [-1]}, ConfigError, r"actor is \[-1\], expected widths of hidden layers, integers"),
        ("td3", {"members": 2**31}, ShapeError, r"weights\.0"),
        ("td3", {"members": 2**63}, ShapeError, r"weights\.0"),
        ("td3", {"dueling": True}, UnknownNameError, 'unknown setting "dueling"'),
        ("td3", {"precision": "f16"}, ConfigError, 'precision is "f16", expected f32 or f64'),
        ("iql", {}, ConfigError, "value is missing, expected the arrays of this network"),
        ("dqn", {}, ConfigError, "q is missing, expected the arrays of this network"),
    ],
)
def test_an_engine_refuses_a_wrong_architecture_by_name(
    algorithm: str, changes: dict[str, Any], error: type[Exception], says: str
) -> None:
    shapes = {
        "actor": [("actor.0.weight", (1, 3)), ("actor.0.bias", (1,))],
        "critic": [("weights.0", (2, 1, 4)), ("biases.0", (2, 1))],
    }
    architecture: dict[str, Any] = {
        "obs_dim": 3, "size": 1, "members": 2, "actor": [], "critic": [], "activation": "relu"
    }  # fmt: skip
    OffPolicyEngine("td3", shapes, **architecture)
    with pytest.raises(error, match=says):
        OffPolicyEngine(algorithm, shapes, **(architecture | changes))


class GrowingIndex:
    """A dimension whose conversion adds an entry to a dict."""

    def __init__(self, target: dict[str, Any]) -> None:
        self.target = target

    def __index__(self) -> int:
        self.target.update({str(i): [] for i in range(100)})
        return 1


def test_a_dict_of_parameters_that_grows_while_it_is_read_is_read_as_it_was() -> None:
    shapes: dict[str, Any] = {"policy": [("net.0.weight", (2, 3)), ("net.0.bias", (2,))]}
    shapes["other"] = [("x", (GrowingIndex(shapes),))]
    with pytest.raises(UnknownNameError, match='unknown network "other"; known: policy'):
        OffPolicyEngine(
            "bc", shapes, obs_dim=3, size=2, hidden=[], activation="relu", gaussian=False
        )  # fmt: skip
    assert len(shapes) == 102


def test_parameters_too_many_are_refused_in_every_network() -> None:
    policy = [("net.0.weight", (2, 3)), ("net.0.bias", (2,))]
    architecture: dict[str, Any] = {"obs_dim": 3, "size": 2, "hidden": [], "activation": "relu"}
    OffPolicyEngine("bc", {"policy": policy}, gaussian=False, **architecture)
    for extra in (("log_std", (2,)), ("net.2.weight", (2, 2))):
        with pytest.raises(ConfigError, match=f"parameter is {extra[0]}, expected those that a policy"):
            OffPolicyEngine("bc", {"policy": [*policy, extra]}, gaussian=False, **architecture)


def test_parameters_of_other_names_and_shapes_are_refused() -> None:
    case = Case(6, outputs=1)
    case.actor_widths = [w + 1 for w in case.actor_widths]
    with pytest.raises(ShapeError, match=r"actor\.0\.weight"):
        case.engine("td3")
    case = Case(6, outputs=2)
    with pytest.raises(ShapeError, match=r"actor\."):
        case.engine("td3")
    case = Case(6, outputs=1)
    case.members += 1
    with pytest.raises(ShapeError, match=r"weights\.0"):
        case.engine("td3")
