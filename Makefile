# `make demo` and `make test` do everything on a fresh machine with Python 3.11 or newer and a C compiler.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Hundreds of processes import Forge: none of them should compile its sources again.
export PYTHONDONTWRITEBYTECODE =

VENV ?= .venv
BIN := $(VENV)/bin
SUITABLE_PYTHON := $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
PYTHON ?= $(or $(SUITABLE_PYTHON),python3)
WORKERS ?= auto
TEST_OPTIONS ?=
RELEASE ?=
PYTEST := $(BIN)/python -m pytest -n $(WORKERS)

# What an editable installation was made from; it has both packages, and compiles the C sources.
INSTALLED_FROM := pyproject.toml setup.py src/forge/_version.py $(wildcard runtime/pyproject.toml runtime/setup.py) \
	$(shell find runtime/src -name '*.[ch]' 2>/dev/null)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help demo test test-changed test-all test-install lint check bench site wheels release clean

help: ## Print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

demo: $(VENV)/.installed ## Inspect, compile, run, check and time a small real model
	@$(BIN)/python examples/digits/demo.py

test: $(VENV)/.installed-test ## The tests, and samples of sweeps, other ones for each commit; needs no torch
	$(PYTEST) --quick --clock=test $(TEST_OPTIONS)

test-changed: $(VENV)/.installed-test ## The tests nearest to what differs from the last commit, or to CHANGED="FILE ..."
	$(BIN)/python -m tests.changed $(CHANGED)

test-all: $(VENV)/.installed-test-all ## All tests and sweeps; one that was skipped for a missing package fails the run
	$(PYTEST) --require-optional --clock=test-all $(TEST_OPTIONS)

test-install: $(VENV)/.installed-test $(VENV)/.installed-release ## Installations from a checkout, from git and from wheels, in empty environments
	$(PYTEST) tests/packaging $(TEST_OPTIONS)

lint: $(VENV)/.installed-lint ## Style, types and layer table
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test ## lint and the tests

bench: $(VENV)/.installed-bench ## Time and memory of all benchmark models beside onnxruntime, openvino, MNN and torch
	$(BIN)/python -m benchmarks.compare

site: $(VENV)/.installed-docs ## Build the documentation as a site into build/site; every warning is an error
	$(BIN)/python -m sphinx -q -E -a -W --keep-going -b html docs build/site
	@echo "build/site/index.html"

wheels: $(VENV)/.installed-wheels ## Build the two wheels of a release into dist/
	@$(BIN)/python scripts/build_wheels.py dist

release: $(VENV)/.installed-release ## Make a release in dist/VERSION, and publish nothing; RELEASE="--dry-run" leaves nothing
	@$(BIN)/python -m scripts.release $(RELEASE)

clean: ## Remove what make has created
	rm -rf $(VENV) build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find src runtime benchmarks examples tests scripts \
		\( -name __pycache__ -o -name '*.egg-info' -o -name build \) -type d -prune -exec rm -rf {} +
	find runtime/src -name '*.so' -delete

$(BIN)/python:
	@$(PYTHON) scripts/check_machine.py
	@echo "Creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(INSTALLED_FROM) | $(BIN)/python
	@$(BIN)/python scripts/check_machine.py
	@echo "Installing Forge into $(VENV)"
	@$(INSTALL) -e .
	@touch $@

$(VENV)/.installed-%: $(INSTALLED_FROM) | $(BIN)/python
	@$(BIN)/python scripts/check_machine.py
	@echo "Installing Forge and what 'make $*' needs into $(VENV)"
	@$(INSTALL) -e '.[$*]'
	@touch $@ $(VENV)/.installed
