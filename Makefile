# make train     set up, train the quick recipe, draw its curve, film its policy
# make test      set up, lint, type check, test (about ten minutes)
# make docs      set up, build the documentation site into site/
# make learning  tests that train until something is learnt (minutes each)
# make faults    the long form of the fault tests: kills, damage, hostile input, a soak (hours)
# make clean     remove the virtual environment

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt

# Where to take torch from. On Linux the default build brings the GPU libraries, several gigabytes;
# `make train TORCH="--index-url URL"` with the CPU index that pytorch.org names does without.
TORCH ?=
SOURCES := pyproject.toml constraints.txt

.PHONY: train test docs learning faults lint clean

train: $(VENV)/.train
	$(BIN)/td3 train --recipe quick --show

test: $(VENV)/.test lint
	$(BIN)/python -m pytest -n auto

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Built site/index.html"

learning: $(VENV)/.test
	$(BIN)/python -m pytest -m learning tests/learning

faults: $(VENV)/.test
	$(BIN)/python -m benchmarks.faults

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.train: $(VENV)/bin/python $(SOURCES)
	@echo "Setting up $(VENV) …"
	$(PIP) torch $(TORCH)
	$(PIP) -e '.[plot,video]'
	@touch $@

$(VENV)/.test: $(VENV)/.train
	$(PIP) -e '.[plot,video,pixels,mujoco,box2d,dm-control,pybullet,tensorboard,wandb,tune,postgres,export,test]'
	@touch $@

$(VENV)/.docs: $(VENV)/.train
	$(PIP) -e '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV)
