# Two commands, nothing before them: `make demo` (SMALL=1 takes seconds) and `make test`.
# Each makes .venv when it is missing or older than the files that say what goes into it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OTHERS := 3.12 3.13
RELEASES := plugins/hookpatch-onnxsim/tests/releases.txt
PLUGINS := $(patsubst %/pyproject.toml,%,$(wildcard plugins/*/pyproject.toml))
INSTALLED := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check
EXAMPLE := docs/examples/prepare_model

.PHONY: demo test check test-pythons bench bench-startup bench-torch bench-picture bench-scan bench-runtimes against effect soak clean

demo: $(INSTALLED)
	@$(BIN)/python $(EXAMPLE)/demo.py $(if $(SMALL),--small)

# Two processes at a time: this Python's tests; the other Pythons', the plugins' and the examples'.
test: check
	@sh tests/meanwhile.sh $(VENV) $(OTHERS) & meanwhile=$$!; \
	STRESS_SECONDS=60 $(BIN)/python -m pytest tests; here=$$?; wait $$meanwhile && exit $$here

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The core's tests on the other Pythons of this machine; a Python that is not there is said to be missing.
test-pythons: $(INSTALLED)
	@sh tests/other_pythons.sh $(OTHERS)

# Figures, not tests: what is measured, the ratio to the others, the goal. (imports_at_once.py, five minutes, by itself.)
bench: $(INSTALLED) bench-startup
	@for benchmark in calls sessions scale memory holders; do $(BIN)/python tests/benchmarks/$$benchmark.py || exit 1; done

# What a patch costs a model's step, eager and compiled.
bench-torch: $(INSTALLED)
	@$(BIN)/python tests/benchmarks/step_cost.py

# Targets by torch's capture modes, hookpatch beside other tools; half an hour. ONLY="--tools hookpatch --modes eager"
effect: $(INSTALLED)
	@$(BIN)/python tests/benchmarks/effect_matrix.py $(ONLY)

# What a comparison of ONNX graphs finds, and how long it takes, beside onnxsim's.
bench-picture: $(INSTALLED)
	@$(BIN)/python plugins/hookpatch-onnx/tests/picture/beside.py

# Do the plugins of hookpatch-onnxsim fit these releases? Installs each anew: some minutes, and a package index.
AGAINST := onnxsim==0.4.36,0.6.5,0.7.3,0.8.1
against: $(INSTALLED)
	@$(BIN)/hookpatch check fuse_qkv_off linear_kept onnxsim_skip -o onnxsim_skip.passes=fuse_qkv --against $(AGAINST)

# What captures did with the models of the list, an hour or two the first time, and what the scan says of them, seconds.
SCAN := plugins/hookpatch-export/tests
MODELS ?= $(SCAN)/bench/models.txt
TRUTH ?= build/scan-truth
bench-scan: $(INSTALLED)
	@$(BIN)/python $(SCAN)/bench_scan.py $(MODELS) --cache $(TRUTH)

# BERT base, ResNet-18 and GPT-Neo 125M in each way to run them: the tables and the picture of docs/runtimes.md; an hour.
RUNTIMES ?=
bench-runtimes: $(INSTALLED)
	@$(BIN)/python plugins/hookpatch-torchscript/tests/bench_runtimes.py docs/runtimes.md $(RUNTIMES)

bench-startup: $(INSTALLED)
	@$(BIN)/python tests/benchmarks/startup.py

$(INSTALLED): pyproject.toml constraints.txt requirements-dev.txt $(wildcard startup/*) $(PLUGINS:%=%/pyproject.toml) $(RELEASES)
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("hookpatch needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12")'
	@echo "installing into $(VENV): torch, transformers, onnx, onnxsim, hookpatch and its plugins (some minutes the first time)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -qq --constraint constraints.txt --requirement requirements-dev.txt
	@$(PIP) install -qq --constraint constraints.txt --editable . $(PLUGINS:%=--editable %)
	@grep -v '^#' $(RELEASES) | while read -r release; do \
		$(PIP) install -qq --no-deps --only-binary :all: --upgrade --target "$(VENV)/releases/$${release%%;*}" "$$release" || exit 1; \
	done
	@touch $(INSTALLED)

# The state machine of tests/test_machine.py from new seeds, for as long as one likes: make soak MINUTES=10
MINUTES ?= 10
soak: $(INSTALLED)
	@$(BIN)/python tests/soak.py $(MINUTES)

clean:
	rm -rf $(VENV) .venv-* build dist .pytest_cache .mypy_cache .ruff_cache
