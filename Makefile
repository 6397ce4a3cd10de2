# `make demo` and `make test` are enough: each sets up what it needs first.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv/bin
SETUP := build/setup.stamp
RUN := . build/env.sh &&
SOAK_SECONDS ?= 600
BENCH_ARGS ?=
BENCH_AGAINST ?=
DEMO_SECONDS ?= 60
DEMO_RATE ?= 50
MUTANTS ?=
MUTANTS_SECONDS ?= 600
MUTANTS_SEED ?= 1
TEST_ARGS ?=
# How long the day lasts on which all readers are attached at once; 24 hours in 20 minutes.
CLIENTS_MINUTES ?= 20
# The oldest pyspark that pyproject.toml allows; uv.lock has the newest, which `make test` runs.
SPARKS ?= 4.1.0
# Side by side, one more than there are cores, as many wait for servers; what shares a Spark session stays together.
SIDE_BY_SIDE := --maxprocesses 4 --dist loadgroup --no-loadscope-reorder
TEST_PROCESSES ?= -n $(shell expr `nproc 2>/dev/null || echo 1` + 1) $(SIDE_BY_SIDE)
# What waits for nobody.
QUICK_PROCESSES ?= -n $(shell nproc 2>/dev/null || echo 1) $(SIDE_BY_SIDE)
# Folders or files of tests whose extended tests run too, or `all`.
EXTENDED ?=

# What needs no server and no Spark; whole merges and other long ones of these are marked heavy.
QUICK := $(addprefix tests/,binlog config files filters log pipeline reshape snapshot_store values test_api.py test_dependencies.py test_errors.py test_moved_keys.py)

# Adds packages that one target alone needs.
WITH_GROUP := UV_PROJECT_ENVIRONMENT=.venv UV_PYTHON=$(VENV)/python UV_PYTHON_DOWNLOADS=never \
  $(VENV)/uv sync --frozen --inexact --quiet --group

export NUMBA_CACHE_DIR := $(CURDIR)/build/numba-cache
export THOROUGH ?= 0
# Where the shell forbids it, each of the many processes of tests would compile all that it imports: four seconds.
export PYTHONDONTWRITEBYTECODE :=

# A stamp without its environment is stale.
$(shell [ -x $(VENV)/python -a -f build/env.sh ] || rm -f $(SETUP))

.PHONY: help setup demo demo-live test test-all durations sparks quick coverage mutants mysql mariadb prometheus lint docs check check-clients check-report bench bench-all soak dist clean distclean

help:
	@echo "make demo    merge a small cluster's binlogs into build/demo and say what to look at"
	@echo "make demo-live  real MySQL servers under load, run and followed by a real replica: DEMO_SECONDS=$(DEMO_SECONDS)"
	@echo "             DEMO_RATE=$(DEMO_RATE) transfers a second; fails if the replica ever shows a wrong total"
	@echo "make test    run the tests; with a real MySQL and MariaDB where a Debian mirror is at hand; THOROUGH=1: random searches go"
	@echo "             two to three times as far (extended tests are left out as before)"
	@echo "make test-all  also what proves once more, in other ways or for longer, what a test has proved (marked extended);"
	@echo "             make test EXTENDED='tests/spark tests/cli' takes those of these folders"
	@echo "make durations  what the last run's tests took, the slowest first; kept in tests/durations.tsv for the order of the next"
	@echo "make sparks  the tests of Spark, and whole merges, on the oldest pyspark allowed (SPARKS='$(SPARKS)')"
	@echo "make quick   run the tests that need neither a server nor Spark, nor whole merges (marked heavy): before a commit"
	@echo "make coverage  quick's tests, and the branches they leave out: build/coverage/index.html"
	@echo "make mutants  change order keys, assemble, lattice, lock and GTID sets: do their tests notice?"
	@echo "             (MUTANTS_SECONDS=$(MUTANTS_SECONDS), MUTANTS='lattice lock', MUTANTS_SEED=1)"
	@echo "make lint    ruff, mypy --strict, and the layers (import-linter)"
	@echo "make docs    the site of docs/ in build/site (mkdocs --strict)"
	@echo "make check   lint, docs, demo, test: what .ci/run does"
	@echo "make bench   the figures of the docs, as a table: 13 minutes; BENCH_AGAINST=COMMIT beside another tree, 16;"
	@echo "             BENCH_ARGS='--only merge,scale,replica,live --volume-seconds 300'"
	@echo "make bench-all  all benchmarks (BENCH_ARGS=...): an hour"
	@echo "make soak    random histories against the oracle, for SOAK_SECONDS=$(SOAK_SECONDS); then live systems whose processes are"
	@echo "             killed LIVE_KILLS times each (or for LIVE_SECONDS, where that is over sooner), and whose servers and"
	@echo "             connections break for FAULTS_SECONDS; SOAK_SEED=n, TEST_ARGS=tests/soak/test_killed_live.py"
	@echo "make check-clients  clients of other makers read a log that grows, and serve under attack: brings them from PyPI,"
	@echo "             npm, Maven, Go and Debian into build/clients; fails where one cannot be had, and writes what was"
	@echo "             tested into docs/reference/tested.md; CLIENTS_MINUTES=$(CLIENTS_MINUTES): a day of 24 hours with all readers at once"
	@echo "make check-report  the page of \`report\` in headless Chromium: widths, themes, keyboard, print; brings Chromium from Debian (as"
	@echo "             root; else it must be there) and playwright-core from npm into build/browser"
	@echo "make dist    wheel, sdist and SBOM (CycloneDX) in dist/; the wheel is tried in an environment of its own, outside the"
	@echo "             repository: without Java what needs none, then the demo"
	@echo "make setup   only make .venv and find Java (PYTHON=..., NO_APT=1)"
	@echo "make clean   remove what was made, but for .venv and build/mysql; distclean removes these too"

setup: $(SETUP)

$(SETUP): pyproject.toml uv.lock tools/setup.sh
	@PYTHON="$(PYTHON)" tools/setup.sh
	@touch $@

demo: $(SETUP)
	@$(RUN) $(VENV)/binlog-merge demo --merged build/demo

demo-live: $(SETUP)
	@tools/get-mysql.sh build/mysql
	@$(RUN) DEMO_SECONDS=$(DEMO_SECONDS) DEMO_RATE=$(DEMO_RATE) $(VENV)/python -m tools.demo_live

test: $(SETUP) mysql mariadb prometheus
	@$(RUN) $(VENV)/python -m tools.run_tests $(TEST_PROCESSES) --junitxml=build/tests.xml $(EXTENDED:%=--extended=%) $(TEST_ARGS)

test-all:
	@$(MAKE) --no-print-directory test EXTENDED=all

durations: $(SETUP)
	@$(VENV)/python -m tools.durations build/tests.xml --keep

# pyspark alone is replaced: it stands before the environment's on the path.
sparks: $(SETUP)
	@for version in $(SPARKS); do \
	  spark=$(CURDIR)/build/pyspark-$$version; \
	  [ -d $$spark ] || $(VENV)/uv pip install --quiet --python $(VENV)/python --no-deps --target $$spark pyspark==$$version \
	    || exit 1; \
	  $(RUN) PYTHONPATH=$$spark SPARK_HOME=$$spark/pyspark $(VENV)/python -m pytest tests/spark \
	    tests/merge_e2e/test_exit_codes.py tests/cli/test_stop_never.py $(TEST_ARGS) || exit 1; \
	done

quick: $(SETUP)
	@$(RUN) $(VENV)/python -m pytest $(QUICK_PROCESSES) \
	  -m "not mysql and not mariadb and not spark and not soak and not heavy" $(QUICK) $(TEST_ARGS)

# Tests are slower so: a report of its own, no part of `make check`.
coverage: $(SETUP)
	@$(WITH_GROUP) coverage
	@$(RUN) $(VENV)/python -m pytest $(TEST_PROCESSES) -m "not mysql and not spark and not soak" $(QUICK) $(TEST_ARGS) \
	  --cov=binlog_merge --cov=snapshot_store --cov-branch --cov-report=term:skip-covered --cov-report=html:build/coverage

mutants: $(SETUP)
	@$(WITH_GROUP) mutants
	@$(RUN) MUTANTS_SECONDS=$(MUTANTS_SECONDS) MUTANTS_SEED=$(MUTANTS_SEED) $(VENV)/python tools/mutants.py $(MUTANTS)

# Without a MySQL the tests that need one are skipped; where the run promises one, that is a failure.
mysql:
	@tools/get-mysql.sh build/mysql || { \
	  if [ "$$BINLOG_MERGE_REQUIRE_MYSQL" = 1 ]; then echo "no MySQL, and BINLOG_MERGE_REQUIRE_MYSQL=1" >&2; exit 1; fi; \
	  echo "no MySQL could be fetched: the tests that need one will be skipped" >&2; }

mariadb:
	@tools/get-mariadb.sh build/mariadb || { \
	  if [ "$$BINLOG_MERGE_REQUIRE_MYSQL" = 1 ]; then echo "no MariaDB, and BINLOG_MERGE_REQUIRE_MYSQL=1" >&2; exit 1; fi; \
	  echo "no MariaDB could be fetched: the tests that need one will be skipped" >&2; }

prometheus:
	@tools/get-prometheus.sh build/prometheus || \
	  echo "no promtool could be fetched: the tests of alarms will be skipped" >&2

lint: $(SETUP)
	@$(VENV)/ruff check .
	@$(VENV)/ruff format --check --quiet .
	@$(VENV)/mypy
	@$(VENV)/lint-imports --no-cache --no-logo >build/imports.txt || { cat build/imports.txt; exit 1; }

# With --quiet, mkdocs 1.6 counts no warnings, and --strict never fails.
docs: $(SETUP)
	@$(WITH_GROUP) docs
	@NO_MKDOCS_2_WARNING=1 $(VENV)/mkdocs build --strict

check: lint docs demo test

bench: $(SETUP) mysql
	@$(RUN) $(VENV)/python -m benchmarks.figures --against="$(BENCH_AGAINST)" $(BENCH_ARGS)

bench-all: $(SETUP) mysql
	@$(RUN) $(VENV)/python -m benchmarks $(BENCH_ARGS)

soak: $(SETUP) mysql
	@$(RUN) SOAK_SECONDS=$(SOAK_SECONDS) $(VENV)/python -m pytest -m soak $(TEST_ARGS)

# What cannot be had fails, behind the tests of what can.
check-clients: $(SETUP)
	@tools/get-mysql.sh build/mysql
	@tools/get-clients.sh build/clients; got=$$?; \
	  $(RUN) CLIENTS_MINUTES=$(CLIENTS_MINUTES) $(VENV)/python -m pytest $(TEST_PROCESSES) -m clients tests/clients --junitxml=build/clients.xml $(TEST_ARGS); \
	  ran=$$?; $(VENV)/python -m tools.tested build/clients.xml && $(VENV)/python -m tools.docs --reference; \
	  [ $$ran = 0 ] && exit $$got

check-report: $(SETUP)
	@tools/get-browser.sh build/browser
	@$(RUN) $(VENV)/python -m pytest -m browser tests/observe/report tests/observe/status $(TEST_ARGS)

dist: $(SETUP)
	@$(RUN) $(VENV)/python -m tools.dist

clean:
	rm -rf build/demo build/demo-live build/demo-live.lock build/numba-cache build/bench dist spark-warehouse artifacts
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -path ./.venv -prune -o -path ./build -prune -o -type d -name __pycache__ -exec rm -rf {} +

distclean: clean
	rm -rf .venv build
