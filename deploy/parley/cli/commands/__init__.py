"""One module per command group of `parley`; each defines a typer `app` that `parley.cli.main` mounts."""
