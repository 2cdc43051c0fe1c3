"""Networks of a research group, for records of several hospitals."""
