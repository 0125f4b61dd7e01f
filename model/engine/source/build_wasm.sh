#!/bin/bash
# Compile the engine to WebAssembly: build_wasm.sh OUTPUT, with clang and wasm-ld 14
# (Debian: apt-get install clang-14 lld-14). Without contraction, as in compiling.py, so that a page
# gives the same answers, bit for bit, as the package.
set -euo pipefail
output=$(realpath "$1")
cd "$(dirname "$0")" # so that no path gets into the module
"${CLANG:-clang-14}" --target=wasm32 -msimd128 -mbulk-memory -O3 -std=gnu11 -ffreestanding -nostdlib \
    -ffp-contract=off -fno-math-errno -Wall -Wextra -Werror \
    -Wl,--no-entry -Wl,--export=__heap_base -Wl,--strip-debug -o "$output" engine.c
chmod a-x "$output"
