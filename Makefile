# Every command a developer needs; `make help` lists them. Only python3 (3.11+), make and a package registry are assumed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DISTRIBUTIONS := protocol migrations worker_sdk daemon
PROJECTS := $(addsuffix /pyproject.toml,$(DISTRIBUTIONS))
PACKAGES := protocol/stepd_protocol migrations/stepd_migrations worker_sdk/stepd_worker daemon/stepd

.DEFAULT_GOAL := help
.PHONY: help setup demo serve test check bench openapi docs clean

help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv with the four distributions and the tools; instant when nothing changed

$(STAMP): $(PROJECTS) constraints.txt requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "stepd needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || true)." >&2; \
	  echo "Name another one: make setup PYTHON=/path/to/python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r requirements-dev.txt \
	  $(addprefix -e ,$(DISTRIBUTIONS))
	@touch $@

demo: setup ## the example from start to end: daemon, worker, one execution shown live, its report
	$(BIN)/python examples/catalogue/demo.py

serve: setup ## run the daemon on 127.0.0.1:7117 with its data in ./stepd.db
	$(BIN)/stepd serve

test: setup ## run all tests
	$(BIN)/python -m pytest

check: setup ## lint, format, types, import contracts, generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(PACKAGES) tests
	$(BIN)/lint-imports

bench: setup ## measure throughput and latency on this machine
	$(BIN)/python -m bench

openapi: setup ## write openapi.yaml from the routes and the wire types
	$(BIN)/python -m stepd.http.openapi > openapi.yaml

docs: setup ## write the generated parts of the documentation

clean: ## remove .venv, caches and build products
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
