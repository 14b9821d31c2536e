# Everything a fresh clone needs: `make lab` for a learner, `make test` for a developer.
# The environment (.venv) is made and kept up to date by .ci/prepare.py before each target that needs it.

PYTHON ?= python3
UV ?= uv
LAB ?= 02-allocate
ARGS ?=
VENV_PYTHON := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help ready compiler lab test release kit lint outputs grade nbval bench soak mutants clean lock

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo 'Settings: PYTHON=python3.12 (interpreter for a new .venv), UV= (use pip even where uv is installed),'
	@echo '          LAB=02-allocate, ARGS="..." (more options for the command behind the target).'

ready: ## Make or update .venv from the lock; does nothing when nothing changed.
	@command -v $(PYTHON) >/dev/null || { echo 'There is no $(PYTHON) on PATH: install Python 3.11 or newer, or say  make $@ PYTHON=/path/to/python'; exit 1; }
	@UV='$(UV)' $(PYTHON) .ci/prepare.py

lab: ready ## Open JupyterLab on the learner's notebooks in work/.
	@$(VENV_PYTHON) -m gpulab lab $(ARGS)

compiler: ready ## Add the CUDA compiler to .venv that the tests of the kernels load (Linux).
	@UV='$(UV)' $(PYTHON) .ci/prepare.py --tests

test: compiler ## Run every test on two workers and show where the time went.
	@$(VENV_PYTHON) -m pytest tests -n 2 --dist loadfile $(ARGS)

release: ready ## Build the learner's release of every lab into course/release.
	@$(VENV_PYTHON) -m autograder release $(ARGS)

kit: ready ## Build what learners are handed (wheel, notebooks, data; no solutions) into dist/gpulab-kit.
	@$(VENV_PYTHON) -m autograder kit $(ARGS)

lint: ready ## Find what would break a class in the labs, before they are handed out.
	@$(VENV_PYTHON) -m autograder lint labs/ $(ARGS)

outputs: ready ## Run the source notebooks again and store their outputs, with a readable diff.
	@$(VENV_PYTHON) -m autograder outputs $(ARGS)

grade: ready ## Collect, grade and write feedback for LAB (the instructor's part in one go).
	@$(VENV_PYTHON) -m autograder grade $(LAB) $(ARGS)

nbval: ready ## Compare the stored outputs of the source notebooks with a new run, strictly.
	@$(VENV_PYTHON) -m pytest -p no:cacheprovider --nbval --nbval-cell-timeout=60 labs/*/*.ipynb $(ARGS)

bench: ready ## Measure the times that the project promises; nothing here can fail a test.
	@$(VENV_PYTHON) tests/bench/run.py $(ARGS)
	@$(VENV_PYTHON) tests/bench/grading.py
	@$(VENV_PYTHON) tests/bench/grading_many.py --sizes 20 100

soak: ready ## Run the long tests at ten times the size and write tests/soak-report.md.
	@GPULAB_SOAK=1 $(VENV_PYTHON) -m pytest tests -m soak -n 2 --dist loadfile $(ARGS)

mutants: ready ## Judge every wrong answer in 200 courses and write tests/graders/mutants.md (ARGS="--only 02.pool").
	@$(VENV_PYTHON) tests/graders/table.py $(ARGS)

clean: ## Remove built releases and caches; never work/, submissions, marks or .venv.
	@rm -rf course/release build dist *.egg-info .pytest_cache .ruff_cache .hypothesis tests/browser/artifacts
	@find gpulab autograder labs tests datasets \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +

lock: ## Write .ci/lock.txt anew from pyproject.toml (needs uv).
	@UV='$(UV)' $(PYTHON) .ci/prepare.py --lock
