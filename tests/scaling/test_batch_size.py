"""The largest batch: with a formula in place of a device, and once with a real one."""

import os

import pytest
import torch

from model.errors import InputError
from model.language_model import ModelConfig
from scaling.batch_size import (
    SearchedJob,
    available_bytes,
    describe,
    largest_batch,
    measured_peak,
    rate_groups,
)
from tests.support.runs import assert_refused, run
from training.optimizers.optim import OptimConfig
from training.parallel.exchange import ParallelConfig
from training.trainer import TrainConfig


def device(base, per_lane, total):
    """A memory: peaks by lanes, None beyond the total; and what was asked."""
    asked = []

    def peak_of(lanes):
        asked.append(lanes)
        peak = base + per_lane * lanes
        return peak if peak <= total else None

    return peak_of, asked


@pytest.mark.parametrize("per_lane", [1, 7, 90, 4000])
def test_the_most_lanes_that_leave_the_headroom(per_lane):
    total = 100_000
    peak_of, asked = device(1_000, per_lane, total)
    fit = largest_batch(peak_of, total, headroom=0.1, limit=4096)
    assert fit.peak_bytes <= 90_000
    assert fit.headroom >= 0.1
    most = min((90_000 - 1_000) // per_lane, 4096)
    assert most - 8 < fit.lanes <= most  # the answer is a multiple of 8
    assert len(asked) <= 12
    assert fit.measured[fit.lanes] == fit.peak_bytes


def test_memory_that_grows_faster_than_predicted_is_not_exceeded():
    def peak_of(lanes):
        return 1000 + lanes**2

    fit = largest_batch(peak_of, 50_000, headroom=0.0, limit=4096)
    assert peak_of(fit.lanes) == fit.peak_bytes <= 50_000


def test_nothing_fits():
    with pytest.raises(InputError, match="not even 8 lanes"):
        largest_batch(lambda lanes: None, 1000, headroom=0.1, limit=64)


def test_the_published_rule_uses_the_lanes_of_all_ranks():
    peak_of, _ = device(0, 1, 10**6)
    fit = largest_batch(peak_of, 10**6, headroom=0.0, limit=256)
    assert describe(fit, OptimConfig(), ranks=1, groups=1)["learning_rate"] == 1e-3
    assert describe(fit, OptimConfig(), ranks=8, groups=1)["learning_rate"] == 3e-3  # the cap
    assert describe(fit, OptimConfig(lr=0.5), ranks=8, groups=1)["learning_rate"] == 0.5
    assert describe(fit, OptimConfig(), ranks=8, groups=8)["learning_rate"] == 1e-3


def test_the_published_rule_uses_the_lanes_of_one_group_of_adasum():
    assert rate_groups(ParallelConfig(), 8) == 1
    assert rate_groups(ParallelConfig(combine="adasum"), 8) == 8
    assert rate_groups(ParallelConfig(combine="adasum"), 1) == 1


def test_the_command_refuses_ranks_that_adasum_cannot_pair_before_it_measures(tmp_path):
    (tmp_path / "run.toml").write_text('[parallel]\ncombine = "adasum"\n')
    process = run("scripts/largest_batch.py", "--config", tmp_path / "run.toml", "--ranks", 3)
    assert_refused(process, "adasum combines ranks in pairs", "processes, not 3")
    assert "lanes:" not in process.stdout


def test_the_command_trains_on_the_tokens_of_a_corpus(tmp_path, pieces):
    """Its own model has 300 tokens, so the corpus is refused, which tells that it was read."""
    (tmp_path / "run.toml").write_text("[model]\nvocabulary_size = 300\n")
    command = ("scripts/largest_batch.py", "--config", tmp_path / "run.toml")
    assert_refused(run(*command, "--corpus", pieces), "is 300, the corpus's tokenizer has 320")


MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
GROUP = "sys/fs/cgroup"
V1 = {"proc/self/cgroup": "5:memory:/job\n3:cpu,cpuacct:/job\n"}
V2 = {"proc/self/cgroup": "0::/users/job\n"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, MACHINE, id="no cgroups"),
        pytest.param(V2 | {f"{GROUP}/users/job/memory.max": "max\n"}, MACHINE, id="no limit"),
        pytest.param(V2 | {f"{GROUP}/users/job/memory.max": "65536\n"}, 65536, id="own"),
        pytest.param(
            V2 | {f"{GROUP}/users/job/memory.max": "max", f"{GROUP}/users/memory.max": "4096"},
            4096,
            id="the group above",
        ),
        pytest.param(V2 | {f"{GROUP}/memory.max": "8192"}, 8192, id="a container's root"),
        pytest.param(V2 | {f"{GROUP}/memory.max": f"{2 * MACHINE}"}, MACHINE, id="the machine"),
        pytest.param(
            V1 | {f"{GROUP}/memory/job/memory.limit_in_bytes": f"{2**63 - 4096}\n"},
            MACHINE,
            id="version 1, no limit",
        ),
        pytest.param(
            V1
            | {
                f"{GROUP}/memory/job/memory.limit_in_bytes": "16384\n",
                f"{GROUP}/memory/memory.limit_in_bytes": "32768\n",
            },
            16384,
            id="version 1, own",
        ),
        pytest.param(
            V1 | {f"{GROUP}/memory/memory.limit_in_bytes": "32768"},
            32768,
            id="version 1, a container's root",
        ),
    ],
)
def test_a_container_may_allow_less_memory_than_the_machine_has(tmp_path, files, expected):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert available_bytes(torch.device("cpu"), tmp_path) == expected


@pytest.mark.slow
def test_more_lanes_take_more_memory():
    optim = OptimConfig(cooldown_steps=300)  # of a run; a trial is shorter
    job = SearchedJob(
        ModelConfig(hidden_size=256), optim, TrainConfig(), ParallelConfig(), window=128
    )
    few, many = measured_peak(job, 8), measured_peak(job, 96)
    # h, c, W_mh h, four gates and their like in backward: at least 14 fp32 numbers a unit and byte
    assert many - few > 14 * 4 * 256 * 128 * (96 - 8) / 2


def test_the_command_refuses_nonsense():
    config = ("scripts/largest_batch.py", "--config", "configs/cpu_512.toml")
    assert_refused(run(*config, "--headroom", "1.5"), "--headroom")
    assert_refused(run(*config, "--limit", "4"), "--limit 4: it must be 8 or above")
    assert_refused(run(*config, "--ranks", "0"), "--ranks is 0; it must be at least 1")
