"""What an institution runs: readers, models, per-record gradients, policy."""
