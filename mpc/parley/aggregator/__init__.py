"""The aggregation server: uploads, rounds and openings as a durable state machine, and its servicers.

Knows no manifest, policy or certificate: `deploy` hands it the terms of each admitted run and says who is calling.
"""
