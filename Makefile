# `make help` lists the targets. Only Python 3.10+ and Java 17+ are needed; the rest is fetched once.
.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint format docs bench bench-large bench-tpch clean runtime dev postgres

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
SCALE ?= 1
export PYTHON

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: runtime ## run the demo: a diamond of stream tables under changes
	@$(BIN)/anabranch demo

test: lint postgres ## check style and types, then run the tests
	@$(PYTEST)

test-all: lint postgres ## also run the slow tests
	@ANABRANCH_ORACLE_CASES=100000 ANABRANCH_SPARK_QUERIES=300 ANABRANCH_TPCH_WINDOWS=3 \
		ANABRANCH_CIRCLE_SEEDS=40 ANABRANCH_CYCLE_PROGRAMS=20000 ANABRANCH_MODEL_PROGRAMS=600 \
		ANABRANCH_SPARK_CYCLES=40 ANABRANCH_EXPRESSIONS=1000 \
		$(PYTEST) -m "slow or not slow"

lint: dev ## ruff and mypy
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy

format: dev ## let ruff put the code into form
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format --quiet .

docs: dev ## write the generated pages of docs/ anew
	@$(BIN)/python tools/docs.py

bench: dev ## measure incremental refresh against recomputing, and graphs of tables
	@$(BIN)/python -m benchmarks.graph
	@$(BIN)/python -m benchmarks.closure
	@$(BIN)/python -m benchmarks.deploy
	@$(BIN)/python -m benchmarks.refresh --rows 1000000 10000000

bench-large: dev ## the same with 100 million rows
	@$(BIN)/python -m benchmarks.refresh --rows 100000000

bench-tpch: dev ## the 22 queries of TPC-H: make bench-tpch SCALE=1
	@$(BIN)/python -m benchmarks.tpch --scale $(SCALE)

clean: ## remove the environment, caches and the demo
	@rm -rf .venv .anabranch-demo build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

runtime:
	@tools/bootstrap.sh runtime

dev:
	@tools/bootstrap.sh dev

# The catalog's contract tests run on SQLite and on a private PostgreSQL server.
postgres: dev
	@test ! -f tests/postgres.py || $(BIN)/python -m tests.postgres --ensure
