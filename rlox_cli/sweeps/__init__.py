"""Sweeps: their jobs, the processes that train them, display and summary."""
