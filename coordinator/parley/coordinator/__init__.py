"""What the study's lead runs: algorithms, rounds, state. Imports `mpc` and `privacy` only."""
