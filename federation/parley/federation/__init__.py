"""What all roles agree on: names, the manifest and what it means, the policies that admit it, what a round says."""
