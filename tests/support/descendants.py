"""What a process has started, from /proc: to be killed one by one, or to be gone."""

from pathlib import Path


def processes() -> dict[int, tuple[int, str]]:
    """Of every process that can be seen, and has not ended, its parent's number and its command line."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state, parent, *_ = (place / "stat").read_text().rpartition(")")[2].split()
            words = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (OSError, ValueError):
            continue
        if state != "Z":  # ended, and nobody has asked how
            found[int(place.name)] = (int(parent), words)
    return found


def descendants(root: int) -> dict[int, str]:
    """Command lines by number, the root left out."""
    everything, found, fresh = processes(), dict[int, str](), {root}
    while fresh:
        fresh = {number for number, (parent, _) in everything.items() if parent in fresh}
        found |= {number: everything[number][1] for number in fresh}
    return found


def named(root: int, part: str) -> list[int]:
    """Numbers of the descendants whose command line has this in it."""
    return sorted(number for number, words in descendants(root).items() if part in words)
