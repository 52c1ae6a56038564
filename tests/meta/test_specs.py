"""Tests that exactly the registered things have a spec, with which the contract tests run them."""

from __future__ import annotations

from helpers.native_envs import SPECS

import rlox


def test_every_native_environment_has_a_spec_and_nothing_else_has():
    assert sorted(SPECS) == rlox.native_env_ids()


def test_a_spec_says_the_size_of_state_and_observation_and_the_class():
    for env_id, spec in SPECS.items():
        vec = rlox.VecEnv(3, env_id=env_id)
        assert len(spec.starts) == vec.state_dim
        assert spec.observation(vec.get_state()).shape == (3, vec.obs_dim)
        assert len(spec.scripted_policy(vec.reset_all().T)) == 3
        assert spec.single(seed=1).env_id == env_id
