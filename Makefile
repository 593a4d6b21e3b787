# make run          the examples: a real exported model, then two small networks
# make test         every quick test, doctests and the docs' examples included
# make exhaustive   the proofs by exhaustion: minutes to hours
# make mutants      conditions of the package changed one at a time, and those that no test notices: hours; ARGS='models --count 20'
# make proofs       that results are right, by Gappa, Sollya and exhaustion (docs/proofs.md): half an hour; ARGS=--quick five
# make bench        side by side with NumPy, torch, ONNX Runtime and others: 23 minutes; ARGS=--quick three
# make accuracy     docs/accuracy.md, each runtime in an environment of its own: gigabytes, an hour; ARGS='tract libm' two of them
# make integrations what runs inside ONNX Runtime and OpenVINO, with their oldest and newest versions supported
# make gpu          on a machine with a CUDA device: its bits against the processor's, then its speed: half an hour
# make machines     the package on fresh machines, each Python with compilers old and new: an hour; ARGS='3.13 g++-11' some
# make wheel        a source distribution, and from it alone a wheel, repaired and tried without a compiler, in dist/
# make wasm         halfulp.wasm, for JavaScript and other hosts, and a page that tries it, in build/wasm
# make docs         the documentation as a site, in build/site
# make lint         ruff, mypy --strict, clang-format; the build has the compiler's warnings as errors
# make clean        remove what all of these made
#
# Each makes what it needs in .venv, once. A machine needs make, Python 3.11 or later and a C++20 compiler;
# cmake, ninja and the rest come from the Python package index. ARGS goes to pytest: make test ARGS='-k prelu'.

ifndef PYTHON
PYTHON := $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
endif

VENV := .venv
WERROR := ON
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The requirements of extras of pyproject.toml, or of the build, a line each.
REQUIREMENTS = $(BIN)/python -c 'import sys, tomllib; t = tomllib.load(open("pyproject.toml", "rb")); \
  print(*(r for e in sys.argv[1:] for r in t["project"]["optional-dependencies"][e]) \
  if sys.argv[1:] else t["build-system"]["requires"], sep="\n")'
CORE := $(wildcard $(foreach d,core core/* core/*/* bindings/*,$(d)/*.cpp $(d)/*.h $(d)/*.def $(d)/*.cu))
TEST_SOURCES := $(wildcard $(foreach d,core phases cuda,tests/$(d)/*.cpp tests/$(d)/*.h) tests/avx512_model/*) \
  $(wildcard benchmarks/instructions/*.cpp proofs/programs/* proofs/programs/*/*)
GENERATED := core/numerics/constants.h core/numerics/constants_float32.h bindings/onnxruntime/rules.h
FORMATTED := $(filter-out $(GENERATED),$(filter %.cpp %.h %.cu,$(CORE) $(TEST_SOURCES))) \
  src/halfulp/integrations/openvino/extension.cpp

RUNTIMES := onnxruntime-1.20.1 onnxruntime-newest openvino-2025.4.0 openvino-newest

# Some environments set it; then each of the hundreds of processes that tests start would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test exhaustive mutants proofs bench accuracy gpu integrations machines wheel wasm docs lint clean FORCE
.DELETE_ON_ERROR:

run: $(VENV)/installed
	$(BIN)/python examples/run_exported_model.py
	$(BIN)/halfulp demo build/models
	$(BIN)/halfulp run build/models/super_resolution.onnx
	$(BIN)/halfulp run build/models/transformer_block.onnx

test: $(VENV)/test $(VENV)/pythons
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal $(ARGS)

# First the quick tests on other random data. -s: the long runs report their progress.
exhaustive: $(VENV)/test $(VENV)/pythons
	$(if $(ARGS),,HALFULP_SEED=fresh $(BIN)/python -m pytest --numprocesses auto --dist worksteal tests/core tests/oracle)
	HALFULP_SEED=fresh $(BIN)/python -m pytest -m exhaustive -s $(ARGS)

mutants: $(VENV)/test $(VENV)/mutants
	$(BIN)/python tools/mutants.py $(ARGS)

proofs: $(VENV)/proofs
	$(BIN)/python -m proofs $(ARGS)

bench: $(VENV)/bench
	$(BIN)/python benchmarks/run.py $(ARGS)

accuracy: $(VENV)/test
	$(BIN)/python tools/make_accuracy.py $(ARGS)

# In an environment of its own: with the kernels, and builds of torch and others for CUDA; who can't be installed beside
# torch is not measured.
gpu: PIP := build/gpu/bin/python -m pip install --quiet --disable-pip-version-check
gpu: $(VENV)/build-tools
	test -x build/gpu/bin/python || $(PYTHON) -m venv build/gpu
	HALFULP_CUDA=1 $(PIP) '.[gpu]'
	-$(PIP) '.[cupy]'
	-$(PIP) 'jax[cuda13]'
	build/gpu/bin/python -m pytest -m gpu -s tests/cuda/test_on_device.py $(ARGS)
	build/gpu/bin/python benchmarks/gpu.py --docs

integrations: $(RUNTIMES:%=integrations-of-%)

# In a folder of its own, which comes before .venv's. make integrations RUNTIMES=onnxruntime-1.22.1 tries another.
integrations-of-%: NAME = $(firstword $(subst -, ,$*))
integrations-of-%: $(VENV)/test FORCE
	rm -rf build/integrations/$*
	$(PIP) --no-deps --target build/integrations/$* $(subst -,==,$(*:%-newest=%))
	PYTHONPATH=build/integrations/$* $(BIN)/python -c 'import $(NAME); print("$(NAME)", $(NAME).__version__)'
	PYTHONPATH=$(CURDIR)/build/integrations/$* $(BIN)/python -m pytest tests/integrations/test_$(NAME)*.py $(ARGS)

machines: $(VENV)/test $(VENV)/wheel
	$(BIN)/python tools/try_machines.py --docs $(ARGS)

wheel: $(VENV)/wheel
	rm -rf dist build/wheel
	HALFULP_CUDA=1 $(BIN)/python -m build --outdir build/wheel .
	$(BIN)/python -m twine check --strict build/wheel/*
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist build/wheel/*.whl
	cp build/wheel/*.tar.gz dist
	$(BIN)/python tools/try_wheel.py dist/*.whl

wasm: $(VENV)/wasm
	$(BIN)/python tools/make_wasm.py build/wasm

docs: $(VENV)/docs wasm
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: $(VENV)/lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	printf '%s\n' linux 'win32 --cache-dir .mypy_cache/win32 src/halfulp' 'darwin --cache-dir .mypy_cache/darwin src/halfulp' | \
	  xargs -P 2 -L 1 $(BIN)/mypy --platform
	$(BIN)/clang-format --dry-run --Werror $(FORMATTED)

clean:
	rm -rf $(VENV) build dist

# The package, editable: a change of a .py file needs no new install, a change of what is compiled or packaged does.
# With the compiler's report on loops, which tests read: they need not compile all of it again. Warnings are errors here
# and nowhere else; make WERROR=OFF is for a compiler that warns of more than the CI's.
$(VENV)/installed: $(VENV)/build-tools $(VENV)/file-list pyproject.toml CMakeLists.txt $(CORE)
	$(PIP) --no-build-isolation --config-settings=cmake.define.HALFULP_VECTOR_REPORT=ON \
	  --config-settings=cmake.define.HALFULP_WERROR=$(WERROR) --editable '.[models]'
	touch $@

# Built without isolation, so that the build folder stays valid and a second build compiles only what changed.
$(VENV)/build-tools: pyproject.toml
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or later found; set PYTHON" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(REQUIREMENTS) >$@.txt
	$(PIP) --requirement $@.txt
	touch $@

# A new or removed module changes the list, and so installs again.
$(VENV)/file-list: FORCE | $(VENV)/build-tools
	@find src -name '*.py' | sort > $@.new; cmp -s $@.new $@ && rm $@.new || mv $@.new $@

$(VENV)/test: $(VENV)/networks $(VENV)/kernels
$(VENV)/test $(VENV)/lint $(VENV)/bench: $(VENV)/installed tests/constraints.txt
	$(PIP) --constraint tests/constraints.txt 'halfulp[$(@F)]'
	touch $@

# For these the package need not be built.
$(VENV)/wheel $(VENV)/wasm $(VENV)/docs $(VENV)/proofs $(VENV)/mutants: $(VENV)/build-tools pyproject.toml
	$(REQUIREMENTS) $(@F) >$@.txt
	$(PIP) --requirement $@.txt
	touch $@

# Environments in build/pythons for the other CPythons of this machine.
$(VENV)/pythons: $(VENV)/installed tests/house/pythons.py pyproject.toml
	$(BIN)/python -m tests.house.pythons
	touch $@

# Beside the environment: torch's builds for CUDA want other versions of it. macOS has none, and the tests skip there.
$(VENV)/kernels: $(VENV)/build-tools pyproject.toml
	rm -rf build/nvrtc
	$(REQUIREMENTS) kernels >$@.txt
	test "$$(uname -s)" = Darwin || $(PIP) --no-deps --target build/nvrtc --requirement $@.txt
	touch $@

# Of these packages only the files of their networks are wanted.
$(VENV)/networks: $(VENV)/build-tools pyproject.toml
	$(REQUIREMENTS) networks >$@.txt
	$(PIP) --no-deps --requirement $@.txt
	touch $@
