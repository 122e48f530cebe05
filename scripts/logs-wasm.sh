#!/usr/bin/env bash
# Builds the command's reader of logs into build/logs.wasm, if a source changed. `make build` does it too.
set -euo pipefail
cd "$(dirname "$0")/.."

out=build/logs.wasm
if [ -f $out ] && [ -z "$(find crates/tally-import crates/tally-logs crates/tally-logs-wasm Cargo.toml Cargo.lock rust-toolchain.toml scripts/logs-wasm.sh -newer $out -print -quit)" ]; then exit 0; fi

mkdir -p build
echo "build: compiling the command's reader of logs to Wasm (half a minute the first time)"
cargo build --locked --quiet --profile logs -p tally-logs-wasm --target wasm32-unknown-unknown
# A name at once: a command that is running has the file open.
cp "${CARGO_TARGET_DIR:-target}/wasm32-unknown-unknown/logs/tally_logs_wasm.wasm" $out.new
mv $out.new $out
