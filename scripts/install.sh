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
pip() { .venv/bin/python -m pip --quiet --disable-pip-version-check install "$@"; }

# Without an NVIDIA GPU, torch's CPU build: pip's usual one for Linux brings gigabytes of CUDA.
torch=$(grep -h '^torch==' requirements.txt)
if [ "$(uname)" = Linux ] && ! command -v nvidia-smi > /dev/null &&
    ! .venv/bin/python -c "from importlib.metadata import version as v; exit(v('torch').split('+')[0] != '${torch#torch==}')" 2> /dev/null; then
    pip --retries 0 --timeout 20 "$torch" --index-url https://download.pytorch.org/whl/cpu 2> /dev/null ||
        echo "torch's CPU build cannot be reached; taking pip's usual torch" >&2
fi
pip -r "$1"
