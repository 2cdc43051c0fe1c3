"""The papers' tables, regenerated: one module per experiment, each a list of rows beside the paper's figures."""
