# The commands that a person types. `make help` lists them.
# A fresh machine needs python3 (3.11 or later), pip and make; the rest is installed into .venv from pinned, hashed wheels.
.DEFAULT_GOAL := help
.PHONY: help up down logs reset status test test-unit test-containers test-long test-full faults attack lint golden snippets bench bench-full requirements prices sbom vendor screenshots clean

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore
# Images of containers set it. Here every process would compile the whole program, and pytest rewrite all tests, each time.
unexport PYTHONDONTWRITEBYTECODE
# Print the package that is being downloaded: the large ones take a while.
# Wheels alone: building a package would run code of it, with build tools that nothing pins.
INSTALL = $(BIN)/python -m pip install --no-input --progress-bar off --require-hashes --only-binary :all:
PACKAGES = awk '/^Collecting/ {printf "  %s\n", $$2; fflush()}'
# `make test` gives each file to one process, folder by folder, so that the slow acceptance tests start first.
# These wait for servers half of the time, so three processes keep two cores busy. Each process has its own engine,
# Postgres and brokers; `make test PROCESSES=` runs everything in one process.
PROCESSES = --numprocesses 3 --dist loadfile --no-loadscope-reorder
# pytest ends when make ends, even if make is killed; the servers that tests start end with pytest.
PYTEST = $(BIN)/python -m pytest --end-with-parent --durations 10
# The seed of `make test-full` and `make faults`: a new one each time, printed first.
SEED := $(or $(SEED),$(shell date +%s))
EXPLORER := query_api/explorer/page
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk 'BEGIN {FS = ":.*## "} {printf "  make %-15s %s\n", $$1, $$2}'

up: $(VENV)/embedded ## start everything in the background and show a first span
	@$(BIN)/clearspan up --detach

down: ## drain and stop what `make up` started
	@if [ -x $(BIN)/clearspan ]; then $(BIN)/clearspan down; else echo "Nothing is installed, so nothing runs."; fi

logs: $(VENV)/embedded ## follow the log
	@$(BIN)/clearspan logs

status: $(VENV)/embedded ## show what runs, and where
	@$(BIN)/clearspan status

reset: $(VENV)/embedded ## stop and, after asking, delete all data
	@$(BIN)/clearspan reset

test: $(VENV)/dev ## run every test; list what this machine could not run
	@$(PYTEST) $(PROCESSES) $(TESTS)

test-unit: $(VENV)/dev ## run the unit tests alone, for the inner loop
	@$(PYTEST) --quiet --numprocesses logical --maxprocesses 4 --dist worksteal tests/unit $(TESTS)

test-containers: $(VENV)/dev ## start, kill and upgrade docker-compose.yml (on Debian 12 also without a container engine)
	@$(PYTEST) --long tests/containers $(TESTS)

test-long: $(VENV)/dev ## run the tests that take long by nature (SHARE=0/4 runs one share of them)
	@$(PYTEST) $(PROCESSES) --long $(if $(SHARE),--share $(SHARE)) $(TESTS)

test-full: $(VENV)/dev ## run property tests with 20,000 cases, and all tests with large counts, for hours (SEED=n repeats a run)
	@echo "seed $(SEED)"
	@HYPOTHESIS_PROFILE=full $(PYTEST) $(PROCESSES) -m "hypothesis or scaled or long" --hypothesis-seed=$(SEED) --timeout=3600 $(TESTS)

faults: $(VENV)/dev ## kill, cut and flood the real processes; count what is lost (ROUNDS=n, SEED=n repeats a run)
	@$(BIN)/python -m tests.faults --rounds $(or $(ROUNDS),50) --seed $(SEED)

attack: $(VENV)/dev ## send REQUESTS=10000 hostile requests, made from the OpenAPI document (SEED=n repeats a run)
	@echo "seed $(SEED)"
	@ATTACK_REQUESTS=$(or $(REQUESTS),10000) ATTACK_SEED=$(SEED) $(PYTEST) -s --long tests/attack/test_openapi_document.py

lint: $(VENV)/dev ## check format, lint, types and layers
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory lint-explorer; \
	  else echo "The types of the explorer are not checked: npm is missing."; fi

# The modules of the explorer run as they are written; node only checks their types.
lint-explorer: $(EXPLORER)/node_modules
	@cd $(EXPLORER) && npm run --silent check

$(EXPLORER)/node_modules: $(EXPLORER)/package-lock.json
	@cd $(EXPLORER) && npm ci --silent --ignore-scripts --no-audit --no-fund && touch node_modules

golden: $(VENV)/dev ## rewrite the golden files; read the diff
	@$(PYTEST) --rewrite-golden tests/unit tests/contract tests/integration

snippets: $(VENV)/dev ## run every snippet of docs/instrumentations.md with the latest releases (needs the package registries)
	@$(BIN)/python -m tests.snippets

bench: $(VENV)/dev ## measure performance next to the engine alone (PEERS=jaeger,victoriatraces: and to these systems)
	@$(BIN)/python -m bench --spans $(or $(SPANS),300000) $(if $(PEERS),--peers $(PEERS))

bench-full: $(VENV)/dev ## the same with up to ten million spans, for hours; draw docs/images/performance-*.svg
	@for spans in 100000 1000000 10000000; do \
	  $(BIN)/python -m bench --spans $$spans --rounds 3 $(if $(PEERS),--peers $(PEERS)) || exit; done
	@$(BIN)/python -m bench.plot .cache/bench-100000.json .cache/bench-1000000.json .cache/bench-10000000.json

requirements: $(VENV)/dev ## recompile the pinned requirements from pyproject.toml (needs uv)
	@for set in "server:" "embedded:--extra embedded" "dev:--extra embedded --extra test --extra lint"; do \
	  uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet \
	    --extra build $${set#*:} --output-file requirements/$${set%%:*}.txt; done

prices: $(VENV)/dev ## update the built-in prices from the newest litellm; read the diff (needs the package registries)
	@rm -rf .cache/prices && $(BIN)/python -m pip download --quiet --no-input --no-deps --only-binary :all: --dest .cache/prices litellm
	@CLEARSPAN_INGEST__PRICES_FILE=common/prices/prices.csv $(BIN)/clearspan prices update --keep .cache/prices/litellm-*.whl

sbom: $(VENV)/dev ## print what a server installs, with versions and digests (CycloneDX)
	@$(BIN)/python -m tests.sbom

vendor: $(VENV)/dev ## copy the libraries of the explorer from npm (needs npm)
	@$(BIN)/python -m query_api.explorer.vendoring

screenshots: $(VENV)/dev ## write a picture of every view of the explorer to docs/images (needs Chromium)
	@$(BIN)/python -m tests.screenshots

clean: ## delete the virtual environment and the caches, not the data
	@rm -rf $(VENV) $(EXPLORER)/node_modules .cache .mypy_cache .ruff_cache .pytest_cache build *.egg-info

# One stamp per set, written last: an interrupted installation is repeated.
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
