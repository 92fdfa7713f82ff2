# Every target works from a fresh clone: the environment is made on first use and reused after that.
VENV   := .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

# laplace-torch and backpack ask for torchvision, which felbo never imports: they go in without what
# they ask for, and everything else that they need is listed (tests/test_makefile.py holds it to that).
LAPLACE := laplace-torch backpack-for-pytorch curvlinops-for-pytorch asdfghjkl unfoldNd einconv opt-einsum einops tqdm

.PHONY: demo test test-slow check format bench clean
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

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
