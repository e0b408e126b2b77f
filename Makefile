# Everything runs in its own virtual environment, .venv; nothing is installed elsewhere.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help notebooks mutants demo test test-all test-bounds test-spark35 coverage attack fuzz lint docs bench dist hooks clean

help:
	@echo "make demo      release a generated week of activity; pictures in out/"
	@echo "make test      run the tests, a few minutes"
	@echo "make test-all  the same, then the slow ones: long searches, audits, the papers' tables"
	@echo "make test-bounds  the tests that reach compiled loops, with every index checked; TESTS='tests/local'"
	@echo "make test-spark35  the tests of Spark with pyspark 3.5, in an environment of its own"
	@echo "make coverage  which lines and branches the quick tests reach; pages in out/coverage/"
	@echo "make attack    search for ten minutes for losses above what is promised or charged"
	@echo "make fuzz      20,000 spoiled calls of the command line; half an hour"
	@echo "make lint      ruff, mypy and the order of packages"
	@echo "make notebooks runs the notebooks of the documentation and keeps their outputs"
	@echo "make docs      the documentation, into site/; open site/index.html"
	@echo "make bench     one table of times, peers and growth; fails if a job became 1.5 times slower"
	@echo "make mutants   do the tests notice changed code? a sample; MODULES='noise ledger', ALL=1: hours"
	@echo "make dist      build wheel and sdist into dist/ and check them"
	@echo "make hooks     run lint before every commit, by pre-commit"
	@echo "make clean     remove .venv, out/, site/, dist/ and caches"

demo: $(VENV)/.demo
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/demo.sh

# One process for each core; threads inside them would only wait for one another.
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist worksteal

test: $(VENV)/.dev
	$(PYTEST) -m "not slow"

test-all: test
	$(PYTEST) -m slow

# Compiled code that checks no index is left where it is: this has a cache of its own.
TESTS := tests/influence tests/mechanisms tests/local tests/audit tests/beliefs
test-bounds: $(VENV)/.dev
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/out/bounds $(PYTEST) -m "not slow" $(TESTS)

# What pyspark 3.5 warns of on its own (distutils, sockets left open) is not an error of ours.
test-spark35: $(VENV)-spark35/.dev
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(VENV)-spark35/bin/python -m pytest -q -m slow -W default \
	    tests/cluster/test_spark.py tests/cluster/test_spark_restart.py

coverage: $(VENV)/.dev
	$(PYTEST) -m "not slow" --cov --cov-report=term --cov-report=html
	@echo "open out/coverage/index.html"

attack: $(VENV)/.dev
	$(BIN)/python -m tests.attacks --minutes 10 --seed 1

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m mkdocs build --strict
	@echo "open site/index.html"

bench: $(VENV)/.dev
	@$(BIN)/python benchmarks/table.py

dist: $(VENV)/.tools
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	$(BIN)/python .ci/check_dist.py

hooks: $(VENV)/.tools
	$(BIN)/pre-commit install

notebooks: $(VENV)/.dev
	$(BIN)/python docs/notebooks/run.py

fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz --calls 20000 --seed 1

mutants: $(VENV)/.mutants
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 nice -n 10 $(BIN)/python -m tests.mutants.defects
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 nice -n 10 $(BIN)/python -m tests.mutants $(MODULES) $(if $(ALL),--all)

clean:
	rm -rf $(VENV) $(VENV)-spark35 out site dist .mutants .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis .grimp_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "pufferkit needs Python 3.11 or later; run: make PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Installed again only when the project file changes.
$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[plots]"
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@ $(VENV)/.demo

$(VENV)-spark35/.dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)-spark35
	$(VENV)-spark35/bin/python -m pip install --quiet --disable-pip-version-check -e ".[dev,spark]" "pyspark==3.5.*"
	@touch $@

$(VENV)/.mutants: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev,mutants]"
	@touch $@ $(VENV)/.dev $(VENV)/.demo

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	@touch $@

$(VENV)/.tools: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[tools]"
	@touch $@
