#!/bin/bash
# Compile mlstm.c to the module that the page carries: build.sh [OUTPUT], with clang and wasm-ld 14
# (Debian: apt-get install clang lld). The committed mlstm.wasm is what this makes.
set -euo pipefail
folder=$(cd "$(dirname "$0")" && pwd)
cd "$folder" # so that no path gets into the module
"${CLANG:-clang-14}" --target=wasm32 -msimd128 -O3 -ffreestanding -nostdlib -Wall -Wextra -Werror \
    -Wl,--no-entry -Wl,--export=__heap_base -Wl,--strip-debug -o "${1:-mlstm.wasm}" mlstm.c
chmod a-x "${1:-mlstm.wasm}"
