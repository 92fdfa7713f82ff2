# Every target works from a fresh clone: the environment is made on first use and reused after that.
VENV   := .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

# laplace-torch and backpack ask for torchvision, which felbo never imports: they go in without what
# they ask for, and everything else that they need is listed (tests/test_makefile.py holds it to that).
LAPLACE := laplace-torch backpack-for-pytorch curvlinops-for-pytorch asdfghjkl unfoldNd einconv opt-einsum einops tqdm

.PHONY: demo test test-slow test-settings torture check format bench docs dist clean
.DELETE_ON_ERROR:

$(VENV)/.installed: pyproject.toml constraints.txt
	@echo "Creating $(VENV) with the pinned versions of constraints.txt ..."
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch==2.13.0
	$(PIP) -e '.[dev]'
	$(PIP) --no-deps $(LAPLACE)
	@touch $@

$(VENV)/.bench: $(VENV)/.installed
	$(PIP) -e '.[bench]'
	@touch $@

demo: $(VENV)/.installed  ## the twelve panels of the two-moons figure
	$(BIN)/felbo demo

test: $(VENV)/.installed  ## every test that takes less than a minute
	$(BIN)/pytest -m "not slow"

test-slow: $(VENV)/.installed  ## the tests that take minutes
	$(BIN)/pytest -m slow

test-settings: $(VENV)/.installed  ## tests of predictions in inference mode, under autocast, in two threads
	for setting in inference autocast threads; do $(BIN)/pytest -m "not slow" --setting $$setting || exit 1; done

torture: $(VENV)/.installed  ## kills, damaged files, hostile numbers and memory, with a table of what was survived
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.torture

check: $(VENV)/.installed  ## lint, format, types, room order
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench  ## speed, as ratios measured in one process
	$(BIN)/python -m benchmarks

$(VENV)/.docs: $(VENV)/.installed
	$(PIP) -e '.[docs]'
	@touch $@

docs: $(VENV)/.docs  ## the documentation site in build/site; broken links and references fail
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# The wheel is tried where nothing but itself and what it asks for is installed. A CPU build of torch
# goes first, since a build with CUDA takes gigabytes.
dist: $(VENV)/.docs  ## wheel and sdist, tried by the README's first block in an empty environment
	rm -rf dist build/empty
	$(BIN)/python -m build --quiet
	$(PYTHON) -m venv build/empty
	build/empty/bin/pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	build/empty/bin/pip install --quiet --disable-pip-version-check -c constraints.txt dist/felbo-*.whl
	cd build/empty && bin/python ../../docs/site/first_block.py ../../README.md
	@ls dist

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
