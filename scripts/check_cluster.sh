#!/usr/bin/env bash
# Run train.sbatch in a real Slurm of two nodes, and the recipe of docs/cluster.md in Spark, Dask and
# Ray with two workers each, all on this machine. What is missing is installed where that is
# possible (Slurm and Java by apt-get, as root; the engines by pip, in a folder that is removed).
# usage: bash scripts/check_cluster.sh [slurm|spark|dask|ray ...]     (default: all; a quarter of an hour)
# environment: PYTHON, as of scripts/elastic.sh; CHECK_ENGINES, a folder with the engines' packages
# output: a line for each case: "ok", "FAILED" or "not run", and what was seen
# exit code: 0, or 1 if a case failed
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
export PYTHON=${PYTHON:-$([ -e .venv/bin/python ] && echo "$PWD/.venv/bin/python" || echo python)}
export OMP_NUM_THREADS=1 PYSPARK_PYTHON=$PYTHON
work=$(mktemp -d)
failed=0
trap 'kill $(cat "$work"/*.pid 2> /dev/null) 2> /dev/null; sleep 2; rm -rf "$work"' EXIT

report() { # CASE EXPECTED SEEN: a pattern of grep -E, and a text
    if grep -qE "$2" <<< "$3"; then echo "ok      $1: $(tr '\n' ' ' <<< "$3")"; else
        failed=1
        echo "FAILED  $1: $(tr '\n' ' ' <<< "$3"), expected $2"
    fi
}

install_by_apt() { # COMMAND PACKAGES: 1 if the command is missing and cannot be installed
    command -v "$1" > /dev/null && return
    [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null || return 1
    { apt-get update && apt-get install -y --no-install-recommends "${@:2}"; } > "$work/apt" 2>&1
    command -v "$1" > /dev/null
}

# ---- Slurm

node() { # NUMBER: start it
    slurmd -N "n$1"
    for wait in $(seq 90); do
        sleep 1
        [ "$(sinfo -h -n "n$1" -o %t -p low)" != idle ] || return 0
        if [ "$wait" = 30 ]; then # it may still wait for the end of a lost job
            scontrol update NodeName="n$1" State=DOWN Reason=check
            scontrol update NodeName="n$1" State=RESUME
        fi
    done
}

start_slurm() {
    mkdir -p "$work"/{state,log,runs}
    chmod 755 "$work"
    head -c 128 /dev/urandom > "$work/key"
    chmod 600 "$work/key"
    touch "$work"/fake{0,1}
    mkdir -m 755 "$work/munge"
    munged --force --key-file="$work/key" --socket="$work/munge/socket" --num-threads=2 \
        --pid-file="$work/munged.pid" --log-file="$work/log/munged" --seed-file="$work/seed" ||
        return 1
    local port=$((20000 + RANDOM % 5000)) host
    host=$(hostname)
    export SLURM_CONF=$work/slurm.conf
    cat > "$SLURM_CONF" << END
ClusterName=check
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool-%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/%n.pid
SlurmctldLogFile=$work/log/slurmctld
SlurmdLogFile=$work/log/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=2,sched_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=60
SlurmdTimeout=20
ReturnToService=2
GresTypes=gpu
NodeName=n0 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=2 RealMemory=1000 Gres=gpu:1
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=2 RealMemory=1000 Gres=gpu:1
PartitionName=low Nodes=n0,n1 Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=60
PartitionName=high Nodes=n0,n1 PriorityTier=10 PreemptMode=OFF
END
    printf 'NodeName=n%s Name=gpu File=%s\n' 0 "$work/fake0" 1 "$work/fake1" > "$work/gres.conf"
    slurmctld || return 1
    sleep 2
    node 0 && node 1
}

submit() { # NAME STEPS SBATCH_OPTIONS...: sets $job; returns when it trains
    name=$1
    job=$(sbatch --parsable --gpus-per-node 1 --cpus-per-task 1 --output "$work/$name.log" "${@:3}" \
        scripts/slurm/train.sbatch --run-dir "$work/runs/$name" --train.device cpu \
        --data.corpus tests/fixtures/v1/corpus --model.hidden_size 16 --data.lanes 8 \
        --data.window 16 --train.precision fp32 --train.steps "$2" --train.timeout_seconds 20 \
        --checkpoint.every_steps 300 --evaluate.every_steps 100000)
    until_seen 240 "$work/$name.log" '^\[rank0\]:step '
}

until_seen() { # SECONDS FILE PATTERN
    for _ in $(seq "$1"); do
        grep -qsE "$3" "$2" && return
        sleep 1
    done
}

until_ended() { # SECONDS STATES: sets $shown, what Slurm says about $job, once it has none of them
    for _ in $(seq "$1"); do
        shown=$(scontrol show job -o "$job" 2> /dev/null)
        grep -qE "JobState=($2) " <<< "$shown" || break
        sleep 1
    done
}

outcome() { # what became of $job: saved or not, its state, restarts and exit code
    local fields=(JobState Restarts ExitCode) field shown
    until_ended "${1:-90}" 'RUNNING|COMPLETING'
    grep -oE 'saved at step [0-9]+' "$work/$name.log" | tail -n 1
    for field in "${fields[@]}"; do grep -oE " $field=[^ ]*" <<< "$shown"; done
    scancel --quiet "$job" 2> /dev/null
    rm -rf "slurm-$job"
}

lose() { # NUMBER: end all that runs on a node, as if it had lost its power
    local process gone
    gone=("$(cat "$work/n$1.pid")")
    for process in $(pgrep -f 'slurmstepd: \['); do
        ! find "/proc/$process/fd" -lname "$work/log/n$1" 2> /dev/null | grep -q . ||
            gone+=("$process")
    done
    for process in $(grep -lzE "^SLURM_JOB_ID=$job$" /proc/[0-9]*/environ 2> /dev/null); do
        ! grep -qzsE "^SLURMD_NODENAME=n$1$" "$process" || gone+=("$(cut -d / -f 3 <<< "$process")")
    done
    kill -STOP "${gone[@]}" 2> /dev/null # all at once: srun's helper would end the step for it
    kill -KILL "${gone[@]}" 2> /dev/null
}

check_slurm() {
    if ! install_by_apt slurmctld slurm-wlm munge || [ "$(id -u)" != 0 ]; then
        echo "slurm: not run: it needs root, and slurmctld, or apt-get to install it"
        return
    fi
    start_slurm || {
        report "slurm" started "it does not start: $(tail -n 3 "$work"/log/slurmctld 2>&1)"
        return
    }
    local requeued='saved.* JobState=PENDING Restarts=1 ' long=1000000

    submit usr1 $long --time 3 --signal=B:USR1@120
    report "USR1 before the limit" "$requeued" "$(outcome | tr -s '\n ' ' ')"
    submit script $long
    scancel --batch --signal=TERM "$job"
    report "TERM to the script" "$requeued" "$(outcome | tr -s '\n ' ' ')"
    submit step $long
    scancel --signal=TERM "$job.0"
    report "TERM to the step" "$requeued" "$(outcome | tr -s '\n ' ' ')"
    submit cancelled $long
    scancel "$job"
    report "scancel" 'saved.* JobState=CANCELLED' "$(outcome | tr -s '\n ' ' ')"
    submit forbidden $long --no-requeue
    scancel --batch --signal=TERM "$job"
    report "TERM without permission to requeue" 'saved.* JobState=FAILED .*ExitCode=75:0' \
        "$(outcome | tr -s '\n ' ' ')"
    report "... says so" 'submit it again' "$(grep '^error' "$work/forbidden.log")"
    submit short 5
    report "a run worse than unigrams" 'JobState=FAILED .*ExitCode=3:0' "$(outcome | tr -s '\n ' ' ')"

    local other
    submit preempted $long --nodes 2
    other=$(sbatch --parsable -p high --nodes 2 --exclusive -o /dev/null --wrap 'sleep 5')
    until_seen 60 "$work/preempted.log" 'saved at step'
    sleep 5
    report "preemption" "$requeued" "$(outcome | tr -s '\n ' ' ')"
    scancel "$other"

    submit second 1500 --nodes 2
    lose 1
    report "the second node disappears" 'JobState=COMPLETED .*Restarts=0 .*ExitCode=0:0' \
        "$(outcome 400 | tr -s '\n ' ' ')"
    node 1
    submit first 1500 --nodes 2
    until_seen 240 "$work/first.log" '^\[rank0\]:step +[4-9]00'
    lose 0
    until_ended 150 'RUNNING|COMPLETING'
    report "the first node disappears" 'JobState=PENDING .*Restarts=1' \
        "$(scontrol show job -o "$job" | grep -oE ' (JobState|Restarts)=[^ ]*' | tr -s '\n ' ' ')"
    node 0
    scontrol reconfigure # Slurm 22.05 loses count of the GPUs of such a job
    until_ended 900 'PENDING|RUNNING|COMPLETING' # Slurm starts a requeued job after two minutes
    report "... and the job continues" 'JobState=COMPLETED .*ExitCode=0:0 .*from step [1-9]' \
        "$(outcome | tr -s '\n ' ' ') $(grep -oE 'from step [0-9,]+' "$work/first.log" | tail -n 1)"
}

# ---- engines

check_engine() { # spark|dask|ray PACKAGES...
    local engine=$1 packages=${CHECK_ENGINES:-$work/$1}
    shift
    if [ "$engine" = spark ] && ! install_by_apt java default-jre-headless; then
        echo "spark: not run: it needs java, or root and apt-get to install it"
        return
    fi
    if [ ! -d "$packages" ] &&
        ! "$PYTHON" -m pip install -q --target "$packages" "$@" > "$work/pip" 2>&1; then
        echo "$engine: not run: pip cannot install $*"
        return
    fi
    report "$engine" ' 600 rows, equal to those of one process' \
        "$(PYTHONPATH="$PWD:$work:$packages${PYTHONPATH:+:$PYTHONPATH}" "$PYTHON" -c "$ENGINE_CHECK" \
            "$engine" "$work" docs/cluster.md 2> "$work/errors" | tail -n 1 || grep -E "Error|Exception" "$work/errors" | tail -n 3)"
}

# The page's own calls on six files of 100 rows, some of them without a text. The worker that gets
# the first row is killed once.
ENGINE_CHECK='
import os, re, sys
import numpy as np
import pandas as pd

engine, folder, page = sys.argv[1], sys.argv[2], open(sys.argv[3]).read()
recipe = re.search(r"Save this as `labelling.py`:\n\n```python\n(.*?)```", page, re.DOTALL)[1]
os.chdir(folder)
killed = os.path.abspath("killed")
open("labelling.py", "w").write(recipe.replace("\"default\"", "\"default_small\"") + f"""

answers_for = labelled


def labelled(batch):
    import os, signal

    if (batch["id"] == 0).any() and not os.path.exists({killed!r}):
        open({killed!r}, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return answers_for(batch)
""")
os.makedirs("reviews", exist_ok=True)
kinds = ["I love it, number {}.", None, "", "It broke.\nTwice, on day {}.", "A box of {}."]
texts = [text and text.format(n) for n, text in enumerate(kinds * 120)]
whole = pd.DataFrame({"id": range(600), "text": pd.Series(texts, dtype=object)})
for first in range(0, 600, 100):
    whole[first : first + 100].to_parquet(f"reviews/{first:03}.parquet", index=False)
if engine == "spark":
    from pyspark import __version__
    from pyspark.sql import SparkSession
    spark = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", False).getOrCreate()
    collect = lambda rows: rows.toPandas()
elif engine == "dask":
    import dask.dataframe
    from dask import __version__
    from distributed import Client
if __name__ == "__main__":
    if engine == "dask":
        client = Client(n_workers=2, threads_per_worker=1, dashboard_address=None)
        collect = lambda rows: rows.compute()
    if engine == "ray":
        import ray, ray.data
        from ray import __version__
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        collect = lambda rows: rows.to_pandas()
    from labelling import TYPES, labelled
    cell = re.search(rf"^\| {engine}[^|]*\|(.*)\|$", page, re.MULTILINE | re.IGNORECASE)[1]
    *statements, call = re.findall(r"`([^`]+)`", cell)
    for statement in statements:
        exec(statement)
    table = collect(eval(call)).sort_values("id")
    assert os.path.exists(killed)
    expected = labelled(whole)
    assert list(table["id"]) == list(expected["id"]), table
    both = [np.asarray(each["probability"], float) for each in (table, expected)]
    np.testing.assert_allclose(*both, rtol=0, atol=1e-6)
    for name in ("text", "unsure"):
        pairs = zip(table[name], expected[name])
        assert all((pd.isna(one) and pd.isna(two)) or one == two for one, two in pairs), name
    print(
        f"{engine} {__version__}, pandas {pd.__version__}, one worker killed: 600 rows, equal to "
        "those of one process"
    )
'

[ $# -gt 0 ] || set -- slurm spark dask ray
for tool in "$@"; do
    case $tool in
        slurm) check_slurm ;;
        spark) check_engine spark 'pyspark>=4' ;;
        dask) check_engine dask 'dask[dataframe]' distributed ;;
        ray) check_engine ray 'ray[data]' ;;
        *)
            echo "error: $tool: give slurm, spark, dask or ray" >&2
            exit 2
            ;;
    esac
done
exit "$failed"
