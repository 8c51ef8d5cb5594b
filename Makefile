# make demo    set up .venv and run the demo              make test      set up and run the quick tests (5 minutes)
# make lint    ruff and mypy                              make test-all  all tests except nightly ones
# make bench   speed and memory of the loss               make faults    kill runs, damage files, try hostile input
# make fuzz    20,000 random examples of all properties   make matrix    the library with old and new torch
# make package build, check, install and test wheel+sdist  make docs      build the site in docs/_build, without network
# make notebooks  execute the notebooks of the site and store their outputs
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALL := @$(BIN)/pip install -qq --disable-pip-version-check --no-input --constraint constraints.txt

.PHONY: setup demo test test-all fuzz faults lint docs notebooks bench matrix package clean

setup: .venv/.dev

.venv/.base: pyproject.toml constraints.txt
	@echo "setting up .venv: opl and its experiments (takes minutes the first time)"
	@$(PYTHON) -m venv .venv
	$(INSTALL) -e '.[experiments]'
	@touch $@

.venv/.dev: .venv/.base
	@echo "setting up .venv: tools for tests and checks"
	$(INSTALL) -e '.[dev]'
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
	$(BIN)/python tests/faults/campaign.py

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

.venv/.docs: .venv/.base
	@echo "setting up .venv: Sphinx"
	$(INSTALL) -e '.[docs]'
	@touch $@

docs: .venv/.docs
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --builder html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

notebooks: .venv/.docs
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

clean:
	rm -rf .venv .nox build dist docs/_build src/*.egg-info
