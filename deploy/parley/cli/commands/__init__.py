"""One module per command of `parley`, or group: a function of its name, or a typer `app` (see `parley.cli.main`)."""
