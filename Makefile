# make demo    set up .venv and run the demo              make test      set up and run the quick tests (5 minutes)
# make lint    ruff and mypy                              make test-all  all tests except nightly ones
# make bench   speed and memory of the loss               make faults    kill runs, damage files, try hostile input
# make fuzz    20,000 random examples of all properties   make matrix    the library with old and new torch
# make package build, check, install and test wheel+sdist  make docs      build the site in docs/_build, without network
# make notebooks  execute the notebooks of the site and store their outputs
# make lock    lock the dependencies in requirements/ with their hashes, after a change to pyproject.toml or constraints.txt
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := @$(BIN)/pip install -qq --disable-pip-version-check --no-input
INSTALL := $(PIP) --constraint constraints.txt
LOCKED := $(PIP) --require-hashes --no-deps --requirement
LOCK := $(BIN)/uv pip compile pyproject.toml requirements/tools.in --quiet --universal --python-version 3.11 \
	--constraints constraints.txt --overrides requirements/overrides.txt --generate-hashes --no-annotate \
	--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'

.PHONY: setup demo test test-all fuzz faults lint docs notebooks bench matrix package lock clean

setup: .venv/.dev

.venv/.base: pyproject.toml constraints.txt requirements/experiments.txt
	@echo "setting up .venv: opl and its experiments (takes minutes the first time)"
	@$(PYTHON) -m venv .venv
	$(LOCKED) requirements/experiments.txt
	$(INSTALL) torch
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

.venv/.dev: .venv/.base requirements/dev.txt
	@echo "setting up .venv: tools for tests, checks and the site"
	$(LOCKED) requirements/dev.txt
	@touch $@

demo: .venv/.base
	$(BIN)/opl demo

test: .venv/.dev
	$(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal

test-all: .venv/.dev
	$(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal -m 'not nightly'

fuzz: .venv/.dev
	$(BIN)/pytest -m hypothesis --hypothesis-profile=fuzz

faults: .venv/.dev
	$(BIN)/python tests/faults/campaign.py --jobs 2

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

docs: .venv/.dev
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --builder html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

notebooks: .venv/.dev
	$(BIN)/python docs/_notebooks.py

bench: .venv/.base
	$(BIN)/opl bench

.venv/.nox: .venv/.base
	@echo "setting up .venv: nox"
	$(INSTALL) nox
	@touch $@

matrix: .venv/.nox
	$(BIN)/nox -s library

package: .venv/.nox
	rm -rf dist
	$(BIN)/nox -s wheel sdist

lock: .venv/.base
	$(INSTALL) uv
	$(LOCK) --extra experiments --output-file requirements/experiments.txt
	$(LOCK) --extra dev --output-file requirements/dev.txt

clean:
	rm -rf .venv .nox build dist docs/_build src/*.egg-info
