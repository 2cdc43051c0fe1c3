# Everything runs in .venv, made here: a fresh machine needs Python 3.11 with venv, and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml $(wildcard mpc/parley/mpc/native/*.c) mpc/parley/mpc/native/build.py
PROTOS := $(wildcard proto/parley/v1/*.proto)

.PHONY: help demo compose-demo compose-up compose-link compose-down test test-all test-long check fix generate help-pages clean

help:  ## what can be made, a line each
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed  ## four hospitals train together on this machine: a model and a privacy report
	$(BIN)/parley demo

compose-demo:  ## the federation in containers: images, keys, a model, its report, and everything down again
	deploy/compose-demo.sh

compose-up:  ## the same left running, with the dashboard on loopback
	deploy/compose-demo.sh up

compose-link:  ## the address that signs in to the dashboard of what is up
	deploy/compose-demo.sh link

compose-down:  ## takes it down, with keys and state
	deploy/compose-demo.sh down

test: $(VENV)/.test-installed  ## the default suite, under 10 minutes on 2 cores
	$(BIN)/python -m pytest -q -n 2

test-all: $(VENV)/.test-installed  ## what is marked slow or docker
	$(BIN)/python -m pytest -q -m "slow or docker"

test-long: $(VENV)/.test-installed  ## what CI does not run: whole grids, 200,000 fuzzed neighbours
	$(BIN)/python -m pytest -q -n 2 -m long

check: $(VENV)/.test-installed  ## lint, types, generated code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tools.generate --check

fix: $(VENV)/.test-installed  ## what ruff can mend by itself, then its formatter
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generate: $(VENV)/.test-installed  ## rewrite the code generated from proto/
	$(BIN)/python -m tools.generate

help-pages: $(VENV)/.test-installed  ## rewrite tests/cli/help/, after a change of a --help that was meant
	$(BIN)/python -m tests.cli.help_pages

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(SOURCES) | $(VENV)/bin/python
	$(BIN)/pip install -q -e ".[accounting]"
	touch $@

$(VENV)/.test-installed: $(SOURCES) | $(VENV)/bin/python
	$(BIN)/pip install -q -e ".[dev]"
	touch $@ $(VENV)/.installed

clean:  ## remove the environment and all caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
