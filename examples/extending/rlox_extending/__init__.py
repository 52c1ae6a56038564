"""The worked examples of docs/extending.md, as a package of plugins."""
