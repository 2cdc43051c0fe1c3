"""`python -P -m parley.compute FOLDER`: started by `parley.compute.engine`, for nobody else."""

from parley.compute.foreman import main

if __name__ == "__main__":
    main()
