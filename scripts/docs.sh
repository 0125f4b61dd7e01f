#!/usr/bin/env bash
# Build the site of docs/ into build/docs; a dead link or a broken docstring ends it.
set -euo pipefail
cd "$(dirname "$0")/.."
bash scripts/install.sh requirements-docs.txt
.venv/bin/python -m sphinx --fail-on-warning --keep-going -q -c docs . build/docs
echo "open build/docs/index.html"
