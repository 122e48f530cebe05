#!/usr/bin/env bash
# Builds the release Wasm into build/, if what it is made of changed since the last build.
#
# Invariant: build/.built is as old as the moment before the last complete build began, so a file
# that changes during a build is newer than it and the next call builds again.
# Concurrent calls (wrangler starts one per configuration file) wait for each other: the second
# finds the build done.
set -euo pipefail
cd "$(dirname "$0")/.."

# scripts/setup.sh has already run when a command of the Makefile calls; not when wrangler does.
scripts/setup.sh

# `flock` is in every Linux; elsewhere two builds at once cost time only (worker-build has a lock).
mkdir -p .tools build
exec 9>.tools/build.lock
if command -v flock >/dev/null; then flock 9; fi

sources=(src Cargo.toml Cargo.lock rust-toolchain.toml scripts/build.sh)
if [ -d .cargo ]; then sources+=(.cargo); fi

# The dashboard's files are no part of what is compiled: they are put in each time, in a fraction of a second.
dashboard() { node_modules/.bin/node scripts/dashboard.mjs; }

# Folders count as well: removing a file changes only its folder.
if [ -f build/.built ] && [ -f build/index_bg.wasm ] && [ -z "$(find "${sources[@]}" -newer build/.built -print -quit)" ]; then
  dashboard
  exit 0
fi

echo "build: compiling the release Wasm into build/"
touch .tools/build.began
rm -f build/.built
export WASM_BINDGEN_BIN=$PWD/.tools/bin/wasm-bindgen
export WASM_OPT_BIN=$PWD/node_modules/.bin/wasm-opt
export ESBUILD_BIN=$PWD/node_modules/.bin/esbuild
# wasm-opt is a script for node: it gets the project's node, not the machine's.
export PATH=$PWD/node_modules/.bin:$PATH
.tools/bin/worker-build --release 9>&-
# worker-build keeps the names of functions, a tenth of the module: they go to a file beside it, with
# which a stack trace of offsets can be read.
mv build/index_bg.wasm build/names.wasm
# The features are those that worker-build names, and SIMD: newer encodings are not read by every workerd.
wasm-opt -Oz --strip-debug --strip-producers --enable-mutable-globals --enable-sign-ext \
  --enable-nontrapping-float-to-int --enable-simd --enable-bulk-memory --enable-multivalue \
  --enable-reference-types --enable-exception-handling \
  -o build/index_bg.wasm build/names.wasm 9>&-
# The platform calls src/handlers.js, which goes around the module that worker-build wrote.
mv build/index.js build/generated.js
"$ESBUILD_BIN" src/handlers.js --bundle --format=esm --minify --log-level=warning --alias:built="$PWD/build/generated.js" \
  --external:cloudflare:workers '--external:*.wasm' --outfile=build/index.js 9>&-
rm build/generated.js
mv .tools/build.began build/.built
dashboard
