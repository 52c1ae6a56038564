"""A logger into an SQLite database in the run folder."""

import json
import sqlite3
from dataclasses import dataclass

from rlox.configs import param
from rlox.loggers import Sink
from rlox.plugins import LoggerPlugin


@dataclass(frozen=True)
class SqliteConfig:
    """A table `metrics` in `metrics.db` with the number of a row, and the row as JSON."""

    name: str = param("sqlite", "the logger", choices=("sqlite",))
    file: str = param("metrics.db", "the database, in the run folder", verbatim=True)


class SqliteSink(Sink):
    """Write rows to SQLite: a row is stored when `write` returns, and no row is stored twice."""

    def __init__(self, path):
        self.path = path

    def open(self, rows):
        """Keep the first rows and delete later ones; return the number of rows."""
        self.store = sqlite3.connect(self.path, check_same_thread=False)
        self.store.execute("CREATE TABLE IF NOT EXISTS metrics (n INTEGER PRIMARY KEY, row TEXT)")
        self.store.execute("DELETE FROM metrics WHERE n > ?", [rows])
        self.store.commit()
        return self.store.execute("SELECT COUNT(*) FROM metrics").fetchone()[0]

    def write(self, rows):
        """Store the next rows."""
        texts = [(json.dumps(row),) for row in rows]
        self.store.executemany("INSERT INTO metrics (row) VALUES (?)", texts)
        self.store.commit()

    def close(self):
        """Close the database."""
        self.store.close()


SQLITE_PLUGIN = LoggerPlugin(SqliteConfig, lambda config, folder, run: SqliteSink(folder / config.file))
