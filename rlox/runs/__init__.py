"""Runs: sessions, checkpoints, logs, and the façade `Algorithm`."""
