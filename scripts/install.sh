#!/usr/bin/env bash
# Make .venv and install what the checkout needs; run by quickstart.sh and test.sh.
# usage: scripts/install.sh REQUIREMENTS_FILE
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
[ -x .venv/bin/python ] && PYTHON=.venv/bin/python

"$PYTHON" - <<'CHECK'
import sys
if sys.version_info < (3, 11):
    sys.exit(f"error: Python 3.11 to 3.14 is needed, this is {sys.version.split()[0]}; "
             "name another one, as in PYTHON=python3.12 bash scripts/quickstart.sh")
if sys.version_info >= (3, 15):
    print(f"warning: tested with Python 3.11 to 3.14, this is {sys.version.split()[0]}",
          file=sys.stderr)
CHECK
[ -x .venv/bin/python ] || "$PYTHON" -m venv .venv
.venv/bin/python -c 'import pip' 2> /dev/null || .venv/bin/python -m ensurepip  # uv makes .venv without it
.venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$1"
