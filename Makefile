# Everything is installed into .venv in this checkout; nothing outside it is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help install demo ui test test-celery lint bench settings mutants soak kills frontend clean
.DEFAULT_GOAL := help

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

install: $(STAMP)  ## set up .venv

$(STAMP): setup.cfg constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all,dev,docs]'
	@touch $@

test: $(STAMP)  ## run the whole test suite
	$(BIN)/python -m pytest

test-celery: $(STAMP)  ## audits on two Celery workers, one of which is lost
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[celery]'
	DYNAMASK_TEST_CELERY=1 $(BIN)/python -m pytest tests/orchestration/test_celery_workers.py

lint: $(STAMP)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

frontend: frontend/node_modules  ## check and build the report's front end (node 20 or newer); commit what it writes
	cd frontend && npm run build && npm run check

frontend/node_modules: frontend/package-lock.json
	cd frontend && npm ci
	@touch $@

bench: $(STAMP)  ## measure speed ratios (see docs/benchmarks.md)
	$(BIN)/python -m benchmarks --page docs/benchmarks.md

soak: $(STAMP)  ## two hours of evaluations and audits with random kills (MINUTES=120)
	$(BIN)/python -m benchmarks.soak --minutes $(or $(MINUTES),120) --page docs/operations.md

settings: $(STAMP)  ## write docs/settings.md from the code
	$(BIN)/python -m dynamask_mlflow.cli.settings_page docs/settings.md

mutants: $(STAMP)  ## change the core in 300 places: do the tests notice? (hours; see docs/mutants.md)
	nice $(BIN)/python -m benchmarks.mutants --page docs/mutants.md

kills: $(STAMP)  ## audits killed 100 times at random points (KILLS=100)
	$(BIN)/python -m benchmarks.kills --kills $(or $(KILLS),100) --page docs/operations.md

demo: $(STAMP)  ## the main job end to end: synthesize, train, register, evaluate, audit
	$(BIN)/dynamask-mlflow demo

ui: $(STAMP)  ## open what the demo made in the MLflow UI
	$(BIN)/dynamask-mlflow ui

clean:  ## remove .venv and everything the demo made
	rm -rf $(VENV) .demo build *.egg-info frontend/node_modules
