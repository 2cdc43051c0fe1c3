"""The demonstration, and a whole federation on one machine."""
