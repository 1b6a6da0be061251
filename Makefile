# make demo: simulate and film a cloth.  make test: everything that must hold.  make help: the rest.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help demo test lint bench clean

help:
	@echo "make demo   simulate cloth-on-tube, write cloth.mp4 and cloth.png"
	@echo "make test   lint, types and tests"
	@echo "make bench  all benchmarks, into benchmarks/results/"
	@echo "make clean  remove the virtual environment and what demos wrote"

# Nothing is installed again, and no network is needed, until pyproject.toml changes.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "vivace needs Python 3.11 or newer; say which: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV) || { echo "no venv module; on Debian: apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[all,dev]"
	@touch $@

demo: $(READY)
	$(BIN)/vivace run cloth-on-tube --out cloth.mp4 --out cloth.png

lint: $(READY)
	$(BIN)/ruff check src tests
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest

bench: $(READY)
	$(BIN)/vivace bench all

clean:
	rm -rf $(VENV) cloth.mp4 cloth.png
