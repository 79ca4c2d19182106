# `make app` and `make test` are all one needs; each does its own set-up. `make test-ci` and `make test-long` are the longer tests.
# `make app TORCH=cpu` takes the build of PyTorch without CUDA: 2.6 GB in place of 7.2.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
EXTRAS ?= dev
TORCH  ?=
STAMP  := $(VENV)/.pu-geo-setup-$(EXTRAS)$(TORCH:%=-%)
FEDERATED := $(VENV)/federated

.PHONY: app test test-ci test-long test-federated test-long-federated setup demo pictures lint size lock audit bench gpu clean

ifneq ($(filter-out cpu,$(TORCH)),)
$(error TORCH is "$(TORCH)". Write TORCH=cpu for PyTorch without CUDA, or leave it out)
endif

app: setup
	$(BUILT)
	$(BIN)/pu-geo app --sample

# One process a core and one thread each.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(or $(WORKERS),2)
BUILT  := $(BIN)/python -m pu_geo.ui.build
# Chromium keeps an event loop in its process while it runs: browser tests have an invocation of their own, a file of them one process.
BROWSER := --dist loadfile tests/browser

# Every promise once, and one journey of a user in Chromium. PYTEST_ARGS chooses tests, without that journey.
test: setup
	$(BUILT)
	$(PYTEST) --dist worksteal -m "not ci and not long" --ignore=tests/browser $(PYTEST_ARGS)
	$(if $(PYTEST_ARGS),,$(BIN)/python -m pytest tests/browser/test_first_journey.py)

# What continuous integration adds to `make test`: the other journeys, and one of each kind of long test.
test-ci: setup
	$(BUILT)
	$(PYTEST) -m "ci and not long" $(BROWSER) $(PYTEST_ARGS)
	$(PYTEST) -m "ci and not long" --dist worksteal --ignore=tests/browser $(PYTEST_ARGS)

# The full grids: every kill point, full disk, lost file, method x promise, fuzz, simulated audits. PART chooses one, as in PART=kills.
LONG := $(if $(PART),long(part='$(PART)'),long)
NONE_IS_FINE := || test $$? -eq 5

test-long: setup $(if $(filter-out federation,$(PART)),,test-long-federated)
	$(BUILT)
	$(PYTEST) -m "$(LONG)" --dist worksteal --ignore=tests/browser $(PYTEST_ARGS) $(NONE_IS_FINE)
	$(PYTEST) -m "$(LONG)" $(BROWSER) $(PYTEST_ARGS) $(NONE_IS_FINE)

# Flower wants older packages than the app, so it has an environment of its own; what fits both is taken from $(VENV). The app's server
# is tested there too, on its starlette.
FEDERATED_PYTEST := PU_GEO_REQUIRE_EXTRAS=federated OMP_NUM_THREADS=1 $(FEDERATED)/bin/python -m pytest -n $(or $(WORKERS),2) \
  --dist worksteal tests/test_extras.py tests/federation/deployed tests/pages/test_federation_invitations.py tests/ui/test_guard.py \
  tests/ui/test_serving.py

test-federated: $(FEDERATED)/.pu-geo-setup
	$(BUILT)
	$(FEDERATED_PYTEST) -m "not long" $(PYTEST_ARGS)

test-long-federated: $(FEDERATED)/.pu-geo-setup
	$(BUILT)
	$(FEDERATED_PYTEST) tests/browser/test_federation.py -m "long" $(PYTEST_ARGS)

demo: setup
	rm -rf build/demo
	$(BIN)/pu-geo demo --out build/demo

# The pictures in docs/images, from the sample event in Chromium.
pictures: setup
	$(BUILT)
	$(BIN)/python -m docs.pictures

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python .ci/size.py
	$(BIN)/mypy
	$(BIN)/deptry .

# What the project weighs, against .ci/ceiling.toml.
size:
	@$(PYTHON) .ci/size.py

bench: setup
	$(BIN)/python -m benchmarks.run

# What waits for a GPU, in MINUTES, on a machine that may have neither $(VENV) nor a network. `python -m benchmarks.gpu_data FOLDER` packs DATA.
gpu:
	$(or $(wildcard $(BIN)/python),$(PYTHON)) -m benchmarks.gpu --minutes $(or $(MINUTES),8) --data $(or $(DATA),build/gpu-data) --out $(or $(OUT),build/gpu)

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

ABOUT := Installing PU-Geo and its Python packages into $(VENV), which takes $(if $(TORCH),2.6,7.2) GB of disk and \
  5 to 20 minutes, by the line and the disk; nothing is printed meanwhile. It is done once.$(if $(TORCH),, Most of it is PyTorch for GPUs: \
  without one, stop here and write `make app TORCH=cpu`, which takes 2.6 GB.)
NO_CPU := pip found no PyTorch without CUDA (constraints-cpu.txt). PyTorch keeps these builds in a package index of its own, which its \
  installation guide names. Give pip the address: make app TORCH=cpu PIP_EXTRA_INDEX_URL=ADDRESS

$(STAMP): pyproject.toml constraints.txt $(TORCH:%=constraints-%.txt)
	@test -x $(BIN)/python || echo '$(ABOUT)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=24"
	$(if $(TORCH),$(BIN)/python -m pip install --quiet -c constraints.txt -r constraints-cpu.txt || { echo '$(NO_CPU)' >&2; exit 1; })
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
