# `make app` and `make test` are all one needs; each does its own set-up. `make test-all` adds the long tier to `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
EXTRAS ?= dev
STAMP  := $(VENV)/.pu-geo-setup-$(EXTRAS)
FEDERATED := $(VENV)/federated

.PHONY: app test test-all test-federated setup demo lint lock audit bench clean

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

# Flower wants older packages than the app, so it has an environment of its own; what fits both is taken from $(VENV). The app's server
# is tested there too, on its starlette; the rest of the app does not know which one it is.
FEDERATED_TESTS := tests/test_extras.py tests/federation/deployed tests/ui/test_guard.py tests/ui/test_serving.py \
  tests/ui/test_hostile_requests.py tests/pages/test_federation.py tests/browser/test_federation.py

test-federated: $(FEDERATED)/.pu-geo-setup
	$(BIN)/python -m pu_geo.ui.build
	PU_GEO_REQUIRE_EXTRAS=federated OMP_NUM_THREADS=1 $(FEDERATED)/bin/python -m pytest -n $(or $(WORKERS),2) --dist loadfile \
	  $(FEDERATED_TESTS) $(PYTEST_ARGS)

demo: setup
	rm -rf build/demo
	$(BIN)/pu-geo demo --out build/demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/deptry .

bench: setup
	$(BIN)/python -m benchmarks.run

# Versions and sha256 of all that a release is installed from, on this platform.
lock: setup
	$(BIN)/python .ci/lock.py

# Known vulnerabilities of what a release is installed from, and of what the browser component is built with. Asks servers on the internet.
audit: setup
	$(BIN)/python -m pip install --quiet pip-audit
	for lock in lock-*.txt; do $(BIN)/pip-audit --disable-pip --require-hashes --requirement $$lock || exit 1; done
	cd pu_geo/ui/frontend && $(CURDIR)/$(BIN)/npm audit

setup: $(STAMP)

# A torch that is in $(VENV) already is kept, so that a CPU build may be put there first: its version becomes a constraint.
INSTALLED := from importlib.metadata import distributions as d; \
  print(*sorted({f"{x.name}=={x.version}" for x in d() if x.name in ("torch", "torchvision")}), sep="\n")

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=24"
	$(BIN)/python -c '$(INSTALLED)' > $(VENV)/kept.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -c $(VENV)/kept.txt -e ".[$(EXTRAS)]"
	touch $@

SITE := import sysconfig; print(sysconfig.get_path("purelib"))

$(FEDERATED)/.pu-geo-setup: $(STAMP) constraints-federated.txt
	$(BIN)/python -m venv --clear --without-pip $(FEDERATED)
	$(BIN)/python -c '$(SITE)' > "$$($(FEDERATED)/bin/python -c '$(SITE)')/app.pth"
	$(FEDERATED)/bin/python -m pip install --quiet -c constraints-federated.txt -e ".[federated]"
	$(FEDERATED)/bin/python -m pip check
	touch $@

clean:
	rm -rf $(VENV) build dist pu_geo/ui/frontend/dist pu_geo/ui/frontend/node_modules
