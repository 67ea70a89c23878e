# make train     set up, train the quick recipe, draw its curve, film its policy
# make test      set up, lint, type check, test (about ten minutes)
# make docs      set up, build the documentation site into site/
# make lessons   make the notebooks of the lessons, run all of them, store figures and times
# make learning  tests that train until something is learned (minutes each); all lessons
# make faults    the long form of the fault tests: kills, damage, hostile input, a soak (hours)
# make locks     write requirements.lock and requirements-torch.lock again (needs uv)
# make clean     remove the virtual environment

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt

# Where to take torch from. On Linux the default build brings the GPU libraries, several gigabytes;
# `make train TORCH="--index-url URL"` with the CPU index that pytorch.org names does without.
TORCH ?=
SOURCES := pyproject.toml constraints.txt

# `make test LOCKED=1` installs only files whose hashes are in the two lock files. Not covered: torch
# from another index (TORCH), which has other files, and the tools that build a source package.
LOCKED ?=
HASHED := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps

EXTRAS := plot,video,pixels,mujoco,box2d,dm-control,pybullet,tensorboard,wandb,tune,postgres,ray,export,test

.PHONY: train test docs lessons learning faults lint locks clean

train: $(VENV)/.train
	$(BIN)/td3 train --recipe quick --show

test: $(VENV)/.test lint
	$(BIN)/python -m pytest -n auto

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Built site/index.html"

lessons: $(VENV)/.test
	$(BIN)/python -m benchmarks.lessons

learning: $(VENV)/.test
	$(BIN)/python -m pytest -m learning tests/learning tests/lessons

faults: $(VENV)/.test
	$(BIN)/python -m benchmarks.faults

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

ifneq ($(LOCKED),)
$(VENV)/.train $(VENV)/.test $(VENV)/.docs: $(VENV)/bin/python $(SOURCES) requirements.lock
	@echo "Setting up $(VENV) with hashes …"
	$(if $(TORCH),$(PIP) torch $(TORCH),$(HASHED) --require-hashes -r requirements-torch.lock)
	$(HASHED) --require-hashes -r requirements.lock
	$(HASHED) --no-build-isolation -e .
	@touch $(VENV)/.train $(VENV)/.test $(VENV)/.docs
else
$(VENV)/.train: $(VENV)/bin/python $(SOURCES)
	@echo "Setting up $(VENV) …"
	$(PIP) torch $(TORCH)
	$(PIP) -e '.[plot,video]'
	@touch $@

$(VENV)/.test: $(VENV)/.train
	$(PIP) -e '.[$(EXTRAS)]'
	@touch $@

$(VENV)/.docs: $(VENV)/.train
	$(PIP) -e '.[docs]'
	@touch $@
endif

# Only torch brings the GPU libraries. Hashes are of the files on PyPI, for every platform.
COMPILE := uv pip compile --quiet --universal --python-version 3.11.5 --generate-hashes \
  --no-emit-index-url --no-header --no-annotate -c constraints.txt
comma := ,

locks:
	echo torch | $(COMPILE) - -o requirements-torch.lock
	printf '%s\n' hatchling editables | $(COMPILE) pyproject.toml - -o requirements.lock \
	  $(foreach extra,$(subst $(comma), ,$(EXTRAS)) docs,--extra $(extra)) \
	  $$(sed -nE 's/^((torch|triton|nvidia|cuda)[a-z0-9-]*)==.*/--no-emit-package \1/p' requirements-torch.lock)

clean:
	rm -rf $(VENV)
