# Everything is installed into .venv in this checkout; nothing outside it is touched.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUN_STAMP := $(VENV)/.installed-to-run
# Python compiles what is imported; to compile everything took half of the installation's time and 400 MB.
PIP := $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt
# UV=1 installs with uv, which does not read pip's configuration; torch always by pip, which finds the CPU build.
INSTALL := $(if $(UV),$(PIP) torch && uv pip install --quiet --python $(BIN)/python --constraint constraints.txt,$(PIP))

.PHONY: help install demo airflow-demo ui test test-fast test-celery lint docs bench matrix wheel-test settings mutants soak kills
.PHONY: frontend coverage walk clean
.DEFAULT_GOAL := help
FAST := tests/house tests/metrics tests/masks tests/cli/test_every_command.py tests/data/test_data_doors.py

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

install: $(STAMP)  ## set up .venv with everything

# What the demo needs: neither Airflow nor the tools of the developers.
$(RUN_STAMP): setup.cfg constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) torch --editable '.[data,saliency]'
	@touch $@

$(STAMP): setup.cfg constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) torch --editable '.[all,dev,docs]'
	@touch $(RUN_STAMP) $@

test: $(STAMP)  ## run the whole test suite, in two processes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

coverage: $(STAMP)  ## the suite again, with the share of lines that it runs; a page of each file in build/coverage
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --cov --cov-report=term --cov-report=html:build/coverage $(TESTS)

walk: $(STAMP)  ## which files one evaluation and one audit go through; writes the lists of docs/architecture.md
	$(BIN)/python -m benchmarks.walk --page docs/architecture.md

test-fast: $(STAMP)  ## the inner loop: engine, metrics, data, command line
	$(BIN)/python -m pytest -q -n 2 -m 'not slow and not server and not browser' $(FAST)

test-celery: $(STAMP)  ## audits on two Celery workers, one of which is lost
	$(INSTALL) --editable '.[celery]'
	DYNAMASK_TEST_CELERY=1 $(BIN)/python -m pytest tests/orchestration/test_celery_workers.py

lint: $(STAMP)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

frontend: frontend/node_modules  ## check and build the report's front end (node 20 or newer); commit what it writes
	cd frontend && npm run build && npm run check

frontend/node_modules: frontend/package-lock.json
	cd frontend && npm install --no-audit --no-fund
	@touch $@

docs: $(STAMP)  ## build the site into site/, warnings are errors
	$(BIN)/python -m mkdocs build --strict --quiet

matrix: $(STAMP)  ## the quick start and a part of the suite with other versions; writes the table of docs/versions.md
	$(BIN)/python -m benchmarks.matrix --update docs/versions.md

wheel-test: $(STAMP)  ## build the wheel, install it into an empty environment from the index, run the quick start
	rm -rf build/wheel-test
	$(BIN)/python -m build --outdir build/wheel-test/dist
	$(PYTHON) -m venv build/wheel-test/env
	build/wheel-test/env/bin/pip install --quiet --constraint constraints.txt torch
	build/wheel-test/env/bin/pip install --quiet --constraint constraints.txt build/wheel-test/dist/*.whl
	cd build/wheel-test && env -u PYTHONPATH env/bin/python ../../tests/distribution/run_quick_start.py

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

demo: $(RUN_STAMP)  ## the main job end to end: synthesize, train, register, evaluate, audit
	$(BIN)/dynamask-mlflow demo

airflow-demo: $(STAMP)  ## the same on a real Airflow: from nothing to the first verdict
	$(BIN)/dynamask-mlflow airflow-demo

ui: $(RUN_STAMP)  ## open what the demo made in the MLflow UI
	$(BIN)/dynamask-mlflow ui

clean:  ## remove .venv and everything the demo made
	rm -rf $(VENV) .demo build site *.egg-info frontend/node_modules
