"""Environments behind one interface: native (Rust), Gymnasium in process, Gymnasium in subprocesses."""
