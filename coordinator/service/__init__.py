"""The coordinator as a process: durable runs, the driver of a round, what parties and operators ask of it."""
