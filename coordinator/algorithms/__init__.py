"""One file per algorithm; `coordinator.algorithm.known` finds them all."""
