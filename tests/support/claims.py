"""Claims."""

from parley.privacy.accountants import accountant

PLD = accountant("pld")
DELTA = 1e-5
