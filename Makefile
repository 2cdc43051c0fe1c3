# Everything runs in .venv, made here: a fresh machine needs Python 3.11 with venv, and make (docs/install.md).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml $(wildcard mpc/parley/mpc/native/*.[ch]) mpc/parley/mpc/native/build.py
PROTOS := $(wildcard proto/parley/v1/*.proto)
FAST := $(addprefix tests/,algorithms federation learning mpc privacy test_rules.py)
# In those rooms, and yet processes, or accounting for minutes: in the default suite only.
NOT_FAST := federation/test_extras mpc/test_statistics mpc/test_table_builder privacy/test_accountants \
	privacy/test_calibration privacy/test_ledger_kill privacy/test_ledger_race privacy/test_loss_accountant

# Rooms whose tests draw examples.
DRAWN := $(addprefix tests/,federation hostile learning model mpc privacy study)

.PHONY: help demo compose-demo compose-up compose-link compose-down test test-fast test-slow test-docker test-all test-long
.PHONY: check fix audit generate wheels release api-page help-pages clean

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

test: $(VENV)/.test-installed  ## the default suite, about 8 minutes on 2 cores
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

test-fast: $(VENV)/.test-installed  ## the rooms that start no process, under a minute: what to run after every change
	$(BIN)/python -m pytest -q -n 2 --dist worksteal $(FAST) $(NOT_FAST:%=--ignore=tests/%.py)

test-slow: $(VENV)/.whole-installed  ## what is marked slow and needs no container
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "slow and not docker and not long"

test-docker: $(VENV)/.whole-installed  ## what needs a Docker engine: two federations side by side
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup -m "docker and not long"

test-all: $(VENV)/.whole-installed  ## both, side by side: containers wait more than they compute
	$(MAKE) --no-print-directory -j 2 --output-sync=target test-slow test-docker

test-long: $(VENV)/.whole-installed  ## what CI does not run: whole grids, 200,000 fuzzed neighbours, examples drawn anew
	@command -v qemu-aarch64 qemu-aarch64-static >/dev/null || \
		echo "no QEMU for other processors: what they compute is skipped (apt-get install qemu-user)" >&2
	$(BIN)/python -m pytest -q -n 2 -m long
	$(BIN)/python -m pytest -q -n 2 --dist worksteal --hypothesis-profile anew $(DRAWN)

check: $(VENV)/.test-installed  ## lint, types, generated code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tools.generate --check

audit: $(VENV)/.test-installed  ## asks the registry for known vulnerabilities of what is installed; says so if it cannot
	$(BIN)/python -m tools.audit

fix: $(VENV)/.test-installed  ## what ruff can mend by itself, then its formatter
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generate: $(VENV)/.test-installed  ## rewrite the code generated from proto/
	$(BIN)/python -m tools.generate

wheels: $(VENV)/.wheels-installed  ## a wheel for each platform, and one without kernels for any other, into dist/wheels/
	$(BIN)/python -m tools.wheels

release: $(VENV)/.test-installed  ## from the tag of this commit into dist/: wheels, sdist, images, SBOMs, sums, signature
	$(BIN)/python -m tools.release $(RELEASE_FLAGS)

api-page: $(VENV)/.test-installed  ## rewrite docs/api.md, after a change of a public docstring
	$(BIN)/python -m tools.api_page

help-pages: $(VENV)/.test-installed  ## rewrite tests/cli/help/, after a change of a --help that was meant
	$(BIN)/python -m tests.cli.help_pages

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(SOURCES) | $(VENV)/bin/python
	@$(PYTHON) deploy/tools/install.py $(VENV) study,dashboard
	@touch $@

$(VENV)/.test-installed: $(SOURCES) | $(VENV)/bin/python
	@$(PYTHON) deploy/tools/install.py $(VENV) dev
	@touch $@ $(VENV)/.installed

$(VENV)/.wheels-installed: $(SOURCES) | $(VENV)/bin/python
	@$(PYTHON) deploy/tools/install.py $(VENV) wheels
	@touch $@

$(VENV)/.whole-installed: $(SOURCES) | $(VENV)/bin/python
	@$(PYTHON) deploy/tools/install.py $(VENV) whole
	@touch $@ $(VENV)/.wheels-installed $(VENV)/.test-installed $(VENV)/.installed

clean:  ## remove the environment and all caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
