# make demo   set up .venv and run the main job        make test   set up and run the tests
# make lint   ruff and mypy                            make bench  speed and memory of the loss
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --constraint constraints.txt

.PHONY: setup demo test slow lint bench clean

setup: .venv/.dev

.venv/.base: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) -e '.[experiments]'
	@touch $@

.venv/.dev: .venv/.base
	$(INSTALL) -e '.[dev]'
	@touch $@

demo: .venv/.base
	$(BIN)/opl demo

test: .venv/.dev
	$(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal

slow: .venv/.dev
	$(BIN)/pytest -m slow

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/.base
	$(BIN)/opl bench

clean:
	rm -rf .venv build src/*.egg-info
