# `make demo` and `make test` set everything up by themselves; the other goals too.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
RUN := $(BIN)/evolvent
PYTEST := $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: demo test test-all coverage durations lint bench docs clean help

help:
	@echo "make demo      install, train two networks on real digits, write a report (under 6 minutes)"
	@echo "make test      install, ruff, pyright, pytest"
	@echo "make test-all  the same with the slow tests"
	@echo "make coverage  the same as make test, with the share of lines that the tests run"
	@echo "make durations run the tests and store how long each file takes: the longest start first"
	@echo "make bench     measure and store benchmarks/results"
	@echo "make docs      build the documentation into docs/_build/html"
	@echo "make clean     remove what was built, and the environment"

$(VENV)/installed-%: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch==$$(sed -n 's/^torch==//p' constraints.txt)
	$(PIP) -e '.[$*]'
	@touch $@

demo: $(VENV)/installed-demo
	$(RUN) run demo --resume

lint: $(VENV)/installed-dev
	$(BIN)/ruff check src tests examples benchmarks
	$(BIN)/pyright

test: lint
	$(PYTEST) -m "not slow"

test-all: lint
	$(PYTEST)

coverage: $(VENV)/installed-dev
	$(PYTEST) -m "not slow" --cov --cov-report=term:skip-covered

durations: $(VENV)/installed-dev
	$(PYTEST) -m "not slow" --store-durations

bench: $(VENV)/installed-dev
	$(BIN)/python benchmarks/engine.py

docs: $(VENV)/installed-docs $(VENV)/installed-demo
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf $(VENV) docs/_build docs/gallery docs/sg_execution_times.rst .pytest_cache .ruff_cache .hypothesis
