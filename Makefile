# `make app` and `make test` are all one needs; each does its own set-up. `make test-all` adds the long tier to `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.pu-geo-setup

.PHONY: app test test-all setup demo lint bench clean

app: setup
	$(BIN)/python -m pu_geo.ui.build
	$(BIN)/pu-geo app --sample

# One process a core and one thread each; a file of tests stays in one process, so that what it builds is built once.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(or $(WORKERS),2) --dist loadfile

test: setup
	$(BIN)/python -m pu_geo.ui.build
	$(PYTEST) -m "not long" $(PYTEST_ARGS)

# Every test, those marked `long` too: it contains `make test`. A `-m` in PYTEST_ARGS replaces the choice of either.
test-all: setup
	$(BIN)/python -m pu_geo.ui.build
	$(PYTEST) $(PYTEST_ARGS)

demo: setup
	rm -rf build/demo
	$(BIN)/pu-geo demo --out build/demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup
	$(BIN)/python -m benchmarks.run

setup: $(STAMP)

# A torch that is in $(VENV) already is kept, so that a CPU build may be put there first: its version becomes a constraint.
INSTALLED := from importlib.metadata import distributions as d; \
  print(*sorted({f"{x.name}=={x.version}" for x in d() if x.name in ("torch", "torchvision")}), sep="\n")

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=24"
	$(BIN)/python -c '$(INSTALLED)' > $(VENV)/kept.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -c $(VENV)/kept.txt -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) build dist pu_geo/ui/frontend/dist pu_geo/ui/frontend/node_modules
