"""A field that means something only with a switch is refused where the switch is off."""

from __future__ import annotations

from dataclasses import fields

import pytest

from rlox.configs import ALGO_CONFIGS, make_run
from rlox.errors import ConfigError

SWITCHED = [
    (name, f.name, f.metadata["only_with"])
    for name, kind in sorted(ALGO_CONFIGS.items())
    for f in fields(kind)
    if f.metadata.get("only_with") and f.metadata["only_with"] not in kind.drops
]
ELSE = {"sde_sample_freq": 4, "log_std_init": -2.0, "cql_target_value": 2.0, "target_entropy": -1.0}


@pytest.mark.parametrize(("algo", "field", "switch"), SWITCHED)
def test_a_field_of_a_switch_is_refused_where_it_is_off(algo: str, field: str, switch: str) -> None:
    tree = {"name": algo, switch: False, field: ELSE[field]}
    with pytest.raises(ConfigError, match=rf"algo.{field}=.* without algo.{switch}"):
        make_run({"algo": tree})
