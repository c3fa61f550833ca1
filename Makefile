# All a machine needs is Python 3.11 or newer and make: each target makes .venv itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Two stamps, so that a first `make demo` need not wait for the development tools.
LIBRARY := $(VENV)/library.stamp
TOOLS := $(VENV)/tools.stamp

.DEFAULT_GOAL := help
.PHONY: help demo test lint types unit coverage mutants fuzz bench bench-smoke soak format constraints clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

demo: $(LIBRARY) ## pause an MCP flow in one server process, finish it in another
	$(BIN)/statebox demo

test: lint types unit ## everything CI checks

lint: $(TOOLS) ## ruff: rules and format
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(TOOLS) ## mypy and pyright, both strict
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

unit: $(TOOLS) ## all tests
	$(BIN)/pytest

coverage: $(TOOLS) ## all tests, with branch coverage
	$(BIN)/pytest --cov --cov-report=term-missing

mutants: $(TOOLS) ## break each guard of the core in turn: some test has to notice
	$(BIN)/python -m tests.mutants

fuzz: EXAMPLES ?= 20000
fuzz: $(TOOLS) ## hostile bytes and calls, for longer with EXAMPLES=1000000
	EXAMPLES=$(EXAMPLES) $(BIN)/pytest tests/fuzz --hypothesis-profile=fuzz -o faulthandler_timeout=0

bench: $(TOOLS) ## speed and size beside the bare primitives and other libraries
	$(BIN)/python -m benchmarks
	$(BIN)/pytest benchmarks --quiet --benchmark-only --benchmark-max-time=0.2 \
	  --benchmark-sort=name --benchmark-columns=median,iqr,rounds

bench-smoke: $(TOOLS) ## every benchmark once, unmeasured
	$(BIN)/pytest tests/test_benchmarks.py

soak: $(TOOLS) ## rotate under eight replicas and kill 200 rotations, in real time: some minutes
	$(BIN)/python -m tests.soak.rotation
	$(BIN)/python -m tests.soak.killing --command

format: $(TOOLS) ## let ruff mend what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

constraints: ## pin the newest versions of everything in constraints.txt
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) install --quiet --upgrade pip
	$(PIP) install --quiet --editable '.[all]' --group dev
	{ sed '/^#/!d' constraints.txt && $(PIP) freeze --all --exclude-editable --exclude setuptools; } > $(VENV)/constraints.txt
	mv $(VENV)/constraints.txt constraints.txt

clean: ## remove what make has made
	rm -rf $(VENV) build dist htmlcov .coverage* .hypothesis .benchmarks .*_cache

$(LIBRARY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "statebox needs Python 3.11 or newer; name one with: make PYTHON=python3.13 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --constraint constraints.txt --upgrade pip
	$(PIP) install --quiet --constraint constraints.txt --editable '.[all]'
	@touch $@

$(TOOLS): $(LIBRARY)
	$(PIP) install --quiet --constraint constraints.txt --editable '.[all]' --group dev
	@touch $@
