"""What the study's lead runs: algorithms, rounds, state."""
