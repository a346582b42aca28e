# Two commands matter: `make nightly` sets up and runs the pipeline at smoke size, `make test` sets up and passes the tests.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
SIZE ?= smoke
export RESPECT_HOME ?= $(CURDIR)/.respect
# A VIRTUAL_ENV or PYTHONPATH of the caller must not leak into ours.
unexport VIRTUAL_ENV PYTHONPATH
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: help nightly test check install install-dev models cards clean

help:
	@echo "make nightly      set up and run the pipeline (SIZE=smoke|nightly|full), state in RESPECT_HOME=$(RESPECT_HOME)"
	@echo "make test         set up, lint, type-check, check the direction of imports, run all tests"
	@echo "make models       rebuild datasets/imagenet from keras.applications, with TensorFlow (8 GB of memory)"
	@echo "make clean        remove the virtual environment and the state"

$(BIN)/python:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { echo "Python 3.11 is needed, found $$($(PYTHON) --version 2>&1): set PYTHON=/path/to/python3.11" >&2; exit 2; }
	"$(PYTHON)" -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing (minutes the first time, torch is large; the README tells how to get a CPU build)"
	$(PIP) --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) --editable '.[dev]'
	@touch $@

$(VENV)/.installed-tensorflow: $(VENV)/.installed
	$(PIP) --editable '.[tensorflow]'
	@touch $@

install: $(VENV)/.installed

install-dev: $(VENV)/.installed-dev

nightly: install
	$(BIN)/respect nightly --size $(SIZE)

check: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check
	$(BIN)/python -m pytest

models: install-dev $(VENV)/.installed-tensorflow
	$(BIN)/python -m respect_core.sources.keras_models --out datasets/imagenet
	$(BIN)/respect models build --graphs datasets/imagenet

cards: install
	$(BIN)/python -m respect_core.tables.catalogue --cards datasets/cards

clean:
	rm -rf $(VENV) .respect
