# `make help` lists the targets. You need Python 3.10+ and Java 17+; the rest is downloaded once.
.DEFAULT_GOAL := help
.PHONY: help demo test test-unit test-extended test-interop test-matrix test-all lint format docs docs-site sbom audit clean runtime dev
.PHONY: postgres
.PHONY: bench bench-large bench-tpch bench-growth soak

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
SCALE ?= 1
COMMITS ?= 20000
MINUTES ?= 7
export PYTHON

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: runtime ## run the demo: a diamond of stream tables under changes
	@$(BIN)/anabranch demo

test-unit: dev ## run the unit tests, without Spark and PostgreSQL: run this first
	@$(PYTEST) tests/unit

test: lint postgres ## check style and types, then run the tests that every change must pass
	@$(PYTEST)

test-extended: postgres ## run further cases, mostly on Spark, that `make test` leaves out
	@$(PYTEST) -m "extended and not slow"

test-interop: dev ## run Iceberg's own catalog tests (Java) against the server; needs mvn and Maven Central
	@$(BIN)/python -m tests.interop

test-matrix: dev ## try the oldest and newest libraries allowed, and every PySpark, in environments of their own
	@$(BIN)/python -m tests.matrix

test-all: lint postgres ## run everything, with the slow and random tests; takes hours
	@ANABRANCH_RANDOM=1 ANABRANCH_ORACLE_CASES=100000 ANABRANCH_SPARK_QUERIES=300 ANABRANCH_TPCH_WINDOWS=3 \
		ANABRANCH_CIRCLE_SEEDS=40 ANABRANCH_CYCLE_PROGRAMS=20000 ANABRANCH_MODEL_PROGRAMS=600 \
		ANABRANCH_SPARK_CYCLES=40 ANABRANCH_EXPRESSIONS=1000 ANABRANCH_FUZZ_CALLS=100000 ANABRANCH_FAILING_FUNCTIONS=1000 \
		ANABRANCH_SIMULATION_SEEDS=1000000 ANABRANCH_SIMULATION_PROCESSES=2 ANABRANCH_ORDERS=100000 \
		$(PYTEST) --timeout 36000 -m "slow or extended or not slow"

lint: dev ## check style and types with ruff and mypy
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy

format: dev ## format the code with ruff
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format --quiet .

docs: dev ## regenerate the pages of docs/ that are written from the code
	@$(BIN)/python tools/docs.py

docs-site: ## build the documentation site into build/site, with all links checked
	@tools/bootstrap.sh docs
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --strict
	@echo "to read it: python3 -m http.server --directory build/site (without a server there is no search)"

sbom: dev ## write a bill of materials (CycloneDX) of the runtime's lock file to build/sbom.json
	@$(BIN)/python tools/sbom.py

audit: dev ## look up known vulnerabilities of all pinned packages in the OSV database
	@$(BIN)/python tools/audit.py

bench: dev ## measure incremental against full refreshes, graphs, cycles and deployments
	@$(BIN)/python -m benchmarks.graph
	@$(BIN)/python -m benchmarks.closure
	@$(BIN)/python -m benchmarks.deploy
	@$(BIN)/python -m benchmarks.refresh --rows 1000000 10000000

bench-large: dev ## measure refreshes of 100 million rows
	@$(BIN)/python -m benchmarks.refresh --rows 100000000

bench-tpch: dev ## measure the 22 queries of TPC-H: make bench-tpch SCALE=1
	@$(BIN)/python -m benchmarks.tpch --scale $(SCALE)

bench-growth: dev ## check that many small commits stay cheap: make bench-growth COMMITS=20000
	@$(BIN)/python -m benchmarks.growth --commits $(COMMITS)

soak: dev ## check that small writes on Spark stay cheap, for some minutes: make soak MINUTES=7
	@$(BIN)/python -m benchmarks.soak --minutes $(MINUTES)

clean: ## remove the environments, caches, builds and the demo
	@rm -rf .venv .venv-docs .anabranch-demo build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

runtime:
	@tools/bootstrap.sh runtime

dev:
	@tools/bootstrap.sh dev

# The catalog's contract tests run on SQLite and on a private PostgreSQL server.
postgres: dev
	@test ! -f tests/postgres.py || $(BIN)/python -m tests.postgres --ensure
