# Front door. Each target says what it does; the work is in tools/ and CMake.

PYTHON_BIN := .venv/bin/python
JOBS ?= $(shell nproc)

# Some virtual machines announce AMX and trap on it: any bf16 matmul of PyTorch, eager ones
# included, ends the process there.
ifneq (,$(shell grep -m1 -o amx_tile /proc/cpuinfo 2>/dev/null))
export ONEDNN_MAX_CPU_ISA ?= AVX512_CORE_BF16
endif

.DEFAULT_GOAL := help
.PHONY: help setup zoo build demo test campaign fuzz bench format lint sanitize docs clean

help:  ## List the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

setup:  ## Install what the build needs: system packages (as root) and .venv
	@tools/setup.sh

build: setup  ## Build and install into .venv: .venv/bin/weft and `import weft`
	@JOBS=$(JOBS) tools/build.sh release

demo: build  ## Show what Weft does, on a model each of two kinds
	@tools/demo.sh

test: setup  ## Build, then run every test and check; ends with the count
	@JOBS=$(JOBS) $(PYTHON_BIN) tools/run_tests.py

zoo: setup  ## Install the packages of other people's models that a campaign trains
	@tools/zoo_setup.sh

campaign: build zoo  ## Run the long tests too: ranks killed at many moments, and the like
	@WEFT_CAMPAIGN=1 .venv/bin/pytest -q -m campaign

fuzz: setup  ## Fuzz every reader of files, an hour in all; FUZZ_SECONDS=60 gives each a minute
	@JOBS=$(JOBS) $(PYTHON_BIN) tools/fuzz.py $(if $(FUZZ_SECONDS),--seconds $(FUZZ_SECONDS)) $(READERS)

bench: build  ## Run the benchmarks and print their tables
	@tools/bench.sh

format: setup  ## Format C++, Python and CMake files in place
	@$(PYTHON_BIN) tools/format.py

lint: build  ## Layers, file sizes, headers alone, clang-tidy, ruff, spelling
	@JOBS=$(JOBS) $(PYTHON_BIN) tools/lint.py

sanitize: setup  ## Build what needs no torch with ASan and UBSan, and test it
	@JOBS=$(JOBS) tools/build.sh sanitize
	@ctest --preset sanitize

docs: build  ## Write the generated pages again, and check every link
	@.venv/bin/weft opt --list-ops -o docs/ops.md
	@$(PYTHON_BIN) tools/check_docs.py

clean:  ## Remove what was built (.venv stays)
	@rm -rf build dist
