"""What a run leaves and how it goes on: sessions, checkpoints, logs, and the façade over them."""
