"""Tests that a row of the log has the means of the updates since the previous row."""

from __future__ import annotations

import json

from rlox.runs.metric_means import MetricMeans


def test_a_row_is_the_mean_since_the_last_one() -> None:
    means = MetricMeans()
    for loss in (1.0, 2.0, 6.0):
        means.add({"loss": loss})
    assert means.row() == {"loss": 3.0}
    means.add({"loss": 5.0})
    assert means.row() == {"loss": 5.0}


def test_a_number_that_only_some_updates_have_is_the_mean_of_those() -> None:
    means = MetricMeans()
    means.add({"loss/critic": 1.0})
    means.add({"loss/critic": 3.0, "loss/actor": 8.0})
    assert means.row() == {"loss/critic": 2.0, "loss/actor": 8.0}


def test_a_row_without_updates_keeps_the_names_and_has_no_numbers() -> None:
    means = MetricMeans()
    means.add({})
    assert means.row() == {}
    means.add({"loss": 1.0})
    means.row()
    means.add({})
    assert means.row() == {"loss": None}


def test_means_go_on_where_they_were_saved() -> None:
    one, other = MetricMeans(), MetricMeans()
    one.add({"loss": 0.1})
    one.add({"loss": 0.2})
    other.restore(json.loads(json.dumps(one.state())))
    for means in (one, other):
        means.add({"loss": 0.7})
    assert one.row() == other.row()
