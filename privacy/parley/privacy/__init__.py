"""Mechanisms, accountants and ledgers: what is claimed and how it is counted."""
