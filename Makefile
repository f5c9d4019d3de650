# `make bench` measures, `make test` tests; both make what they need in .venv first.

PYTHON ?= python3
VENV := .venv
# A build with CUDA (ON), without (OFF), or with it where nvcc works. To measure on a machine
# without a GPU nobody has to wait for nvcc.
BENCH_CUDA := $(or $(FLASHBENCH_CUDA),$(if $(wildcard /dev/nvidiactl /dev/dxg),auto,OFF))
FLASHBENCH_CUDA ?= auto
BUILT := $(VENV)/.built-$(FLASHBENCH_CUDA)
# What each of them needs, beside what builds and runs flashbench (build_support/environment.py).
BROWSER := $(if $(shell command -v chromium || command -v google-chrome),browser)
GROUPS_bench := build run gpu
GROUPS_gpu := test
GROUPS_history := history
GROUPS_test := test release oracles slurm history docs figures $(BROWSER)
GROUPS_lint := lint test slurm history figures
GROUPS_docs := docs
# `make wheel`: the Pythons that it makes wheels for.
PYTHONS ?= 3.11 3.12 3.13
# Run files that are there are resumed, or refused: FORCE=--force replaces them.
FORCE ?=
# 24 cases, which 10 launches can decide, in about a minute on two cores.
BENCH ?= --preset small --preset headline --samples 4
# 14 launches: the fewest that can decide 64 cases against the best of four SDPA backends.
GPU_BENCH ?= --preset grid --launches 14 --samples 20
# The history of this repository: on which devices of this machine, and what it is called there.
DEVICES ?= cpu
MACHINE ?= $(shell hostname)
HISTORY := results/history
SOURCES := $(shell find csrc build_support -type f -not -name '*.pyc') setup.py flashbench/source_hash.py

.PHONY: bench build test test-all lint gpu wheel bundle clean cloud sanitize-cpu history site docs

bench: $(VENV)/.built-$(BENCH_CUDA)
	$(VENV)/bin/flashbench run $(BENCH) -o bench.json $(FORCE)

build: $(BUILT)

# Of two cores, tests that wait (for a time limit, a lock, a disk) leave a fifth idle: for a third.
test: $(BUILT) $(VENV)/.has-test
	$(VENV)/bin/python -m pytest -n 3 --dist worksteal -m "not thorough"

# With the tests that ask again, by another real tool or with another seed, what quicker ones ask.
test-all: $(BUILT) $(VENV)/.has-test
	$(VENV)/bin/python -m pytest -n 3 --dist worksteal

lint: $(VENV)/.has-lint
	$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check . && $(VENV)/bin/mypy

# The CPU kernels alone, under the sanitizers for addresses, undefined behaviour and threads.
sanitize-cpu:
	cmake -S tests/kernels/native -B build/sanitize-address -DSANITIZE=address,undefined
	cmake --build build/sanitize-address
	build/sanitize-address/check_kernels
	cmake -S tests/kernels/native -B build/sanitize-thread -DSANITIZE=thread
	cmake --build build/sanitize-thread
	build/sanitize-thread/check_kernels brief

# On a GPU machine, with or without a network: build, test and measure there.
gpu: $(VENV)/.built-ON $(VENV)/.has-gpu
	$(VENV)/bin/flashbench info
	$(VENV)/bin/python -m pytest tests/gpu
	$(VENV)/bin/flashbench run --device cuda $(GPU_BENCH) -o results/gpu-grid.json $(FORCE)

# Builds and measures the listed commits on this machine, and keeps them; again, it goes on.
history: $(DEVICES:%=history-%)

# The roofs of the site's rooflines are measured first, by as many threads.
history-cpu: PEAK := OMP_NUM_THREADS=4
history-cpu: COMMITS := cpu-commits.txt
history-cpu: CASES := --dtype fp32 --dtype bf16 --threads 4 --shape 1,8,128,64 --shape 1,8,512,64 \
    --launches 14 --samples 4
history-cuda: COMMITS := commits.txt
history-cuda: CASES := --dtype bf16 --metric gpu_warm --metric wall --shape 1,1,128,64 \
    --shape 1,8,512,64 --shape 4,16,1024,128 --shape 2,16,2048,128 --shape 1,16,4096,64 \
    --launches 10 --samples 8
history-%: $(VENV)/.has-history $(VENV)/.built-$(BENCH_CUDA)
	@mkdir -p .asv
	$(PEAK) $(VENV)/bin/python -m flashbench info --peak
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/python -m flashbench backfill \
	    --list $(HISTORY)/$(COMMITS) --device $* $(CASES) \
	    --machine $(MACHINE) --results $(HISTORY)/asv -o .asv/backfill-$(MACHINE)-$*.json

# The site of what was kept: open site/index.html.
site: $(VENV)/.has-history
	$(VENV)/bin/python -m flashbench publish --results $(HISTORY)/asv -o site

# The documentation as a site: open build/docs/index.html.
docs: $(VENV)/.has-docs
	PYTHONPATH=scripts NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --quiet --strict

# Here, for a GPU machine without a network: sources and wheels in one file.
bundle: $(VENV)/.has-bench
	$(VENV)/bin/python scripts/offline_bundle.py

# Wheels for other machines, one a Python, in dist/: CPU kernels, and CUDA's where nvcc is.
wheel:
	@$(PYTHON) build_support/environment.py build/wheels/tools build release
	@build/wheels/tools/bin/python scripts/build_wheels.py $(PYTHONS)

# SkyPilot in an environment of its own, for the tests of what is sent to it.
cloud:
	@$(PYTHON) build_support/environment.py .venv-cloud cloud

$(VENV)/.has-bench: pyproject.toml constraints.txt
	@$(PYTHON) build_support/prerequisites.py
	@echo "making the environment in $(VENV), once: PyTorch is the large part" >&2
	@$(PYTHON) build_support/environment.py $(VENV) $(GROUPS_bench)
	@touch $@

$(VENV)/.has-%: $(VENV)/.has-bench
	@echo "adding to the environment in $(VENV): $(GROUPS_$*)" >&2
	@$(PYTHON) build_support/environment.py $(VENV) $(GROUPS_$*)
	@touch $@

$(VENV)/.built-%: $(VENV)/.has-bench $(SOURCES)
	@$(PYTHON) build_support/prerequisites.py
	@echo "building the extension$(if $(filter OFF,$*), without CUDA)" >&2
	@rm -f $(VENV)/.built-*
	@FLASHBENCH_CUDA=$* PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(PYTHON) build_support/progress.py \
	    $(VENV)/bin/python -m pip install -v --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

clean:
	rm -rf $(VENV) build dist flashbench/_C*.so flashbench/_build.json
