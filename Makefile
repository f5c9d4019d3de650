# `make bench` measures, `make test` tests; both make what they need in .venv first.

PYTHON ?= python3
VENV := .venv
# A build with CUDA (ON), without (OFF), or with it where nvcc works.
FLASHBENCH_CUDA ?= auto
BUILT := $(VENV)/.built-$(FLASHBENCH_CUDA)
# 24 cases, which 10 launches can decide, in less than two minutes on two cores.
BENCH ?= --preset small --preset headline --samples 8
# 14 launches: the fewest that can decide 64 cases against the best of four SDPA backends.
GPU_BENCH ?= --preset grid --launches 14 --samples 20
# The history of this repository: on which devices of this machine, and what it is called there.
DEVICES ?= cpu
MACHINE ?= $(shell hostname)
HISTORY := results/history
SOURCES := $(shell find csrc build_support -type f -not -name '*.pyc') setup.py flashbench/source_hash.py

.PHONY: bench test lint gpu bundle clean sanitize-cpu history site

bench: $(BUILT)
	$(VENV)/bin/flashbench run $(BENCH) -o bench.json

test: $(BUILT)
	$(VENV)/bin/python -m pytest -n 2 --dist worksteal

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

# Builds and measures the listed commits on this machine, and keeps them; again, it goes on.
history: $(DEVICES:%=history-%)

history-cpu: CASES := --causal full --shape 1,8,128,64 --shape 1,8,512,64
history-cuda: CASES := --dtype bf16 --metric gpu_warm --metric wall --shape 1,1,128,64 \
    --shape 1,8,512,64 --shape 4,16,1024,128 --shape 2,16,2048,128 --shape 1,16,4096,64
history-%: $(VENV)/.environment
	@mkdir -p .asv
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/python -m flashbench backfill \
	    --list $(HISTORY)/commits.txt --device $* $(CASES) --launches 10 --samples 8 \
	    --machine $(MACHINE) --results $(HISTORY)/asv -o .asv/backfill-$(MACHINE)-$*.json

# The site of what was kept: open site/index.html.
site: $(VENV)/.environment
	$(VENV)/bin/python -m flashbench publish --results $(HISTORY)/asv -o site

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
