"""The process that runs a user's module: `parley.models.child` starts it, and whoever started it ends it."""

import sys

from parley.models.serve import main

if __name__ == "__main__":
    main(*(int(each) for each in sys.argv[1:4]))
