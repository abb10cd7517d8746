.DEFAULT_GOAL := help
.PHONY: help tune test test-vllm check format clean

help: ## What there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

tune: ## Set up, then tune the example on the embedded engine (simulated) and SQLite
	@scripts/setup
	@SERVETUNE_STATE_DIR="$${SERVETUNE_STATE_DIR:-$(CURDIR)/.servetune}" .venv/bin/servetune tune examples/chat.yaml

test: ## Set up, then run every test
	@scripts/test

test-vllm: ## Set up a real vLLM for CPUs and a tiny model, then run the tests against it
	@scripts/test-vllm

check: ## Lint, format, types, import contracts, generated files, deploy/
	@scripts/check

format: ## Format the code and sort imports
	@scripts/setup dev
	@.venv/bin/ruff check --fix . && .venv/bin/ruff format .

clean: ## Remove the virtual environment, caches and the demo's database
	rm -rf .venv .venv-vllm .servetune .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build dist
