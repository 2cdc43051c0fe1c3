"""Mechanisms."""

from parley.privacy.randomness import SystemRandomness

SOURCE = SystemRandomness()
