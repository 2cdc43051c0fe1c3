"""One module per command group of `parley`; each defines a typer `app` that `deploy.cli` mounts."""
