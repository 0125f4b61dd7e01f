#!/usr/bin/env bash
# Install what the tests need, then lint, check types, and test; arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
bash scripts/install.sh requirements-dev.txt
python=.venv/bin/python

$python -m ruff check .
$python -m ruff format --check .
$python -m mypy
# One thread per process: two workers on two cores, and the tests' own processes beside them.
OMP_NUM_THREADS=1 $python -m pytest -n 2 --dist worksteal "$@"
