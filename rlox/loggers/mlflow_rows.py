"""Delete rows in an MLflow store that is a database; MLflow's API cannot delete metrics of a run."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["delete_points_after"]


def delete_points_after(uri: str, run_id: str, last_ms: int) -> int:
    """Delete a run's points with a time after `last_ms`; return their number."""
    sql = import_module("sqlalchemy")
    models = import_module("mlflow.store.tracking.dbmodels.models")
    points, latest_table = models.SqlMetric.__table__, models.SqlLatestMetric.__table__
    engine = sql.create_engine(uri)
    try:
        with engine.begin() as connection:
            of_run = points.c.run_uuid == run_id
            result = connection.execute(sql.delete(points).where(of_run, points.c.timestamp > last_ms))
            if result.rowcount:
                _update_latest(sql, connection, points, latest_table, run_id)
            return int(result.rowcount)
    finally:
        engine.dispose()


def _update_latest(sql: Any, connection: Any, points: Any, latest_table: Any, run_id: str) -> None:
    """Rebuild the table of each metric's newest point from the remaining points."""
    names = ("key", "value", "timestamp", "step", "is_nan", "run_uuid")
    query = sql.select(*(points.c[name] for name in names)).where(points.c.run_uuid == run_id)
    remaining_points = connection.execute(query.order_by(points.c.step, points.c.timestamp))
    latest = {row.key: dict(zip(names, row, strict=True)) for row in remaining_points}
    connection.execute(sql.delete(latest_table).where(latest_table.c.run_uuid == run_id))
    if latest:
        connection.execute(sql.insert(latest_table), list(latest.values()))
