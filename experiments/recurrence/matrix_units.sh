#!/usr/bin/env bash
# What only a processor with matrix units (AMX) can show, in one call of some ten minutes: inputs
# inside the window or before it, the recurrence against its floors, a step and its parts, old
# checkouts against this one by turns, and the whole suite of tests. What tells most comes first.
# A check that fails, or takes longer than its share, ends none of the others.
# usage: bash experiments/recurrence/matrix_units.sh FOLDER [OLD_CHECKOUT ...]
# environment: PYTHON (python3), CORES (0,1: the two that are measured), UNITS ("1024 512"),
#   WORKERS (0: no tests; else so many processes run them, on all cores, at the end),
#   PATIENCE (1: how many times as long as its share a check may take),
#   ROUNDS (7: of checkouts by turns)
# exit code: 0, 1 where a check failed, 2 without a folder or where a checkout is not there
set -uo pipefail
[ $# -ge 1 ] || { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$(realpath -m "$1")
shift
old=()
for checkout in "$@"; do old+=("$(realpath -e "$checkout")") || exit 2; done
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
export CUDA_VISIBLE_DEVICES= PYTHONUNBUFFERED=1 # a GPU in the machine would be chosen instead
mkdir -p "$folder" || exit 2
failed=0

check() { # SECONDS NAME COMMAND...
    local most=$(($1 * ${PATIENCE:-1})) name=$2 begin=$SECONDS code
    shift 2
    timeout --kill-after 5 "$most" "$@" > "$folder/$name.log" 2>&1 < /dev/null
    code=$?
    [ "$code" = 0 ] || failed=1
    echo "$name: exit code $code, $((SECONDS - begin)) s; $(tail -n 1 "$folder/$name.log" | cut -c1-120)"
}
measure() { # as check, on the measured cores, with a JSON file of that name
    local most=$1 name=$2
    shift 2
    check "$most" "$name" env OMP_NUM_THREADS=2 taskset -c "${CORES:-0,1}" "$python" "$@" \
        --output "$folder/$name.json"
}

units=${UNITS:-1024 512}
window=(--batch 128 --window 128 --dtype bf16 --threads 2)
measure 150 amx_projecting -m experiments.recurrence.projecting --rounds 5 \
    --inputs 64 128 256 512 1024 2048
measure 60 amx_projecting_8_lanes -m experiments.recurrence.projecting --rounds 9 --lanes 8
for H in $units; do
    measure 60 "amx_training_$H" scripts/benchmark.py recurrence --hidden-size "$H" "${window[@]}" \
        --skip loop_2018 reference
    measure 40 "amx_parts_$H" scripts/benchmark.py step --hidden-size "$H" "${window[@]}" \
        --optimizer muon --parts
done
for piece in step recurrence inference; do
    for H in $units; do
        [ ${#old[@]} -eq 0 ] || measure 60 "amx_turns_${piece}_$H" \
            -m experiments.recurrence.turns "${old[@]}" . --piece "$piece" --hidden-size "$H" \
            --rounds "${ROUNDS:-7}"
    done
done
for H in $units; do
    measure 40 "amx_inference_$H" scripts/benchmark.py recurrence --hidden-size "$H" \
        "${window[@]}" --inference --skip loop_2018 reference
done
[ "${WORKERS:-0}" = 0 ] || check 300 tests env OMP_NUM_THREADS=1 "$python" -m pytest -q \
    -n "$WORKERS" -W default -p no:cacheprovider
exit "$failed"
