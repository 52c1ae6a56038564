"""The Hydra config tree, shipped inside the wheel as `rlox_cli/conf`."""
