# Every command a developer needs; `make help` lists them. Only python3 (3.11+), make and a package registry are assumed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DISTRIBUTIONS := protocol migrations worker_sdk daemon
PACKAGES := protocol/stepd_protocol migrations/stepd_migrations worker_sdk/stepd_worker daemon/stepd
PROGRAMS := tools $(wildcard bench examples)
PIP_INSTALL := -m pip install --quiet --no-input --disable-pip-version-check
# The tools come first, the build backend among them, so that pip needn't fetch it anew for each distribution.
TOOLS := -r requirements-dev.txt
OURS := --no-build-isolation $(addprefix -e ,$(DISTRIBUTIONS))

# Programs that are started by the hundred shall not compile their modules anew each time.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo serve test soak screenshots check bench fuzz openapi docs constraints clean

help: ## list the targets
	@echo "Usage: make TARGET"
	@awk 'BEGIN { FS = ":.*## " } /^[a-z]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## create .venv with stepd and its tools; nothing to do when nothing changed
	@:

$(STAMP): $(addsuffix /pyproject.toml,$(DISTRIBUTIONS)) constraints.txt requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "stepd needs Python 3.11 or newer; '$(PYTHON)' is: $$($(PYTHON) --version 2>&1 | head -1)." >&2; \
	  echo "Name another one: make setup PYTHON=/path/to/python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments: its module ensurepip is missing." >&2; \
	  echo "On Debian and Ubuntu the package python3-venv has it; or name another Python: make setup PYTHON=…" >&2; exit 1; }
	@echo "Installing into $(VENV) (about a minute the first time)"
	@$(BIN)/python -c 'import pip, ssl' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python $(PIP_INSTALL) -c constraints.txt $(TOOLS)
	@$(BIN)/python $(PIP_INSTALL) -c constraints.txt $(OURS)
	@touch $@

demo: setup ## run the example from start to end: daemon, worker, one execution shown live, its report
	$(BIN)/python examples/catalogue/demo.py

serve: setup ## run the daemon on 127.0.0.1:7117 with its data in ./stepd.db
	$(BIN)/stepd serve

test: setup ## run all tests, a file at a time on three processes, for many tests wait
	@$(BIN)/python -m tests.support.browser
	@$(BIN)/python -m pytest -n 3 --dist loadfile; code=$$?; [ $$code -ne 1 ] && exit $$code; \
	  echo "What failed beside another process is run once more, alone: each of these names is a fault to be found."; \
	  $(BIN)/python -m pytest --last-failed --last-failed-no-failures none

soak: setup ## run the long forms of the tests: long lives, many kills, big numbers
	$(BIN)/python -m pytest -m soak --timeout 1800

screenshots: setup ## draw the pictures of README anew, by the tests that drive the page
	STEPD_DRAW_PICTURES=true $(BIN)/python -m pytest -q tests/ui/test_looks_in_browser.py -k pictures

check: setup ## lint, format, types, import contracts, style, generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(PACKAGES) tests $(PROGRAMS)
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest -q tests/style
	@$(BIN)/python -m stepd.http.openapi > $(VENV)/openapi.yaml
	$(BIN)/python -m tools.generated --check
	@diff -u openapi.yaml $(VENV)/openapi.yaml || { echo "openapi.yaml is not what the code says; run: make openapi" >&2; exit 1; }

bench: setup ## measure throughput and latency on this machine
	$(BIN)/python -m bench
	$(BIN)/python -m bench.postgres

fuzz: setup ## send the API at least 10,000 requests made from openapi.yaml; ARGS="--seed 1" repeats a run
	$(BIN)/python -m tests.faults.fuzz $(ARGS)

openapi: setup ## write openapi.yaml from the routes and the wire types
	$(BIN)/python -m stepd.http.openapi > $(VENV)/openapi.yaml
	@mv $(VENV)/openapi.yaml openapi.yaml

docs: openapi ## write openapi.yaml and the generated parts of the pages
	$(BIN)/python -m tools.generated

constraints: ## take the newest version of every dependency and write constraints.txt
	@rm -rf $(VENV)-new
	$(PYTHON) -m venv $(VENV)-new
	$(VENV)-new/bin/python $(PIP_INSTALL) $(TOOLS)
	$(VENV)-new/bin/python $(PIP_INSTALL) $(OURS)
	@{ head -1 constraints.txt; $(VENV)-new/bin/python -m pip freeze --exclude-editable; } > $(VENV)-new/constraints.txt
	@mv $(VENV)-new/constraints.txt constraints.txt
	@rm -rf $(VENV)-new

clean: ## remove .venv, caches and build products, but no data
	rm -rf $(VENV) $(VENV)-new .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
