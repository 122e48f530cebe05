# Every command does its own set-up first; once it is done that costs a fraction of a second.
.DEFAULT_GOAL := help
.PHONY: help setup setup-check build dev serve test check bench clean

# The project's own node runs its tools. It stays off the PATH here: npm replaces it during set-up.
NODE := node_modules/.bin/node

help:
	@echo "make serve   the release build on plain workerd, http://127.0.0.1:8788, data in .data"
	@echo "             PORT, DATA, HOST, CF_BLOB_HEADER and any TALLY_ variable come from the environment"
	@echo "make dev     both Workers under wrangler dev, http://127.0.0.1:8787, rebuilt on change"
	@echo "make test    every test: native, of the scripts, then end to end"
	@echo "make check   formatting, lints, docs, licences, layering, Wasm size, deploy dry run"
	@echo "make bench   the benchmark beside its baselines, about 6 minutes; BENCH_RECORD=1 writes BENCHMARKS.md"
	@echo "make build   the release Wasm into build/, if a source changed"
	@echo "make setup   what the others do first: Wasm target, npm packages, worker-build, wasm-bindgen"
	@echo "make clean   removes what was built; the tools and .data stay"

setup:
	@scripts/setup.sh
	@echo "setup: complete"

setup-check:
	@scripts/setup.sh cargo-deny

build:
	@scripts/build.sh

dev: build
	@exec $(NODE) scripts/dev.mjs

# `exec`, so that a signal to make reaches the server and not a shell between them.
serve: build
	@exec $(NODE) scripts/serve.mjs

test: build
	cargo test --locked
	$(NODE) --test --test-reporter=spec 'scripts/*.test.mjs' 'benches/*.test.mjs'
	@if [ -d tests/e2e ]; then PATH="$(CURDIR)/node_modules/.bin:$$PATH" $(NODE) node_modules/vitest/vitest.mjs run --root tests/e2e; fi

check: setup-check build
	@$(NODE) scripts/check.mjs

bench: build
	cargo bench --locked --bench native
	@exec $(NODE) benches/run.mjs

clean:
	rm -rf build bench-out .wrangler
	cargo clean
