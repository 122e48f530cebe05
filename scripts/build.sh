#!/usr/bin/env bash
# Builds the release Wasm into build/, if what it is made of changed since the last build.
#
# Invariant: build/.built is as old as the moment before the last complete build began, so a file
# that changes during a build is newer than it and the next call builds again.
# FEATURES: what is in it, comma by comma, of the features of Cargo.toml; all unless set. Another choice is another
# build. Concurrent calls (wrangler starts one per configuration file) wait for each other: the second
# finds the build done.
set -euo pipefail
cd "$(dirname "$0")/.."

# `flock` is in every Linux. Elsewhere two builds at once may spoil each other's files, so the second must be run again.
mkdir -p .tools build
exec 9>.tools/build.lock
if command -v flock >/dev/null; then flock 9; fi

sources=(src crates package/client/transport.ts package/client/verdict.ts Cargo.toml Cargo.lock rust-toolchain.toml scripts/build.sh scripts/strip-names.mjs tools/bindgen)
if [ -d .cargo ]; then sources+=(.cargo); fi

# The dashboard's files are no part of what is compiled: they are put in each time, in a fraction of a second.
dashboard() { node_modules/.bin/node scripts/dashboard.mjs; }

features=${FEATURES-default}

# Folders count as well: removing a file changes only its folder.
if [ -f build/.built ] && [ -f build/index_bg.wasm ] && [ "$(cat build/.features 2>/dev/null)" = "$features" ] && [ -z "$(find "${sources[@]}" -newer build/.built -print -quit)" ]; then
  scripts/setup.sh 9>&-
  scripts/logs-wasm.sh 9>&-
  dashboard
  exit 0
fi

say() { echo "build: $* [$((SECONDS / 60)) min $((SECONDS % 60)) s]"; }

touch .tools/build.began
rm -f build/.built

# The last part of compiling keeps one core busy: on a fresh machine the tools are made on the other.
scripts/setup.sh toolchain 9>&-
say "compiling the program to Wasm (2 minutes on 2 cores the first time, 1 after a change)"
WASM_BINDGEN_USE_JS_SYS=1 cargo build --locked --quiet --release -p tally --lib --no-default-features --features "$features" --target wasm32-unknown-unknown 9>&- &
compiling=$!
trap 'kill $compiling 2>/dev/null || true' EXIT
scripts/setup.sh 9>&-
wait $compiling
trap - EXIT
scripts/logs-wasm.sh 9>&-
module=${CARGO_TARGET_DIR:-target}/wasm32-unknown-unknown/release/tally.wasm
export PATH=$PWD/node_modules/.bin:$PATH

# No wasm-opt: beside LLVM's own passes it changed no time of a request, and it made the Wasm a tenth larger, gzipped.
say "binding it"
rm -rf .tools/bound
.tools/bin/bindgen bind "$module" .tools/bound
.tools/bin/bindgen order .tools/bound/index_bg.wasm build/names.wasm
node scripts/strip-names.mjs build/names.wasm build/index_bg.wasm

# Modules are imported by their source here; the platform knows them as values.
sed -i.bak 's/^import source /import /' .tools/bound/index.js
# The platform calls src/handlers.js, which goes around src/recovery.js, and that around what bindgen made. src/rpc.js
# takes from the client what a refusal says.
esbuild src/handlers.js --bundle --format=esm --minify --log-level=warning --alias:built="$PWD/src/recovery.js" \
  --alias:bindings="$PWD/.tools/bound/index.js" --external:cloudflare:workers '--external:*.wasm' --outfile=build/index.js 9>&-
rm -rf .tools/bound
echo "$features" > build/.features
mv .tools/build.began build/.built
dashboard
say "build/ is complete"
