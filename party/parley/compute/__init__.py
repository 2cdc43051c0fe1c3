"""A party's sums on several machines of its own institution."""
