# make help: this text. make bench: the main job. make setup: the environments alone.
# make images: as images (FRAMEWORK=pytorch DEVICE=cpu for one; BUILD=... for the engine).
# make test: ruff, every quick test and tests/smoke, on any machine. make test-all: everything but test-images.
# Parts of it: make test-rest (what make test leaves out), test-conformance, test-pipeline, test-faults, test-cluster,
# test-browser. make test-fast: the quick tests alone. make coverage: all tests, slower, and the lines none reaches.
# make rehearse-gpu-day: the day on a lent card (tools/gpu_day.py), with its Python 3.12 and packages, here and without one.
# make docs: the pages of docs/ as a site, build/docs/index.html; a broken link makes it fail.
# make measure-faults [POINTS=1000] [SEED=1]: failing calls, and signals at any moment.
# make check-adapter NAME=... [ADAPTERS=DIR] [FROM=8]: check a new framework, rung by rung, from that rung on.
# Each does its own set-up on a fresh machine with Python 3.11 (the runner also works with PYTHON=python3.12), and is
# quick the second time.

PYTHON ?= python3.11
# The caller's PYTHON... variables have no effect on anything that is made or run here.
unexport $(filter-out PYTHON PYTHON312,$(filter PYTHON%,$(.VARIABLES)))
export PYTHONUNBUFFERED = 1

# Every package is pinned, so pip has nothing to choose: pip 23 would take a newer one if an extra is requested.
# pip without the caller's settings, except for where packages come from.
PIP = .venv/bin/python -m runner.environments.installers
AS_PINNED = install --quiet --no-deps --require-hashes --only-binary=:all:
INSTALL = $(PIP) $(AS_PINNED)

TESTS = .venv/bin/python -m pytest -n logical --dist loadgroup --no-loadscope-reorder
SLOW = real or browser or gpu or images or slow
PARTS = conformance pipeline faults cluster browser
# Each target in turn, even if the one before fails; it fails if any of them does.
EACH = @status=0; for target in $(1); do $(MAKE) --no-print-directory $$target || status=$$?; done; exit $$status

.PHONY: help bench test test-all test-quick test-rest $(PARTS:%=test-%) test-fast coverage setup lint style images docs \
	test-images measure-faults check-adapter rehearse-gpu-day

bench: .venv/bin/batchwise
	.venv/bin/python -m runner --framework all

help:
	@sed -n '1,/^$$/s/^# //p' $(firstword $(MAKEFILE_LIST))

setup: .venv/bin/batchwise
	.venv/bin/python -m runner.environments

test:
	$(call EACH,style test-quick)

test-all:
	$(call EACH,test test-rest)

test-quick: .venv/.complete-test
	.venv/bin/python -m runner.environments cpu
	$(TESTS) -m "smoke or not ($(SLOW))" --ignore=tests/images

# mypy is one of the tests: before them, it would leave all cores but one idle.
test-rest: .venv/.complete-test
	.venv/bin/python -m runner.environments cpu
	$(TESTS) -m "not smoke and ($(SLOW))" --ignore=tests/images

$(PARTS:%=test-%): test-%: .venv/.complete-test
	.venv/bin/python -m runner.environments cpu
	$(TESTS) tests/$*

coverage: .venv/.complete-test
	.venv/bin/python -m runner.environments cpu
	$(TESTS) --ignore=tests/images --cov

test-fast: .venv/.complete-test
	$(TESTS) -m "not (smoke or $(SLOW))"

images: .venv/.complete
	.venv/bin/python -m runner.environments.images $(FRAMEWORK) $(if $(DEVICE),--device $(DEVICE)) $(if $(BUILD),-- $(BUILD))

test-images: .venv/.complete-test
	.venv/bin/python -m runner.environments cpu
	.venv/bin/python -m pytest tests/images -s

measure-faults: .venv/.complete-test
	PYTHONPATH=.:tests:tests/faults .venv/bin/python tests/benchmarks/measure_faults.py $(or $(POINTS),1000) $(or $(SEED),1)

check-adapter: .venv/.complete-test
	.venv/bin/python -m tools.check_adapter $(NAME) $(if $(ADAPTERS),--adapters $(ADAPTERS)) $(if $(FROM),--from $(FROM))

rehearse-gpu-day: .venv/.complete
	.venv/bin/python -m tools.gpu_rehearsal

docs: .venv-docs/.complete
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build
	@echo "docs: build/docs/index.html"

lint: style
	.venv/bin/mypy

style: .venv/.complete-test
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

.venv/.complete: requirements.txt runner/requirements.txt
	@if [ -L .venv ]; then echo "make: .venv is a link, and its target would be emptied; remove the link" >&2; exit 2; fi
	@case "$$(uname -sm)" in "Linux x86_64") ;; \
	  *) echo "make: packages are pinned for Linux x86-64; this is $$(uname -sm)" >&2; exit 2;; esac
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] not in [(3, 11), (3, 12)])' || { \
	  echo "make: packages are pinned for Python 3.11 and 3.12; give one: PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "runner: making .venv"
	$(PYTHON) -m venv --clear .venv
	$(INSTALL) -r requirements.txt
	@$(PIP) check --quiet
	@touch $@

# The command, from any folder: .venv/bin/batchwise, or a link to it from a folder of your PATH.
.venv/bin/batchwise: tools/batchwise.sh .venv/.complete
	@install -m 755 tools/batchwise.sh $@

# A separate environment: no test and no run needs it, and it does not slow down `make test`.
.venv-docs/.complete: requirements-docs.txt | .venv/.complete
	@echo "docs: making .venv-docs"
	$(PYTHON) -m venv --clear --without-pip .venv-docs
	$(PIP) --python .venv-docs/bin/python $(AS_PINNED) -r requirements-docs.txt
	@touch $@

.venv/.complete-test: .venv/.complete requirements-test.txt requirements-ray.txt requirements-onnx.txt requirements-mlflow.txt | .venv/bin/batchwise
	@echo "tests: adding pytest, ruff and mypy to .venv"
	$(INSTALL) -r requirements.txt -r requirements-test.txt -r requirements-ray.txt -r requirements-onnx.txt -r requirements-mlflow.txt
	@$(PIP) check --quiet
	@touch $@
