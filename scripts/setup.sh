#!/usr/bin/env bash
# Brings a fresh machine to where every command runs, and does nothing where that is so already.
#
# Invariant: every version comes from a committed file. The Rust toolchain is that of
# rust-toolchain.toml, npm packages those of package-lock.json, and worker-build and wasm-bindgen
# have the very versions of the crates `worker` and `wasm-bindgen` in Cargo.lock, because each pair
# must match. All but the toolchain lands inside this folder (node_modules, .tools).
#
# `setup.sh cargo-deny` adds the one tool that only `make check` needs.
set -euo pipefail
cd "$(dirname "$0")/.."

# Not in Cargo.lock, as the program does not use it. 2 min 20 s to build on 2 cores.
CARGO_DENY_VERSION=0.20.2

say() { echo "setup: $*"; }

fail() {
  say "$1" >&2
  say "what to do: $2" >&2
  exit 1
}

# The version of the crate $1 in Cargo.lock.
locked() {
  awk -v name="\"$1\"" '$1 == "name" && $3 == name { getline; gsub(/"/, "", $3); print $3; exit }' Cargo.lock
}

# Whether the program $1 reports the version $2 as a word of its `--version`.
has_version() {
  "$1" --version 2>/dev/null | head -n 1 | tr ' ' '\n' | grep -Fqx -e "$2" -e "v$2"
}

toolchain() {
  local channel sysroot
  channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
  command -v cargo >/dev/null || fail "cargo is not on the PATH" \
    "install Rust by rustup (https://rustup.rs), open a new shell, then run make setup again"
  if command -v rustup >/dev/null; then
    # Asked of rustup by name, so that the question does not itself start an installation.
    if ! rustup component list --installed --toolchain "$channel" 2>/dev/null | complete_toolchain; then
      say "installing Rust $channel with the target wasm32-unknown-unknown"
      rustup toolchain install "$channel" --profile minimal --component clippy --component rustfmt \
        --target wasm32-unknown-unknown --no-self-update ||
        fail "rustup could not install Rust $channel" \
          "check that static.rust-lang.org can be reached, then run make setup again"
    fi
    return
  fi
  sysroot=$(rustc --print sysroot)
  [ -d "$sysroot/lib/rustlib/wasm32-unknown-unknown" ] || fail \
    "this Rust has no target wasm32-unknown-unknown, and there is no rustup to add it" \
    "install rustup (https://rustup.rs), or your distribution's package of that target"
}

# Whether the list of components on standard input has all that the commands use.
complete_toolchain() {
  local list
  list=$(cat)
  grep -q '^rust-std-wasm32-unknown-unknown' <<<"$list" && grep -q '^clippy' <<<"$list" && grep -q '^rustfmt' <<<"$list"
}

packages() {
  command -v node >/dev/null && command -v npm >/dev/null || fail "node or npm is not on the PATH" \
    "install Node (any version from 18: the project brings its own for its tools), then run make setup again"
  if ! node scripts/packages-installed.mjs; then
    say "installing the npm packages of package-lock.json"
    # The machine's own node runs npm: the one inside node_modules is removed while it works.
    npm ci --no-audit --no-fund --loglevel=error || fail "npm ci failed" \
      "check that the npm registry can be reached (npm ping), then run make setup again"
  fi
  node_modules/.bin/node --version >/dev/null 2>&1 || fail "the npm package node has no binary for this machine" \
    "run npm ci again without --ignore-scripts and --omit=optional"
}

# Puts the program $1 of the crate $2 in version $3 into .tools/bin.
tool() {
  local name=$1 crate=$2 version=$3 path=.tools/bin/$1 found
  [ -n "$version" ] || fail "Cargo.lock names no version for $name" "restore Cargo.lock from git"
  if has_version "$path" "$version"; then return; fi
  mkdir -p .tools/bin
  rm -f "$path"
  found=$(command -v "$name" || true)
  if [ -n "$found" ] && has_version "$found" "$version"; then
    say "using $name $version from $found"
    ln -s "$found" "$path"
    return
  fi
  say "building $name $version into .tools (2 to 3 minutes on 2 cores)"
  # One target folder for the tools: they share crates, and the project's own target stays clean.
  CARGO_TARGET_DIR=.tools/target cargo install --quiet --locked --force --root .tools "$crate@$version" || fail \
    "cargo could not install $crate $version" \
    "check that the crates.io registry can be reached and a C compiler is installed, then run make setup again"
  has_version "$path" "$version" || fail "$path is not version $version after its installation" \
    "remove .tools and run make setup again"
}

toolchain
packages
if [ "${1:-}" = cargo-deny ]; then
  tool cargo-deny cargo-deny "$CARGO_DENY_VERSION"
fi
tool worker-build worker-build "$(locked worker)"
tool wasm-bindgen wasm-bindgen-cli "$(locked wasm-bindgen)"
rm -rf .tools/target
