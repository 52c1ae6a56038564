"""Parameters without torch: layout, initial values, optimizer state, and the engine in Rust that learns."""
