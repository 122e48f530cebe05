# Every command does its own set-up first; once it is done that costs a fraction of a second.
.DEFAULT_GOAL := help
.PHONY: help setup setup-check build native openapi script fixture dev serve package test kills-workerd kills-native redis-suites redis-clients soak converge docs mutants check bench bench-boards bench-clients bench-resp bench-rpc bench-tail bench-tops bench-export bench-setup clean

# The project's own node runs its tools. It stays off the PATH here: npm replaces it during set-up.
NODE := node_modules/.bin/node

help:
	@echo "make serve   the release build on plain workerd, http://127.0.0.1:8788, data in .data; about 3 minutes the first time, a second later"
	@echo "             CF_BLOB_HEADER and any TALLY_ variable come from the environment"
	@echo "make native  the server as one native program, target/native/tally-server, without workerd and without Node"
	@echo "make dev     both Workers under wrangler dev, http://127.0.0.1:8787, rebuilt on change"
	@echo "make package the npm package edgetally: server, command and client, for machines without Rust, as build/edgetally-<version>.tgz; and the one with the native server for this platform, which needs musl-gcc"
	@echo "make test    every test, about 20 minutes on two cores: native, of the scripts, with real servers and proxies, the commands of the documents, with kills of the server, end to end, then in a real browser"
	@echo "make soak    the simulation: SEEDS=n worlds, 10000 unless set, new ones each time; SEED=n prints the events of one; FAULTS=n; UPGRADE=1: two builds; HOLDS=1: holds; HISTORY=folder: histories"
	@echo "make converge 100 datacenters in memory: how soon all agree, at what cost; DATACENTERS=300, SEED=n"
	@echo "make fixture writes the data folder of this version that later builds must open, tests/fixtures/data/<version>-<host>; see docs/internals/storage.md"
	@echo "make openapi writes crates/tally-api/openapi.json, which is served, from src/openapi.json, the Rust types and the table of codes"
	@echo "make script  writes crates/tally-edge/tally.js, which is served as /tally.js, from src/tally.js"
	@echo "make docs    writes the table of limits and the picture that the documents have from the code"
	@echo "make mutants breaks the code on purpose in each of many ways, all in one build, and sees a test show each, about 10 minutes; JOBS=n, WORLDS=n"
	@echo "make check   formatting, lints, docs, licences, Wasm size, deploy dry run; node scripts/check.mjs tidy prose runs those alone"
	@echo "make bench   the benchmark beside its baselines, about 20 minutes; BENCH_RECORD=1 writes BENCHMARKS.md"
	@echo "make bench-clients  Redis's clients on Tally and on Redis; SECONDS, ROUNDS, MEMBERS"
	@echo "make bench-resp  Redis's protocol on the native server, beside Redis: about a minute, also at the end of make bench; ROUNDS, REQUESTS"
	@echo "make bench-rpc  a call of another Worker by a method, beside fetch: about 20 s; ROUNDS, CALLS"
	@echo "make bench-tail  many cold counters, in tablets, on workerd and natively, and each with an object of its own; COUNTERS=1000000 for all of it, SECONDS, SEED"
	@echo "make bench-tops  what a top costs in a partition of the directory, beside writes; COUNTERS"
	@echo "make bench-export  an export of a million counters in 64 tablets, and its longest pause; COUNTERS"
	@echo "make bench-boards  a board of ten million members in its object, beside plain SQLite; MEMBERS"
	@echo "make bench-setup  how long a newcomer waits: make serve in a fresh clone and an empty home, at most 5 minutes on two cores"
	@echo "make build   the release Wasm into build/, if a source changed"
	@echo "make setup   what the others do first: Rust with its Wasm target, npm packages, the tool that binds Wasm to JavaScript"
	@echo "make clean   removes what was built; the tools and .data stay"

setup:
	@scripts/setup.sh
	@echo "setup: complete"

setup-check:
	@scripts/setup.sh cargo-deny

build:
	@scripts/build.sh

# The dashboard's charts are one of npm's packages, so set-up comes first. See docs/operate/native.md.
native: setup
	cargo build --locked --profile native --package tally-server

# A data folder of this version, which every later build must open: see docs/internals/storage.md.
fixture: build
	cargo build --locked --package tally-server
	@exec $(NODE) tests/upgrade/make.mjs

dev: build
	@exec $(NODE) scripts/dev.mjs

# `exec`, so that a signal to make reaches the server and not a shell between them. A make that is killed sends none: the
# server looks for it.
serve: build
	@exec $(NODE) scripts/serve.mjs --parent $$PPID

package: build
	@exec $(NODE) package/package.mjs

test: build
	@$(NODE) scripts/chromium.mjs && $(NODE) scripts/redis.mjs && $(NODE) scripts/prometheus.mjs && $(NODE) scripts/servers.mjs && $(NODE) scripts/python-clients.mjs && $(NODE) scripts/kubernetes.mjs
	cargo test --locked
	cargo build --locked --bins --tests
	$(NODE) --test --test-concurrency=2 --test-reporter=spec 'scripts/*.test.mjs' 'benches/*.test.mjs' 'tests/crash/*.test.mjs' 'tests/dashboard/*.test.mjs' 'tests/upgrade/*.test.mjs' 'tests/histories/*.test.mjs' 'simulation/ledger/*.test.mjs' 'simulation/mutants/*.test.mjs' 'package/test/*.test.mjs'
	$(NODE) --test --test-concurrency=2 --test-reporter=spec 'tests/servers/*.test.mjs' 'tests/kubernetes/*.test.mjs' 'tests/docs/*.test.mjs'
	$(NODE) --test --test-concurrency=2 --test-reporter=spec 'tests/server/*.test.mjs'
	@$(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync=target kills-workerd kills-native
	PATH="$(CURDIR)/node_modules/.bin:$$PATH" $(NODE) node_modules/vitest/vitest.mjs run --root tests/e2e --project 'virtual*' --project tablets --project platform --project 'one worker' --project server
	PATH="$(CURDIR)/node_modules/.bin:$$PATH" $(NODE) node_modules/vitest/vitest.mjs run --root tests/browser

# Both wait for servers that start again.
kills-workerd:
	$(NODE) tests/crash/run.mjs && $(NODE) tests/crash/data.mjs && $(NODE) tests/crash/storage.mjs && $(NODE) tests/histories/served.mjs

kills-native: export NATIVE := 1
kills-native:
	$(NODE) tests/crash/run.mjs KILLS=10 && $(NODE) tests/crash/data.mjs KILLS=3 && $(NODE) tests/crash/storage.mjs && $(NODE) tests/histories/served.mjs

# FROM is the first seed. Seeds of a run that is not named are those of its second. HISTORY is a folder for the histories.
SOAK_REPORT := $(CURDIR)/target/soak.json
soak: setup
	@rm -f "$(SOAK_REPORT)"; mkdir -p target
	@SEED="$(SEED)" SEEDS="$${SEEDS:-10000}" FROM="$${FROM:-$$(date +%s)000000}" \
		HISTORY="$(abspath $(HISTORY))" REPORT="$(SOAK_REPORT)" \
		cargo test --locked --quiet --profile simulation --package tally-simulation --test worlds -- --ignored --exact soak::soak --nocapture; \
		status=$$?; $(NODE) simulation/ledger/ledger.mjs worlds "$(SOAK_REPORT)"; exit $$status
	@if [ -n "$(HISTORY)" ]; then $(NODE) tests/histories/check.mjs --ledger "$(abspath $(HISTORY))"; fi
	@if [ -e build/index.js ]; then LEDGER=1 $(NODE) tests/histories/served.mjs KILLS=50 SECONDS=20; \
		else echo "soak: workerd was SKIPPED: make build makes its program"; fi
	@if [ -e target/debug/tally-server ]; then LEDGER=1 NATIVE=1 $(NODE) tests/histories/served.mjs KILLS=50 SECONDS=20; \
		else echo "soak: the native server was SKIPPED: cargo build -p tally-server makes it"; fi
	@SEED="$(or $(SEED),$(shell date +%s))" CASES="$${CASES:-20000000}" \
		cargo test --locked --quiet --profile simulation --test native access_fuzz
	@cargo test --locked --quiet --profile simulation --package tally-core --package tally-limit --test laws -- --ignored --nocapture

# Figures go to docs/converge-<datacenters>.json; the plot beside them and the table of docs/internals/convergence.md follow from those.
converge: DATACENTERS ?= 100
converge: setup
	@DATACENTERS=$(DATACENTERS) SEED="$(SEED)" JSON="$(CURDIR)/docs/converge-$(DATACENTERS).json" \
		cargo test --locked --quiet --profile simulation --package tally-simulation --test converge -- --ignored --nocapture
	@$(NODE) scripts/plot-converge.mjs docs/converge-$(DATACENTERS).json docs/converge-$(DATACENTERS).svg
	@$(NODE) scripts/table-converge.mjs docs/internals/convergence.md docs/converge-100.json docs/converge-300.json

# What pages have from the code: the table of all limits, and the picture of the README.
docs: setup
	@$(NODE) scripts/table-limits.mjs docs/internals/limits.md
	@$(NODE) scripts/plot-architecture.mjs docs/architecture.svg

# The description of the API: calls by hand, schemas from the types.
openapi: setup
	@cargo run --locked --quiet --package tally-openapi

# The script for pages, made shorter. It is committed, as the native server is built without Node.
script: setup
	@$(NODE) scripts/dashboard.mjs --script

mutants: setup
	@REPORT="$(CURDIR)/target/mutants.json" $(NODE) simulation/mutants/mutations.mjs; \
		status=$$?; $(NODE) simulation/ledger/ledger.mjs mutants target/mutants.json; exit $$status

check: setup-check
	@$(NODE) scripts/check.mjs

bench: build native
	@$(NODE) benches/slowness.mjs
	cargo bench --locked --bench native
	@$(NODE) benches/sketch-wasm.mjs && $(NODE) benches/slowness.mjs
	@$(NODE) benches/run.mjs
	@exec $(NODE) benches/resp.mjs

# What a board of ten million members costs in its object, beside plain SQLite: about 3 minutes, and 1 GB in the folder for temporary files.
MEMBERS ?= 10000000
bench-boards: setup
	cargo run --locked --quiet --release --package tally-simulation --bin board_figures -- $(MEMBERS)

# What a top costs in a partition of the directory with 62,500 counters, a sixteenth of a million: about 2 minutes.
bench-tops: setup
	cargo run --locked --quiet --release --package tally-simulation --bin top_figures -- "$${COUNTERS:-62500}"

# Redis's own tests against the native server: the folder of Redis's source, as apt-get source redis makes one.
redis-suites: setup
	cargo build --locked --package tally-server
	@exec $(NODE) scripts/redis-suites.mjs "$(REDIS_SOURCE)"

bench-clients: build native
	@exec $(NODE) benches/clients.mjs

bench-rpc: build
	@exec $(NODE) benches/rpc.mjs

# Redis's protocol on the native server, beside Redis.
bench-resp: native
	@exec $(NODE) benches/resp.mjs

bench-tail: build native
	@exec $(NODE) benches/tail.mjs

bench-export: build
	@exec $(NODE) benches/export.mjs

bench-setup: setup
	@exec $(NODE) benches/setup.mjs

clean:
	rm -rf build bench-out .wrangler
	cargo clean
