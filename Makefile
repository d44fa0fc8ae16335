# Everything a developer types. `make setup` needs Python 3.11 or 3.12 with venv, git and make.

.DEFAULT_GOAL := help
.PHONY: help setup setup-node test test-wallets test-browser nightly packages demo wheel lint style types layers site lock

# The first Python on PATH that fits; else whichever there is, and the set-up says what is wrong.
ifndef PYTHON
PYTHON := $(shell for name in python3.11 python3.12 python3; do \
	"$$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' \
	2>/dev/null && echo "$$name" && exit; done; echo python3)
endif
SETUP = command -v "$(PYTHON)" >/dev/null || { echo "assay setup: there is no $(PYTHON): \
	install Python 3.11 or 3.12 and run it again." >&2; exit 1; }; \
	"$(PYTHON)" -m tools.setup

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' Makefile | expand -t 18

setup: ## make or update .venv: packages, protobuf modules, CometBFT (12 GB of disk at first)
	@$(SETUP)

setup-node: ## the same without torch and the tests: enough to run a node (2 GB)
	@$(SETUP) --node

# What Python compiles of the tests is kept, whatever the environment says: each process would take 12 s for it. And one
# thread for a product, and one for the Go code of a CometBFT: with two processes and their networks on two cores, more of
# them wait for each other.
test: setup ## all tests; PYTEST_ARGS adds options
	@PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 GOMAXPROCS=1 .venv/bin/python -m pytest -n 5 --dist loadgroup --no-loadscope-reorder $(PYTEST_ARGS)

test-wallets: setup ## CosmJS against a real node; needs Node and npm
	@npm ci --ignore-scripts --no-audit --no-fund --prefix tests/interop
	@.venv/bin/python -m pytest tests/interop $(PYTEST_ARGS)

test-browser: setup ## the console in a Chromium, which root gets from Debian where there is none; SHOTS=docs/images keeps pictures
	@ASSAY_SCREENSHOTS="$(SHOTS)" .venv/bin/python -m pytest -m browser tests/browser $(PYTEST_ARGS)

packages: setup ## packages of others, for the table of models
	@.venv/bin/uv pip install --quiet --require-hashes --python .venv/bin/python -r $(LOCKS)/requirements-packages.lock

nightly: packages ## what is too long for that: demos of other jobs and without a validator, the tutorials, random programs, every model, every row of one result for one job, every process killed in every phase, random messages of every kind, a hundred markets from seeds, every mutant
	@.venv/bin/python -m pytest -m nightly
	@.venv/bin/python -m tests.fuzz
	@.venv/bin/python -m tests.sanitized
	@.venv/bin/python -m benchmarks exactness
	@.venv/bin/python -m benchmarks models
	@.venv/bin/python -m tests.same_bits --all
	@.venv/bin/python -m tests.same_bits --machines 1,2,3,4
	@.venv/bin/python -m tests.faults
	@.venv/bin/python -m tests.operations --every-kind
	@.venv/bin/python -m tests.simulator --seeds 100 --coalitions 20 --jobs 2
	@.venv/bin/python -m tests.mutants

demo: setup ## a market on this machine, from an order to settled training; ARGS adds options
	@.venv/bin/assay demo $(ARGS)

# What an earlier one left in build/lib would go into the next.
wheel: setup ## a wheel with the native kernels, for machines of this kind, in dist/
	@rm -rf build/lib
	@.venv/bin/uv build --quiet --wheel --no-build-isolation --python .venv/bin/python
	@ls dist/*.whl

lint: style types layers site ## style, types, layers, and the links of the documentation

style: setup
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check

types: setup
	@.venv/bin/mypy

layers: setup
	@.venv/bin/lint-imports --no-logo

# Its generator says at each start that a successor of it is being written.
site: setup ## the documentation as pages for a browser, in build/site
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet --strict

# A pin that still fits is kept; `make lock UPGRADE=--upgrade` takes the newest of everything.
LOCKS = tools/setup
COMPILE = .venv/bin/uv pip compile $(UPGRADE) --quiet --universal --python-version 3.11 \
	--generate-hashes --only-binary :all: --no-emit-index-url --no-header --no-annotate

lock: ## make the lock files again from pyproject.toml
	@$(COMPILE) pyproject.toml --all-extras --group setup -o $(LOCKS)/requirements.lock
	@$(COMPILE) pyproject.toml --group setup -c $(LOCKS)/requirements.lock \
		-o $(LOCKS)/requirements-node.lock
	@$(COMPILE) --group packages -c $(LOCKS)/requirements.lock -o $(LOCKS)/requirements-packages.lock
	@$(COMPILE) --group go -o $(LOCKS)/requirements-go.lock
	@$(COMPILE) --group native -o $(LOCKS)/requirements-native.lock
