# `make bench` measures, `make test` tests; both make what they need in .venv first.

PYTHON ?= python3
VENV := .venv
# A build with CUDA (ON), without (OFF), or with it where nvcc works.
FLASHBENCH_CUDA ?= auto
BUILT := $(VENV)/.built-$(FLASHBENCH_CUDA)
# 24 cases, which 10 launches can decide, in two or three minutes on two cores.
BENCH ?= --preset small --preset headline --samples 16
# 14 launches: the fewest that can decide 64 cases against the best of four SDPA backends.
GPU_BENCH ?= --preset grid --launches 14 --samples 20
SOURCES := $(shell find csrc build_support -type f -not -name '*.pyc') setup.py flashbench/source_hash.py

.PHONY: bench test lint gpu bundle clean sanitize-cpu

bench: $(BUILT)
	$(VENV)/bin/flashbench run $(BENCH) -o bench.json

test: $(BUILT)
	$(VENV)/bin/python -m pytest

lint: $(BUILT)
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
gpu: $(VENV)/.built-ON
	$(VENV)/bin/flashbench info
	$(VENV)/bin/python -m pytest tests/gpu
	$(VENV)/bin/flashbench run --device cuda $(GPU_BENCH) -o results/gpu-grid.json

# Here, for a GPU machine without a network: sources and wheels in one file.
bundle: $(VENV)/.environment
	$(VENV)/bin/python scripts/offline_bundle.py

$(VENV)/.environment: pyproject.toml constraints.txt
	@$(PYTHON) build_support/prerequisites.py
	@echo "making the environment in $(VENV), once" >&2
	$(PYTHON) build_support/environment.py $(VENV)
	@touch $@

$(VENV)/.built-%: $(VENV)/.environment $(SOURCES)
	@$(PYTHON) build_support/prerequisites.py
	@echo "building the extension" >&2
	@rm -f $(VENV)/.built-*
	@FLASHBENCH_CUDA=$* PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/python -m pip install --quiet \
	    --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

clean:
	rm -rf $(VENV) build dist flashbench/_C*.so flashbench/_build.json
