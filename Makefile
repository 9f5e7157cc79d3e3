# `make demo` and `make test` each do all the set-up they need: a machine with python3 and make is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test test-fire test-rest quick lint format benchmarks clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/python examples/demo.py

# Two halves side by side, each with servers of its own: half of one waits for processes, the other half computes.
test: lint
	$(MAKE) --no-print-directory --keep-going --jobs=2 test-fire test-rest

test-fire: $(STAMP)
	$(BIN)/python -m pytest --durations=15 tests/fire tests/flows

test-rest: $(STAMP)
	$(BIN)/python -m pytest --durations=15 --ignore=tests/fire --ignore=tests/flows

quick: $(STAMP)
	$(BIN)/python -m pytest -m 'not slow and not fire'

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

benchmarks: $(STAMP)
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage*
