"""The coordinator's dashboard: a reader of its store, logs and ledger, in a process of its own. docs/dashboard.md."""
