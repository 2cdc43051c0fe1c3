"""A study as a data scientist knows it: one document, its simulation, its model file."""
