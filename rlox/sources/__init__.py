"""Where batches come from: what the loop asks for the next one."""
