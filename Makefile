# Two commands, nothing before them: `make demo` (SMALL=1 takes a minute) and `make test`; `make` lists all.
# Each makes .venv when it is missing or older than the files that say what goes into it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OTHERS := 3.12 3.13 3.14 3.15
RELEASES := plugins/hookpatch-onnxsim/tests/releases.txt
PLUGINS := $(patsubst %/pyproject.toml,%,$(wildcard plugins/*/pyproject.toml))
INSTALLED := $(VENV)/.installed
INSTALL := $(BIN)/python -m pip --disable-pip-version-check install -qq
EXAMPLE := docs/examples/prepare_model
# In containers PYTHONDONTWRITEBYTECODE is often set: each process of a test would compile hookpatch, 0.3 s.
COMPILED := hookpatch $(wildcard plugins/*/hookpatch_*)

.PHONY: help demo test test-rest test-all check test-pythons dist test-dist bench bench-startup bench-torch bench-picture \
	interrupts silent launchers bench-scan bench-runtimes bench-pythons against effect soak clean bench-restore bench-wild bench-audit bench-audit-cost bench-adopt pictures docs \
	gallery plugins-table road bench-onnx matrix-onnx

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(INSTALLED) ## the main job on a real model; SMALL=1 takes a minute
	@$(BIN)/python $(EXAMPLE)/demo.py $(if $(SMALL),--small)

# Left out are long rows of small cells, real models, and what needs a launcher; test-rest has them.
# Six files to a process, two processes at a time: a look at all objects goes through what pytest has made of all other
# tests, too, and took eight times as long with all files in one process. Without hookpatch-onnxsim's tests: it imports torch.
test: $(VENV)/wheels ## what catches most, on this Python; six minutes
	@find tests plugins/test_contract.py plugins/test_public_names.py plugins/hookpatch-example-printer plugins/hookpatch-gallery \
		-name 'test_*.py' | sort | xargs -n 6 -P 2 sh tests/part.sh $(VENV) quick

# Three parts at a time, since tests wait for child processes. Each file runs on one other Python, and on the next one if TURN
# is one more; `make test-pythons` runs all files on each. DEADLINE: see tests/part.sh.
test-rest: export TURN ?= 0
test-rest: $(VENV)/wheels ## checks, long tests, other Pythons; an hour
	@printf '%s\n' $(OTHERS) | xargs -n 1 -P 2 sh tests/environment.sh
	@sh tests/parts.sh rest $(OTHERS) | xargs -r -L 1 -P 3 sh tests/part.sh

# What is built of hookpatch and each plugin, for all parts of the tests: each would build it for itself.
test test-rest: export WHEELS := $(abspath $(VENV)/wheels)
.PHONY: $(VENV)/wheels
$(VENV)/wheels: $(INSTALLED)
	@rm -rf $@
	@PYTHONPATH=tests $(BIN)/python -c 'from environments import *; [build(project, Path("$@", project.name)) for project in PROJECTS]'

test-all: test test-rest ## all tests; a fourth of the files on each other Python

# mypy reads all code, pyright the public API as its users write it, and whether all of that is typed.
# pyright looks for packages with the first `python` of PATH, whichever one it was installed into.
PYRIGHT = PATH="$(abspath $(BIN)):$$PATH" $(BIN)/basedpyright
check: $(INSTALLED) ## ruff, mypy and pyright
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYRIGHT)
	@$(PYRIGHT) --verifytypes hookpatch --ignoreexternal >$(VENV)/types.log || { cat $(VENV)/types.log; exit 1; }

# The core's tests on the other Pythons of this machine; a Python that is not there is said to be missing.
test-pythons: $(INSTALLED) ## the core's tests on the other Pythons
	@for version in $(OTHERS); do \
		sh tests/environment.sh $$version && sh tests/parts.sh all $$version | xargs -r -L 1 -P 2 sh tests/part.sh || exit 1; \
	done

# A distribution is what is built from its sdist: so that has all that is needed. An old one would be tried along.
dist: $(INSTALLED) ## sdist and wheel of hookpatch and each plugin
	@rm -rf dist
	@$(BIN)/python tests/long_description.py dist . $(PLUGINS)
	@$(BIN)/twine check --strict dist/*
	@$(BIN)/python tests/long_description.py --check dist/*

# Into an empty environment each, from the files alone; DIST=hookpatch-export for one. What it needs of others comes from an index.
# Of hookpatch and hookpatch-onnx a sample is run: what a wheel may lack, files, start-up and commands.
DIST ?=
test-dist: dist ## each of dist/ tried in an empty environment; half an hour
	@$(BIN)/python tests/from_files.py dist $(DIST)

# Figures, not tests: what is measured, the ratio to the others, the goal. (imports_at_once.py, five minutes, by itself.)
bench: $(INSTALLED) bench-startup ## what patches cost, beside what other tools cost
	@for benchmark in calls sessions looks scale memory holders; do $(BIN)/python tests/benchmarks/$$benchmark.py || exit 1; done

# The same ratios on several Pythons, side by side; those environments are what `make test-pythons` makes.
bench-pythons: $(INSTALLED) ## what patches cost on several Pythons, side by side
	@$(BIN)/python tests/benchmarks/side_by_side.py $(BIN)/python .venv-3.13/bin/python .venv-3.15/bin/python -- calls sessions

# What a patch costs a model's step, eager and compiled.
bench-torch: $(INSTALLED) ## what a patch costs a model's step
	@$(BIN)/python tests/benchmarks/step_cost.py

# Targets by torch's capture modes, hookpatch beside other tools; half an hour. ONLY="--tools hookpatch --modes eager"
effect: $(INSTALLED) ## what holds in torch's captures, beside other tools
	@$(BIN)/python tests/benchmarks/effect_matrix.py $(ONLY)

# An exception out of a signal handler at each line and instruction: 960,000 points, more than a day. With SAMPLE="--most 400" half an hour.
interrupts: $(INSTALLED) ## what an interrupt leaves behind, beside other tools
	@$(BIN)/python tests/benchmarks/interrupts.py $(SAMPLE)

silent: $(INSTALLED) ## what is silently wrong, beside wrapt and mock
	@$(BIN)/python tests/benchmarks/silent.py

# 56 ways to start a child process by environment, names and phase; ten minutes, or ONLY="--only os.system".
launchers: $(INSTALLED) ## child processes: patched as they should be, or said
	@$(BIN)/python tests/benchmarks/launchers.py $(ONLY)

# What hookpatch and nine other ways to patch leave behind: the table of docs/why.md. Some minutes, and a package index.
bench-restore: $(INSTALLED) ## hookpatch beside nine other ways to patch
	@$(BIN)/python tests/benchmarks/restore.py docs/why.md

bench-wild: $(INSTALLED) ## collections of patches by others, beside their ports
	@$(BIN)/python tests/benchmarks/wild.py docs/reference/collections.md

# Programs that frameworks patch, and some that only import: installs them from a package index; ten minutes.
bench-audit: $(INSTALLED) ## what hookpatch audit finds, beside the truth
	@$(BIN)/python tests/benchmarks/audit.py docs/audit.md

# RUNS=3 for a quick look; each run imports torch and transformers twice.
RUNS ?= 9
bench-audit-cost: $(INSTALLED) ## what hookpatch audit costs a program's start
	@$(BIN)/python tests/benchmarks/audit_cost.py $(RUNS)

bench-adopt: $(INSTALLED) ## plugins of adopt, beside patches by hand
	@$(BIN)/python tests/benchmarks/adopt.py docs/how-to/adopt.md

# The pictures of the README, from a real run: two minutes, and Chromium.
pictures: $(INSTALLED) ## the README's pictures, from a real run
	@$(BIN)/python docs/images/pictures.py

# What a comparison of ONNX graphs finds, and how long it takes, beside onnxsim's.
bench-picture: $(INSTALLED) ## the comparison of ONNX graphs beside onnxsim's
	@$(BIN)/python plugins/hookpatch-onnx/tests/picture/beside.py

# A model of 0.5 GB, plain and patched, each export in a process of its own: ten minutes, and 3 GB of memory.
bench-onnx: $(INSTALLED) ## what hookpatch-onnx costs an export
	@$(BIN)/python plugins/hookpatch-onnx/tests/bench_cost.py

# 30 models of transformers with each exporter: right, loud, silent or wrong. Some minutes; ONLY="Mistral GPT2"
matrix-onnx: $(INSTALLED) ## exports with hookpatch-onnx, judged
	@$(BIN)/python plugins/hookpatch-onnx/tests/bench_matrix.py $(ONLY)

# Do the plugins of hookpatch-onnxsim fit these releases? Installs each anew: some minutes, and a package index.
AGAINST := onnxsim==0.4.36,0.6.5,0.7.3,0.8.1
against: $(INSTALLED) ## whether hookpatch-onnxsim fits other releases of onnxsim
	@$(BIN)/hookpatch check fuse_qkv_off linear_kept onnxsim_skip -o onnxsim_skip.passes=fuse_qkv --against $(AGAINST)

# The plugins of the gallery with the real libraries, their pages, and two releases of each library. Some minutes, and a package index.
GALLERY := plugins/hookpatch-gallery/tests
gallery: $(INSTALLED) ## fifteen real patches: tests, pages, other releases
	@$(BIN)/python -m pytest -q $(GALLERY)
	@$(BIN)/python -m pytest -q tests/docs/test_docs.py -k docs/gallery
	@$(BIN)/python $(GALLERY)/gallery_releases.py docs/gallery/*/*.md

# What captures did with the models of the list, an hour or two the first time, and what the scan says of them, seconds.
SCAN := plugins/hookpatch-export/tests
MODELS ?= $(SCAN)/bench/models.txt
TRUTH ?= build/scan-truth
bench-scan: $(INSTALLED) ## the scan against the truth on many models; hours
	@$(BIN)/python $(SCAN)/bench_scan.py $(MODELS) --cache $(TRUTH)
	@$(BIN)/python $(SCAN)/bench_scan.py $(SCAN)/bench/others.txt --cache $(TRUTH) --write $(TRUTH)/others
	@$(BIN)/python $(SCAN)/bench_scan.py $(SCAN)/bench/own_inputs.txt --cache $(TRUTH) --write $(TRUTH)/own-inputs
	@$(BIN)/python $(SCAN)/bench_scan.py $(SCAN)/bench/hold_out.txt --cache $(TRUTH) --write $(TRUTH)/hold-out

# The documentation as a site, build/docs/index.html; a warning is an error.
docs: $(INSTALLED) ## the documentation as a site, in build/docs
	@$(BIN)/python -m sphinx --quiet --write-all --fail-on-warning --keep-going --jobs auto --conf-dir docs . build/docs
	@echo "build/docs/index.html"

# BERT base, ResNet-18 and GPT-Neo 125M in each way to run them: the tables and the picture of docs/runtimes.md; an hour.
RUNTIMES ?=
bench-runtimes: $(INSTALLED) ## three models in each way to run them; an hour
	@$(BIN)/python plugins/hookpatch-torchscript/tests/bench_runtimes.py docs/runtimes.md $(RUNTIMES)

bench-startup: $(INSTALLED) ## what hookpatch costs the interpreter's start
	@$(BIN)/python tests/benchmarks/startup.py

$(INSTALLED): pyproject.toml constraints.txt requirements-dev.txt $(wildcard startup/*) $(PLUGINS:%=%/pyproject.toml) $(RELEASES)
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("hookpatch needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12")'
	@echo "installing into $(VENV): torch, transformers, onnx, onnxsim, hookpatch and its plugins (some minutes the first time)"
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) --constraint constraints.txt --requirement requirements-dev.txt --no-compile
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true # on all cores; pip takes one. Some packages have files for Python 2
	@$(INSTALL) --constraint constraints.txt --no-build-isolation --editable . $(PLUGINS:%=--editable %)
	@grep -v '^#' $(RELEASES) | while read -r release; do \
		$(INSTALL) --no-deps --only-binary :all: --upgrade --target "$(VENV)/hookpatch-releases/$${release%%;*}" "$$release" || exit 1; \
	done
	@$(BIN)/python -m compileall -q $(COMPILED)
	@touch $(INSTALLED)

# plugins/README.md, from what the plugins declare; a test tells when it is not up to date.
.PHONY: plugins-table
plugins-table: $(INSTALLED) ## plugins/README.md anew
	@PYTHONPATH=tests $(BIN)/python tests/plugins_table.py

# docs/how-it-works.md, from a run under a tracer; a test tells when it is not up to date.
road: $(INSTALLED) ## docs/how-it-works.md anew
	@PYTHONPATH=tests $(BIN)/python tests/road.py

# The state machine of tests/promises/test_machine.py from new seeds, for as long as one likes: make soak MINUTES=10
MINUTES ?= 10
soak: $(INSTALLED) ## the tests' state machine from new seeds; MINUTES=10
	@PYTHONPATH=tests $(BIN)/python tests/promises/soak.py $(MINUTES)

clean: ## remove what all of this has made
	rm -rf $(VENV) .venv-* build dist .pytest_cache .mypy_cache .ruff_cache
