# Everything a person types. `make help` lists it.
# A fresh machine needs python3 (3.11 or later), pip and make; the rest is installed into .venv from pinned, hashed wheels.
.DEFAULT_GOAL := help
.PHONY: help up down logs reset status test test-long lint golden snippets bench requirements clean

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore
# Says which package it is at: the large ones take a while.
INSTALL = $(BIN)/python -m pip install --no-input --progress-bar off --require-hashes
PACKAGES = awk '/^Collecting/ {printf "  %s\n", $$2; fflush()}'
# Of `make test`: a file goes to one process as a whole, in the order of the folders, so that the long ones come first.
# Each process has an engine, a Postgres and brokers of its own; `make test PROCESSES=` is one process.
PROCESSES = --numprocesses logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder
# Ends with make, even by kill -9; the servers that tests start end with pytest.
PYTEST = $(BIN)/python -m pytest --end-with-parent
# Of `make test-long`: another one each time, printed first.
SEED := $(or $(SEED),$(shell date +%s))
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk 'BEGIN {FS = ":.*## "} {printf "  make %-13s %s\n", $$1, $$2}'

up: $(VENV)/embedded ## start everything in the background and show a first span
	@$(BIN)/clearspan up --detach

down: ## drain and stop what `make up` started
	@if [ -x $(BIN)/clearspan ]; then $(BIN)/clearspan down; else echo "Nothing is installed, so nothing runs."; fi

logs: $(VENV)/embedded ## follow the log
	@$(BIN)/clearspan logs

status: $(VENV)/embedded ## say what runs, and where
	@$(BIN)/clearspan status

reset: $(VENV)/embedded ## stop and, after asking, delete all data
	@$(BIN)/clearspan reset

test: $(VENV)/dev ## the whole suite; says what this machine could not run
	@$(PYTEST) $(PROCESSES) $(TESTS)

test-long: $(VENV)/dev ## the property tests with 20,000 cases, forty rounds of writers (SEED=n repeats a run)
	@echo "seed $(SEED)"
	@HYPOTHESIS_PROFILE=long $(PYTEST) tests/contract tests/acceptance/test_lineage_writers.py --hypothesis-seed=$(SEED) --timeout=3600 $(TESTS)

lint: $(VENV)/dev ## format, lint, types, layout
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

golden: $(VENV)/dev ## rewrite the golden files, to be read as a diff
	@$(PYTEST) --rewrite-golden tests/unit tests/contract tests/integration

snippets: $(VENV)/dev ## run every snippet of docs/instrumentations.md with today's releases (needs the registries)
	@$(BIN)/python -m tests.snippets

bench: $(VENV)/dev ## the performance table, beside the engine's own ceiling
	@$(BIN)/python -m bench

requirements: $(VENV)/dev ## compile the pinned sets anew from pyproject.toml (needs uv)
	@for set in "server:" "embedded:--extra embedded" "dev:--extra embedded --extra test --extra lint"; do \
	  uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet \
	    --extra build $${set#*:} --output-file requirements/$${set%%:*}.txt; done

clean: ## delete the virtual environment and the caches, not the data
	@rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache build *.egg-info

# A stamp a set: written last, so that an interrupted installation is done again.
$(VENV)/embedded: requirements/embedded.txt pyproject.toml | $(VENV)/bin/python
	@[ $(VENV)/dev -nt $< ] || { echo "Installing Clearspan and its pinned packages into $(VENV) (about 300 MB; a minute or two the first time) …"; \
	  $(INSTALL) -r requirements/embedded.txt | $(PACKAGES); }
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/dev: requirements/dev.txt pyproject.toml | $(VENV)/bin/python
	@echo "Installing Clearspan, its pinned packages and the test tools into $(VENV) …"
	@$(INSTALL) -r requirements/dev.txt | $(PACKAGES)
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@ $(VENV)/embedded

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Clearspan needs Python 3.11 or later; PYTHON=/path/to/python3 names another one.")'
	@echo "Making a virtual environment in $(VENV) …"
	@$(PYTHON) -m venv $(VENV)
