"""An example of a plugin of rlox (docs/plugins.md)."""
