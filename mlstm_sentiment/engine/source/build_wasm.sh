#!/bin/bash
# Compile the engine to WebAssembly, as the page carries it: build_wasm.sh [OUTPUT], with clang and
# wasm-ld 14 (Debian: apt-get install clang-14 lld-14). The committed module is what this makes.
# Without contraction, as in sources.py, so that a page gives the same answers, bit for bit, as the
# package.
set -euo pipefail
folder=$(cd "$(dirname "$0")" && pwd)
output=$(realpath -m "${1:-$folder/../../demo/engine.wasm}")
digest=$("${PYTHON:-python3}" "$folder/../sources.py")
cd "$folder" # so that no path gets into the module
"${CLANG:-clang-14}" --target=wasm32 -msimd128 -mbulk-memory -Os -std=gnu11 -ffreestanding -nostdlib \
    -ffp-contract=off -fno-math-errno -Wall -Wextra -Werror -DSOURCES="\"$digest\"" \
    -Wl,--no-entry -Wl,--export=__heap_base -Wl,--strip-debug -o "$output" engine.c
chmod a-x "$output"
