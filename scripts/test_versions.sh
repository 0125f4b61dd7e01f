#!/usr/bin/env bash
# Run the tests with other versions of Python and torch than the pinned ones.
# usage: scripts/test_versions.sh PYTHON:TORCH ... [-- PYTEST_ARGUMENTS]
#   scripts/test_versions.sh python3.11:2.11.0 python3.12:2.15.0
# Each pair gets an environment of its own in .versions/, and a line with the outcome at the end.
set -euo pipefail
cd "$(dirname "$0")/.."

pairs=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do pairs+=("$1"); shift; done
[ $# -gt 0 ] && shift
[ ${#pairs[@]} -gt 0 ] || { echo "error: name at least one pair, as python3.12:2.15.0" >&2; exit 2; }

mkdir -p .versions
outcomes=()
for pair in "${pairs[@]}"; do
    python=${pair%%:*} torch=${pair##*:}
    [ "$python" != "$pair" ] || { echo "error: $pair is no PYTHON:TORCH" >&2; exit 2; }
    folder=.versions/$("$python" -c 'import platform; print(platform.python_version())')-torch$torch
    [ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
    # torch brings the version of triton that it was built with. An environment of Python 3.11 begins
    # with a setuptools that is too old to build our package.
    cat requirements.txt requirements-dev.txt | grep -vE '^(torch|triton)==|^-r ' > "$folder/requirements.txt"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check \
        "torch==$torch" "setuptools>=77" -r "$folder/requirements.txt" ||
        { outcomes+=("$folder: failed, could not be installed"); continue; }
    status=0
    OMP_NUM_THREADS=1 "$folder/bin/python" -m pytest -n 2 --dist worksteal "$@" || status=$?
    outcomes+=("$folder: $([ $status = 0 ] && echo passed || echo "failed with exit code $status")")
done
printf '%s\n' "${outcomes[@]}"
! printf '%s\n' "${outcomes[@]}" | grep -q failed
