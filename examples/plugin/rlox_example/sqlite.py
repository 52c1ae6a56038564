"""A logger into an SQLite database in the run folder."""

import json
import sqlite3
from dataclasses import dataclass

from rlox.configs import param
from rlox.loggers import Sink
from rlox.plugins import LoggerPlugin


@dataclass(frozen=True)
class SqliteConfig:
    """A table `metrics` in `metrics.db`: the number of a row, and the row as JSON."""

    name: str = param("sqlite", "the logger", choices=("sqlite",))
    file: str = param("metrics.db", "the database, in the run folder", verbatim=True)


class SqliteSink(Sink):
    """A row is in the database when `write` returns, and no row is in it twice."""

    def __init__(self, path):
        self.path = path

    def open(self, rows):
        """Keep the first rows, take back what is beyond; how many there are."""
        self.store = sqlite3.connect(self.path, check_same_thread=False)
        self.store.execute("CREATE TABLE IF NOT EXISTS metrics (n INTEGER PRIMARY KEY, row TEXT)")
        self.store.execute("DELETE FROM metrics WHERE n > ?", [rows])  # of a run that went back
        self.store.commit()
        return self.store.execute("SELECT COUNT(*) FROM metrics").fetchone()[0]

    def write(self, rows):
        """Take the next rows."""
        texts = [(json.dumps(row),) for row in rows]
        self.store.executemany("INSERT INTO metrics (row) VALUES (?)", texts)
        self.store.commit()

    def close(self):
        """Release the file."""
        self.store.close()


SQLITE_PLUGIN = LoggerPlugin(SqliteConfig, lambda config, folder, run: SqliteSink(folder / config.file))
