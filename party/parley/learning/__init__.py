"""What an institution runs: readers, models, per-record gradients, policy. Imports `mpc` and `privacy` only."""
