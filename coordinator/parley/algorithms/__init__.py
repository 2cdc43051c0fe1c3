"""One file per algorithm; `parley.algorithms.algorithm.known` finds them all."""
