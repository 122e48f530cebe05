#!/bin/sh
# Compiles with warnings as errors, for cargo's RUSTC_WORKSPACE_WRAPPER: the crates of others keep theirs, and are not
# compiled again as with RUSTFLAGS.
exec "$@" -D warnings
