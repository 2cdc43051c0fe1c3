"""Trails."""

from parley.federation.names import NodeName, Role

PARTY = NodeName("cardio", Role.party, "hospital-a")
NORTH = NodeName("cardio", Role.aggregator, "north")
