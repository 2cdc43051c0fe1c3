"""One base above every room's errors, so that a program can tell what parley says from a defect: `except ParleyError`.

The lowest room: it imports nothing, and every other may import it. Each room has its own family below it.
"""


class ParleyError(Exception):
    """What this software raises on purpose; the message is one line and says what to change."""
