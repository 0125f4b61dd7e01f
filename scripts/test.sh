#!/usr/bin/env bash
# Install what the tests need, then lint, check types, and test; arguments go to pytest. Without
# arguments, repeat the tests that depend on the processor as on other processors.
set -euo pipefail
cd "$(dirname "$0")/.."
bash scripts/install.sh requirements-dev.txt
python=.venv/bin/python

$python -m ruff check .
$python -m ruff format --check .
$python -m mypy
# Programs that no Python package brings.
missing=""
for program in chromium chromedriver node clang-14 wasm-ld-14; do
    command -v "$program" > /dev/null || missing+=" $program"
done
[ -z "$missing" ] || echo "not here:$missing; tests of the web page that need them skip" \
    "(Debian: apt-get install chromium chromium-driver nodejs clang-14 lld-14)" >&2

command -v uv > /dev/null || echo "not here: uv; the test that uv.lock is that of pyproject.toml" \
    "skips (pip install uv)" >&2

# Many tests start Python. Where this is set, as in some images, each would compile all sources anew.
unset PYTHONDONTWRITEBYTECODE
# One thread per process: two workers on two cores, and the tests' own processes beside them.
OMP_NUM_THREADS=1 $python -m pytest -n 2 --dist worksteal "$@"
[ $# -gt 0 ] || OMP_NUM_THREADS=1 $python -m tests.support.processors
