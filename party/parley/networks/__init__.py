"""The papers' networks, as any user's package would bring them: PyTorch and nothing of parley."""
