#!/usr/bin/env bash
# Brings a fresh machine to where every command runs, and does nothing where that is so already.
#
# Invariant: every version comes from a committed file. The Rust toolchain is that of
# rust-toolchain.toml, npm packages those of package-lock.json, and tools/bindgen has a Cargo.lock of its
# own. All but the toolchain lands inside this folder (node_modules, .tools).
#
# `setup.sh toolchain` stops after Rust. `setup.sh cargo-deny` adds the one tool that only `make check` needs.
set -euo pipefail
cd "$(dirname "$0")/.."

# Not in Cargo.lock, as the program does not use it.
CARGO_DENY_VERSION=0.20.2

say() { echo "setup: $*"; }

fail() {
  say "$1" >&2
  say "what to do: $2" >&2
  exit 1
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

# Builds a program, by the cargo command that follows its name $1 and the minutes $2 that it takes on 2 cores. Not
# optimised: each runs for seconds, and would take longer to optimise. The project's own target folder stays clean.
built() {
  local name=$1 minutes=$2
  shift 2
  say "building $name into .tools ($minutes on 2 cores)"
  mkdir -p .tools/bin
  CARGO_TARGET_DIR=.tools/target/$name CARGO_PROFILE_DEV_DEBUG=false cargo "$@" --quiet --locked || fail \
    "cargo could not build $name" \
    "check that the crates.io registry can be reached and a C compiler is installed, then run make setup again"
}

# What binds the Wasm to JavaScript: a small program of this project's around one crate.
bindgen() {
  local path=.tools/bin/bindgen
  if [ -x $path ] && [ -z "$(find tools/bindgen rust-toolchain.toml -newer $path -print -quit)" ]; then return; fi
  built bindgen "half a minute" build --manifest-path tools/bindgen/Cargo.toml
  mv .tools/target/bindgen/debug/tally-bindgen $path
  touch $path
  rm -rf .tools/target/bindgen
}

cargo_deny() {
  local path=.tools/bin/cargo-deny
  if has_version $path "$CARGO_DENY_VERSION"; then return; fi
  built cargo-deny "1 to 2 minutes" install --debug --force --root .tools "cargo-deny@$CARGO_DENY_VERSION"
  has_version $path "$CARGO_DENY_VERSION" || fail "$path is not version $CARGO_DENY_VERSION after its installation" \
    "remove .tools and run make setup again"
  rm -rf .tools/target/cargo-deny
}

toolchain
if [ "${1:-}" = toolchain ]; then exit; fi
# npm waits for the network most of the time, cargo computes: together they take as long as the longer one.
packages &
packages=$!
bindgen
wait $packages
if [ "${1:-}" = cargo-deny ]; then cargo_deny; fi
