"""Cores that a process may use: by affinity, and by quotas of either version of cgroups."""

import os
from math import inf

import pytest
import torch

from model.fused import cores


@pytest.fixture
def cgroups(tmp_path):
    """Return a function that lays files of a system out under a folder, which it returns."""

    def lay(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return lay


GROUP = "sys/fs/cgroup"
V1 = {"proc/self/cgroup": "5:memory:/job\n3:cpu,cpuacct:/job\n0::/\n"}
V2 = {"proc/self/cgroup": "0::/users/job\n"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, inf, id="no cgroups"),
        pytest.param(V2 | {f"{GROUP}/users/job/cpu.max": "max 100000\n"}, inf, id="no limit"),
        pytest.param(V2 | {f"{GROUP}/users/job/cpu.max": "150000 100000\n"}, 1.5, id="own"),
        pytest.param(
            V2
            | {f"{GROUP}/users/job/cpu.max": "max 100000", f"{GROUP}/users/cpu.max": "50000 25000"},
            2.0,
            id="the group above",
        ),
        pytest.param(V2 | {f"{GROUP}/cpu.max": "300000 100000"}, 3.0, id="a container's root"),
        pytest.param(
            V1
            | {f"{GROUP}/cpu/job/cpu.cfs_{n}_us": v for n, v in (("quota", "-1"), ("period", "1"))},
            inf,
            id="version 1, no limit",
        ),
        pytest.param(
            V1
            | {
                f"{GROUP}/cpu/cpu.cfs_quota_us": "250000",
                f"{GROUP}/cpu/cpu.cfs_period_us": "100000",
            },
            2.5,
            id="version 1, a container's root",
        ),
    ],
)
def test_the_least_quota_on_the_way_to_the_root_holds(cgroups, files, expected):
    assert cores.quota(cgroups(files)) == expected


def test_a_part_of_a_core_counts_as_one_and_affinity_still_holds(monkeypatch):
    monkeypatch.setattr(cores, "affine_cores", lambda: 4)
    for allowed, usable in ((inf, 4), (8.0, 4), (2.5, 3), (0.2, 1)):
        monkeypatch.setattr(cores, "quota", lambda allowed=allowed: allowed)
        assert cores.usable_cores() == usable


def test_cores_are_counted_where_the_system_does_not_say_which_are_ours(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)  # as on macOS
    monkeypatch.setattr(cores, "quota", lambda: inf)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert cores.usable_cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores.usable_cores() == 1


@pytest.mark.parametrize(
    ("said", "before", "after"), [({}, 4, 2), ({"OMP_NUM_THREADS": "4"}, 4, 4), ({}, 3, 3)]
)
def test_torch_follows_the_quota_unless_somebody_chose(monkeypatch, said, before, after):
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(cores, "affine_cores", lambda: 4)
    monkeypatch.setattr(cores, "quota", lambda: 2.0)
    torch.set_num_threads(before)
    cores.follow_quota()
    assert torch.get_num_threads() == after
