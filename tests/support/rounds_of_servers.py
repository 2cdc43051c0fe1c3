"""Servers whose rounds are opened."""

from parley.v1 import aggregator_pb2 as wire

STATE = wire.OpenResponse
