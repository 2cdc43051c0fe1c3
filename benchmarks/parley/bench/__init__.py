"""Benchmarks of noise, gradients and whole federations; not in the images."""
