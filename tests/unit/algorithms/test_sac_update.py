"""Tests that SAC updates follow the formulas of the algorithm."""

from __future__ import annotations

import math
import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor
from torch.distributions import Normal

from rlox.algorithms import SAC
from rlox.algorithms.sac.learner import SACLearner
from rlox.configs import SACConfig, make
from rlox.errors import ConfigError, NonFiniteError, UnsupportedSpaceError
from rlox.losses import soft_policy_loss, temperature_loss
from rlox.networks import EnsembleMLP, SquashedGaussianPolicy, SquashedSDEPolicy, squashed_log_prob
from rlox.policies.exploration import CategoricalExploration
from rlox.policies.soft import CategoricalSACPolicy, SquashedSACPolicy
from rlox.rng import Streams
from rlox.trainers import SACTrainer
from rlox.training.learner import UpdateNoise
from rlox.types import Clock, Transitions

OBS, ACT = 3, 2


def batches(n: int, size: int = 12, weights: bool = False, choices: int = 0) -> Transitions:
    g = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, generator=g)  # noqa: E731
    return Transitions(
        obs=draw(n, size, OBS),
        actions=torch.randint(choices, (n, size), generator=g) if choices else draw(n, size, ACT).tanh(),
        rewards=draw(n, size),
        next_obs=draw(n, size, OBS),
        discounts=torch.where(torch.rand(n, size, generator=g) < 0.3, 0.0, 0.9),
        indices=np.arange(n * size, dtype=np.uint64).reshape(n, size),
        weights=torch.rand(n, size, generator=g) if weights else None,
    )


def squashed(sde: bool = False) -> SquashedSACPolicy:
    torch.manual_seed(0)
    actor: Any = SquashedSDEPolicy if sde else SquashedGaussianPolicy
    return SquashedSACPolicy(actor(OBS, ACT, net_arch=(8, 6)), EnsembleMLP(2, (OBS + ACT, 8, 6, 1), "relu"))


def learner(policy: Any = None, **settings: Any) -> SACLearner:
    config = make(SACConfig, {"learning_rate": 0.01, **settings})
    return SACLearner(policy or squashed(), config, -float(ACT), UpdateNoise(Streams(3)))


def vector(module: torch.nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten().clone() for p in module.parameters()])


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (0.7, 0.3), (-1.5, 2.0)])
def test_the_density_of_a_squashed_action_integrates_to_one(mean: float, std: float) -> None:
    u = torch.linspace(-12, 12, 100_001, dtype=torch.float64)[:, None]
    density = squashed_log_prob(u, torch.tensor([mean]), torch.tensor([math.log(std)])).exp()
    assert float(torch.trapezoid(density, u.tanh()[:, 0])) == pytest.approx(1.0, abs=1e-4)


def test_the_log_density_is_that_of_the_change_of_variables_and_finite_far_out() -> None:
    u = torch.tensor([[0.3, -1.2], [2.0, 0.0]], dtype=torch.float64)
    mean, log_std = torch.tensor([0.1, -0.4]), torch.tensor([-0.5, 0.2])
    plain = Normal(mean.double(), log_std.double().exp()).log_prob(u) - (1 - u.tanh() ** 2).log()
    torch.testing.assert_close(squashed_log_prob(u, mean, log_std), plain.sum(-1))
    far = squashed_log_prob(torch.tensor([[20.0], [-20.0]]), torch.zeros(1), torch.zeros(1))
    expected = -200.0 - 0.5 * math.log(2 * math.pi) - 2 * (math.log(2) - 20)
    torch.testing.assert_close(far, torch.full((2,), expected))


def test_draw_explore_and_mode_follow_the_squashed_gaussian() -> None:
    actor = squashed().actor
    obs, noise = torch.randn(5, OBS), torch.randn(5, ACT)
    action, log_prob = actor.draw(obs, noise)
    mean, log_std = actor(obs)
    torch.testing.assert_close(action, (mean + log_std.exp() * noise).tanh())
    torch.testing.assert_close(log_prob, squashed_log_prob((mean + log_std.exp() * noise), mean, log_std))
    assert torch.autograd.grad(action.sum(), actor.net[0].weight)[0].abs().sum() > 0
    with torch.no_grad():
        torch.testing.assert_close(actor.explore(obs, noise), action)
        torch.testing.assert_close(actor.mode(obs), mean.tanh())


def test_sac_clamps_the_log_deviation_to_minus_20_and_2() -> None:
    actor = squashed().actor
    obs, noise = torch.randn(3, OBS), torch.randn(3, ACT)
    for said, kept in ((-100.0, -20.0), (100.0, 2.0)):
        with torch.no_grad():
            actor.net[-1].weight.zero_()
            actor.net[-1].bias.copy_(torch.tensor([0.1] * ACT + [said] * ACT))
            assert (actor(obs)[1] == kept).all()
            wanted = (0.1 + math.exp(kept) * noise).tanh()
            torch.testing.assert_close(actor.explore(obs, noise), wanted)
            torch.testing.assert_close(actor.draw(obs, noise)[0], wanted)


def test_gsde_is_a_gaussian_whose_deviation_follows_the_state() -> None:
    torch.manual_seed(1)
    actor = SquashedSDEPolicy(OBS, ACT, (8, 6), "tanh", log_std_init=-0.5)
    obs = torch.randn(1, OBS).expand(40_000, -1)
    with torch.no_grad():
        drawn, _ = actor.sample(obs, torch.Generator().manual_seed(2))
        mean, theta = actor(obs[:1])
        std = (theta.square() @ actor.log_std.exp().square()).sqrt()
        u = drawn.atanh()
        torch.testing.assert_close(u.mean(0), mean[0], atol=0.03, rtol=0)
        torch.testing.assert_close(u.std(0), std[0], atol=0.03, rtol=0)
        noise = torch.randn(6, ACT)  # one matrix for all rows
        action, log_prob = actor.draw(torch.eye(3), noise)
        mean, theta = actor(torch.eye(3))
        std = (theta.square() @ actor.log_std.exp().square() + 1e-6).sqrt()
    u = mean + theta @ (noise * actor.log_std.detach().exp())
    torch.testing.assert_close(action, u.tanh())
    torch.testing.assert_close(log_prob, squashed_log_prob(u, mean, std.log()))


def test_the_mean_under_gsde_is_cut_off_at_two() -> None:
    actor = SquashedSDEPolicy(OBS, ACT, (4,))
    torch.nn.init.constant_(actor.net[-1].bias, 50.0)
    assert actor(torch.zeros(1, OBS))[0].tolist() == [[2.0, 2.0]]


def test_an_actor_that_detaches_what_it_draws_is_refused() -> None:
    class Stuck(SquashedGaussianPolicy):
        def draw(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
            action, log_prob = super().draw(obs, noise)
            return action.detach(), log_prob

    policy = squashed()
    policy.actor = Stuck(OBS, ACT, net_arch=(8,))
    with pytest.raises(ConfigError, match="nothing can be learned: the drawn action has no gradient"):
        learner(policy).update(batches(1), Clock(horizon=100))


class Detaching(EnsembleMLP):
    """Critics that cut the gradient to their inputs."""

    def forward(self, x: Tensor, members: int | None = None) -> Tensor:
        return super().forward(x.detach(), members)


def test_critics_that_detach_the_actors_actions_are_refused() -> None:
    policy = squashed()
    policy.critic = Detaching(2, (OBS + ACT, 8, 1))
    with pytest.raises(
        ConfigError, match="no gradient leads from the critics' values to the actor's actions"
    ):
        learner(policy).update(batches(1), Clock(horizon=100))


@pytest.mark.parametrize("log_std", [-18.0, -14.0, -1.0, 1.9])
def test_a_float32_density_and_its_gradient_are_exact_for_any_deviation(log_std: float) -> None:
    results = []
    for dtype in (torch.float64, torch.float32):
        torch.manual_seed(0)
        actor: Any = squashed().actor.to(dtype)
        with torch.no_grad():
            actor.net[-1].weight[ACT:] = 0.0
            actor.net[-1].bias[ACT:] = log_std
        noise = torch.randn(12, ACT, generator=torch.Generator().manual_seed(1)).to(dtype)
        _, log_prob = actor.draw(batches(1).obs[0].to(dtype), noise)
        (slope,) = torch.autograd.grad(log_prob.mean(), actor.net[-1].bias)
        results.append((log_prob.detach().double(), slope.double()))
    for exact, found in zip(*results, strict=True):
        torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-4)


class Scaled(SquashedGaussianPolicy):
    """Maps log deviations by tanh into [-5, 2], as CleanRL does."""

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.net(obs).chunk(2, -1)
        return mean, 3.5 * log_std.tanh() - 1.5


def test_an_actor_of_a_subclass_draws_by_its_own_forward_pass() -> None:
    actor = Scaled(OBS, ACT, net_arch=(8,)).double()
    obs, noise = torch.randn(5, OBS).double(), torch.randn(5, ACT).double()
    mean, log_std = actor(obs)
    u = mean + log_std.exp() * noise
    torch.testing.assert_close(actor.draw(obs, noise), (u.tanh(), squashed_log_prob(u, mean, log_std)))


def test_the_lowest_critic_counts_and_every_critic_is_learned() -> None:
    policy = squashed()
    obs, action = torch.randn(7, OBS), torch.rand(7, ACT)
    with torch.no_grad():
        each, value = (f(policy.critic, obs, action) for f in (policy.action_values, policy.value))
    assert each.shape == (2, 7)
    assert (each[0] != each[1]).all()
    assert value.tolist() == each.amin(0).tolist()
    before = [p.detach().clone() for p in policy.critic.parameters()]
    learner(policy).update(batches(1), Clock(horizon=100))
    moved = [(b != p).flatten(1).any(1) for b, p in zip(before, policy.critic.parameters(), strict=True)]
    assert all(m.all() for m in moved)


def test_choices_are_learned_by_sums_over_all_of_them() -> None:
    torch.manual_seed(0)
    policy = CategoricalSACPolicy(OBS, 4, 2, (8,), (6,), "relu")
    obs = torch.randn(5, OBS)
    with torch.no_grad():
        p, neg_entropy = policy.draw(obs, torch.empty(0))
        value = policy.value(policy.critic, obs, p)
        taken = policy.action_values(policy.critic, obs, torch.tensor([0, 3, 1, 1, 2]))
    logits, q = policy.actor.net(obs).detach(), policy.critic(obs).detach()
    for b in range(5):
        weights = [math.exp(float(x)) for x in logits[b]]
        chance = [w / sum(weights) for w in weights]
        by_hand = sum(c * min(float(q[0, b, a]), float(q[1, b, a])) for a, c in enumerate(chance))
        assert float(value[b]) == pytest.approx(by_hand, rel=1e-4)
        assert float(neg_entropy[b]) == pytest.approx(sum(c * math.log(c) for c in chance), rel=1e-4)
    assert taken.tolist() == [[float(q[i, b, a]) for b, a in enumerate([0, 3, 1, 1, 2])] for i in (0, 1)]


def test_the_discrete_actors_loss_has_the_gradient_of_the_policy_gradient_theorem() -> None:
    torch.manual_seed(0)
    policy = CategoricalSACPolicy(OBS, 4, 2, (8,), (6,), "relu")
    obs, alpha = torch.randn(5, OBS), torch.tensor(0.3)
    p, neg_entropy = policy.draw(obs, torch.empty(0))
    loss = soft_policy_loss(neg_entropy, policy.value(policy.critic, obs, p), alpha)
    bias = policy.actor.net[-1].bias
    (found,) = torch.autograd.grad(loss, bias)
    with torch.no_grad():  # d/d logit_a of E_pi[alpha log pi - min Q] = pi_a (f_a - E_pi[f])
        f = alpha * p.log() - policy.critic(obs).amin(0)
        expected = (p * (f - (p * f).sum(-1, keepdim=True))).mean(0)
    torch.testing.assert_close(found, expected)


def test_the_actors_step_moves_no_critic_and_the_critics_step_no_actor() -> None:
    made, first = learner(), squashed()
    policy, step, seen = made.policy, made.critic_optimizer.step, []

    def stepped() -> None:
        step()
        seen.append((vector(policy.critic), vector(policy.actor)))

    made.critic_optimizer.step = stepped  # type: ignore[method-assign]
    made.update(batches(1), Clock(horizon=100))
    ((critics, actor),) = seen
    assert not torch.equal(critics, vector(first.critic))
    assert torch.equal(actor, vector(first.actor))
    assert torch.equal(vector(policy.critic), critics)
    assert not torch.equal(vector(policy.actor), actor)


@pytest.mark.parametrize("mean", [-20.0, 20.0])
def test_an_action_at_the_edge_has_a_density_and_gradients_that_are_finite(mean: float) -> None:
    actor = squashed().actor
    torch.nn.init.constant_(actor.net[-1].bias[:ACT], mean)
    torch.nn.init.constant_(actor.net[-1].bias[ACT:], -1.0)
    obs, noise = batches(1).obs[0], torch.zeros(12, ACT)
    expected = squashed_log_prob(*actor(obs)[:1] * 2, actor(obs)[1]).detach()
    action, log_prob = actor.draw(obs, noise)
    (action.sum() + log_prob.sum()).backward()
    assert (action == math.copysign(1.0, mean)).all()
    torch.testing.assert_close(log_prob.detach(), expected)
    assert log_prob.min() > 20.0
    assert all(torch.isfinite(p.grad).all() for p in actor.parameters())


def test_the_soft_target_includes_the_entropy_and_ends_at_termination() -> None:
    made, data = learner(ent_coef=0.3), batches(1, weights=True)
    with torch.no_grad():
        noise = UpdateNoise(Streams(3))(0, (2, 12, ACT), torch.zeros(()))[1]
        action, log_prob = made.policy.draw(data.next_obs[0], noise)
        after = made.target.module(torch.cat([data.next_obs[0], action], -1))[..., 0].amin(0)
        goal = data.rewards[0] + data.discounts[0] * (after - 0.3 * log_prob)
        q = made.policy.action_values(made.policy.critic, data.obs[0], data.actions[0])
    update = made.update(data, Clock(horizon=100))
    expected = (q - goal).abs().mean(0)
    np.testing.assert_allclose(update.columns["priorities"], expected, rtol=1e-4)
    loss = 0.5 * sum((data.weights[0] * (q[i] - goal) ** 2).mean() for i in (0, 1))
    assert update.metrics["loss/critic"] == pytest.approx(float(loss), rel=1e-4)


def test_the_temperature_falls_where_the_entropy_is_above_its_target_and_rises_below() -> None:
    log_alpha = torch.zeros((), requires_grad=True)
    for log_prob, target, sign in ((-3.0, 2.0, 1.0), (-1.0, 2.0, -1.0)):
        loss = temperature_loss(log_alpha, torch.full((4,), log_prob), target)
        assert float(torch.autograd.grad(loss, log_alpha)[0]) == pytest.approx(sign)
    policy, before = squashed(), 1.0
    for target, falls in ((-50.0, True), (50.0, False)):
        config = make(SACConfig, {"learning_rate": 0.1})
        made = SACLearner(policy, config, target, UpdateNoise(Streams(3)))
        made.update(batches(3), Clock(horizon=100))
        assert (float(made.temperature.alpha) < before) is falls


def test_a_fixed_temperature_stays_and_a_learned_one_begins_where_it_is_told() -> None:
    for given, alpha, learned in ((0.2, 0.2, False), ("auto", 1.0, True), ("auto_0.1", 0.1, True)):
        made = learner(ent_coef=given)
        assert float(made.temperature.alpha) == pytest.approx(alpha)
        made.update(batches(2), Clock(horizon=100))
        assert (float(made.temperature.alpha) != pytest.approx(alpha, abs=1e-7)) is learned


@pytest.mark.parametrize("given", ["automatic", "auto_", "auto_0", -0.1, "nan", "inf", "lin_0.1"])
def test_sac_refuses_invalid_temperatures(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"^algo\.ent_coef=.*: expected auto, auto_0\.1 .* or a number"):
        SAC("Pendulum-v1", ent_coef=given)


def test_a_target_for_a_temperature_that_is_not_learned_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"algo\.target_entropy=-1 and algo\.ent_coef=0\.1"):
        SAC("Pendulum-v1", ent_coef=0.1, target_entropy=-1.0)


def test_the_target_entropy_defaults_to_minus_dim_or_98_percent_of_the_maximum() -> None:
    entropy = lambda env, **more: SAC(env, **more).learner.temperature.target_entropy  # noqa: E731
    assert entropy("Pendulum-v1") == -1.0
    assert entropy("CartPole-v1") == pytest.approx(0.98 * math.log(2))
    assert entropy("CartPole-v1", target_entropy=0.3) == 0.3
    assert entropy("Pendulum-v1", target_entropy="auto") == -1.0
    assert entropy("CartPole-v1", target_entropy="auto") == entropy("CartPole-v1")
    assert SACTrainer("Pendulum-v1", target_entropy="auto").algo.config.algo == SACConfig()
    assert SAC("Pendulum-v1", ent_coef=0.1, target_entropy="auto").config.algo.target_entropy is None


@pytest.mark.parametrize(
    ("env", "said", "most"), [("CartPole-v1", 0.7, "0.693"), ("Pendulum-v1", 0.75, "0.693")]
)
def test_a_target_entropy_above_the_uniform_policys_is_refused(env: str, said: float, most: str):
    with pytest.raises(
        ConfigError, match=rf"algo\.target_entropy={said}: .* the uniform policy, {most}; set it lower"
    ):
        SAC(env, target_entropy=said)


@pytest.mark.parametrize("given", ["automatic", "Auto", "-1 ", ""])
def test_a_target_entropy_that_is_no_number_is_refused(given: str) -> None:
    told = f"algo.target_entropy={given!r}: expected a number; null or auto: -dim(A) for Box actions"
    with pytest.raises(ConfigError, match=f"^{re.escape(told)}"):
        SAC("Pendulum-v1", target_entropy=given)
    with pytest.raises(ConfigError, match=r"^algo\.target_entropy=nan: expected a value in"):
        SAC("Pendulum-v1", target_entropy=math.nan)


def test_the_target_follows_by_tau_at_each_update_or_at_every_nth() -> None:
    for interval in (1, 3):
        made = learner(tau=0.1, target_update_interval=interval)
        expected = vector(made.target.module)
        for update in range(5):
            made.update(batches(1), Clock(updates=update, horizon=100))
            if (update + 1) % interval == 0:
                expected = 0.9 * expected + 0.1 * vector(made.policy.critic)
            torch.testing.assert_close(vector(made.target.module), expected)


@pytest.mark.parametrize("kind", ["vectors", "gsde", "choices"])
def test_sac_learns_the_same_weights_however_batches_are_grouped(kind: str) -> None:
    data = batches(4, choices=3 if kind == "choices" else 0)
    results = []
    for parts in ([slice(0, 4)], [slice(0, 1), slice(1, 3), slice(3, 4)]):
        torch.manual_seed(0)
        policy: Any = CategoricalSACPolicy(OBS, 3, 2, (8,), (8,), "relu")
        made = learner(policy if kind == "choices" else squashed(kind == "gsde"))
        for part in parts:
            names = ("obs", "actions", "rewards", "next_obs", "discounts", "indices")
            some = Transitions(**{name: getattr(data, name)[part] for name in names})
            made.update(some, Clock(updates=part.start, horizon=100))
        results.append(vector(made.policy))
    assert torch.equal(*results)


def test_noise_is_a_function_of_seed_and_update() -> None:
    like = torch.zeros(())
    first = UpdateNoise(Streams(3))(5, (2, 4), like)
    assert torch.equal(first, UpdateNoise(Streams(3))(5, (2, 4), like))
    assert not torch.equal(first, UpdateNoise(Streams(3))(6, (2, 4), like))
    assert not torch.equal(first, UpdateNoise(Streams(4))(5, (2, 4), like))


class Wide(gym.Env[Any, Any]):
    """Records every action."""

    observation_space = spaces.Box(-1, 1, (OBS,), np.float32)
    action_space = spaces.Box(np.array([[-1.0, 0.0]], np.float32), np.array([[3.0, 10.0]], np.float32))

    def __init__(self, given: list[Any]) -> None:
        self.given = given

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(OBS, np.float32), {}

    def step(self, action: Any) -> Any:
        self.given.append(action)
        return np.zeros(OBS, np.float32), 0.0, False, len(self.given) % 50 == 0, {}


def test_warm_up_covers_the_action_range_and_stores_unit_actions() -> None:
    taken: list[Any] = []
    sizes: dict[str, Any] = {"batch_size": 8, "net_arch": (4,), "buffer_size": 1000}
    algorithm = SAC(lambda: Wide(taken), learning_starts=400, seed=1, **sizes)
    algorithm.train(500)
    given = np.concatenate(taken[:400])
    assert given.shape == (400, 2)
    np.testing.assert_allclose(given.min(0), [-1.0, 0.0], atol=0.1)
    np.testing.assert_allclose(given.max(0), [3.0, 10.0], atol=0.2)
    np.testing.assert_allclose(given.mean(0), [1.0, 5.0], atol=0.5)
    rows = algorithm.source.replay_sampler.buffer.sample(200, seed=0)["actions"]
    assert np.abs(rows).max() <= 1.0
    assert rows.min() < -0.9
    action = algorithm.predict(np.zeros(OBS, np.float32))
    assert action.shape == (1, 2)
    assert Wide.action_space.contains(action)


def test_actions_without_bounds_are_refused_by_name() -> None:
    class Endless(Wide):
        action_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    with pytest.raises(UnsupportedSpaceError, match=r"sac needs Box actions with finite bounds, but <.*>"):
        SAC(lambda: Endless([]))


@pytest.mark.parametrize("given", [{"log_std_init": -1.0}, {"sde_sample_freq": 8}])
def test_sac_refuses_gsde_settings_without_use_sde(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"algo\.{next(iter(given))}=.* without algo\.use_sde"):
        SAC("Pendulum-v1", **given)


def test_a_single_observation_is_sampled_for_as_a_batch_is() -> None:
    actor = squashed().actor
    action, log_prob = actor.sample(torch.zeros(OBS), torch.Generator().manual_seed(0))
    assert (action.shape, log_prob.shape) == ((ACT,), ())


def test_sac_refuses_use_sde_with_discrete_actions() -> None:
    with pytest.raises(ConfigError, match=r"algo\.use_sde=true needs Box actions, CartPole-v1 has .*out$"):
        SAC("CartPole-v1", use_sde=True)


def test_sac_stops_at_an_infinite_loss_and_names_the_minibatch() -> None:
    data = batches(2)
    data.rewards[1, 3] = torch.inf
    with pytest.raises(NonFiniteError, match="loss/critic is inf in minibatch 1"):
        learner().update(data, Clock(horizon=1000))


def test_exploration_is_the_policys_own_noise_and_a_function_of_the_step() -> None:
    algorithm = SAC("Pendulum-v1", n_envs=3, seed=4, net_arch=(8,))
    explore, obs = algorithm.source.exploration, np.ones((3, 3), np.float32)
    with torch.inference_mode():
        drawn = np.stack([explore.act(obs, step, 0.0) for step in range(4000)])
        assert (explore.act(obs, 7, 0.5) == drawn[7]).all()
        mean, log_std = algorithm.policy.actor(torch.ones(1, 3))
    u = np.arctanh(drawn.clip(-0.999999, 0.999999))
    assert u.mean() == pytest.approx(float(mean), abs=0.05)
    assert u.std() == pytest.approx(float(log_std.exp()), rel=0.05)


def test_choices_are_explored_by_the_softmax_and_at_random_each_as_likely() -> None:
    logits = torch.tensor([0.0, 1.0, -1.0, 0.5])
    explore = CategoricalExploration(lambda obs: logits.expand(len(obs), 4), 4, 8, 3, torch.device("cpu"))
    obs = np.zeros((8, 2), np.float32)
    acted = np.concatenate([explore.act(obs, step, 0.0) for step in range(5000)])
    random = np.concatenate([explore.random_actions(step, obs) for step in range(5000)])
    for drawn, p in ((acted, torch.softmax(logits, 0).numpy()), (random, np.full(4, 0.25))):
        expected = p * len(drawn)
        counts = np.bincount(drawn, minlength=4)
        assert ((counts - expected) ** 2 / expected).sum() < 16.3  # 3 degrees of freedom, p = 0.001


@pytest.mark.parametrize(("freq", "same"), [(1, 1), (4, 4), (-1, 6)])
def test_a_matrix_of_gsde_is_kept_for_its_steps(freq: int, same: int) -> None:
    """-1 keeps it between two trainings: for 12 environment steps, 6 in each of two environments."""
    options: dict[str, Any] = {"train_freq": 12, "net_arch": (8,), "n_envs": 2, "log_std_init": 0.0}
    algorithm = SAC("Pendulum-v1", use_sde=True, sde_sample_freq=freq, **options)
    explore, obs = algorithm.source.exploration, np.ones((2, 3), np.float32)
    with torch.inference_mode():
        drawn = [explore.act(obs, step, 0.0).tobytes() for step in range(24)]
        noise = explore._noise[0]
        seen = torch.from_numpy(obs)
        by_draw = algorithm.policy.actor.draw(seen, noise)[0].numpy()
        np.testing.assert_allclose(explore.act(obs, 0, 0.0), by_draw, rtol=1e-6)
    kept = [len(set(drawn[at : at + same])) for at in range(0, 24, same)]
    assert kept == [1] * (24 // same)
    assert len(set(drawn)) == 24 // same
