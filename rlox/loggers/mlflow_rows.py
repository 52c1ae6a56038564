"""Taking rows back from an MLflow store that is a database: no call of MLflow's deletes a metric of a run."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["taken_back"]


def taken_back(uri: str, run: str, last: int) -> int:
    """Delete the points of a run that are newer than `last`, in milliseconds; how many there were."""
    sql = import_module("sqlalchemy")
    models = import_module("mlflow.store.tracking.dbmodels.models")
    points, newest = models.SqlMetric.__table__, models.SqlLatestMetric.__table__
    engine = sql.create_engine(uri)
    try:
        with engine.begin() as connection:
            of_run = points.c.run_uuid == run
            gone = connection.execute(sql.delete(points).where(of_run, points.c.timestamp > last))
            if gone.rowcount:
                _summarize(sql, connection, points, newest, run)
            return int(gone.rowcount)
    finally:
        engine.dispose()


def _summarize(sql: Any, connection: Any, points: Any, newest: Any, run: str) -> None:
    """The table of each metric's newest point, from the points that are left."""
    names = ("key", "value", "timestamp", "step", "is_nan", "run_uuid")
    asked = sql.select(*(points.c[name] for name in names)).where(points.c.run_uuid == run)
    left = connection.execute(asked.order_by(points.c.step, points.c.timestamp))
    latest = {row.key: dict(zip(names, row, strict=True)) for row in left}
    connection.execute(sql.delete(newest).where(newest.c.run_uuid == run))
    if latest:
        connection.execute(sql.insert(newest), list(latest.values()))
