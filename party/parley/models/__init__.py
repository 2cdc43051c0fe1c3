"""Which models there are: the built-in ones by name, and an institution's own PyTorch modules (docs/neural.md)."""
