"""The aggregation server: uploads, rounds and openings as a durable state machine, and the process that serves them."""
