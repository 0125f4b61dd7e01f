"""Cores that a process may use: by affinity, and by quotas of either version of cgroups."""

import os
import subprocess
import sys
from math import inf

import pytest
import torch

from mlstm_sentiment.engine import cores
from model.inference.weights import load_model
from model.kernels import cores as process
from model.layers.config import ModelConfig
from model.layers.language_model import LanguageModel, build_model
from tests.support.runs import ROOT
from transfer.published.imports import assemble


@pytest.fixture
def cgroups(tmp_path):
    """Return a function that writes files of a system into a folder, and returns the folder."""

    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


GROUP = "sys/fs/cgroup"
V1 = {"proc/self/cgroup": "5:memory:/job\n3:cpu,cpuacct:/job\n0::/\n"}
V2 = {"proc/self/cgroup": "0::/users/job\n"}


def limit_1(folder, quota, period="100000"):
    """The files of a limit in version 1, in microseconds."""
    files = {"quota": quota, "period": period}
    return {f"{GROUP}/{folder}/cpu.cfs_{name}_us": value for name, value in files.items()}


def mounted_together(folder, path="/job", top="/", named="cpu,cpuacct"):
    """Version 1, where the controller cpu is mounted with another one."""
    return {
        "proc/self/cgroup": f"3:{named}:{path}\n0::/\n",
        "proc/self/mountinfo": (
            "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
            f"36 31 0:32 {top} /{GROUP}/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
        ),
    } | limit_1(f"cpu,cpuacct{folder}", "250000\n")


HYBRID = {
    "proc/self/cgroup": "1:cpuset:/\n0::/job\n",
    "proc/self/mountinfo": f"41 31 0:38 / /{GROUP}/unified rw - cgroup2 cgroup2 rw,nsdelegate\n",
    f"{GROUP}/unified/job/cpu.max": "150000 100000\n",
}
ABOVE = {f"{GROUP}/users/job/cpu.max": "max 100000", f"{GROUP}/users/cpu.max": "50000 25000"}
QUOTAS = {
    "no cgroups": ({}, inf),
    "no limit": (V2 | {f"{GROUP}/users/job/cpu.max": "max 100000\n"}, inf),
    "own": (V2 | {f"{GROUP}/users/job/cpu.max": "150000 100000\n"}, 1.5),
    "the group above": (V2 | ABOVE, 2.0),
    "a container's root": (V2 | {f"{GROUP}/cpu.max": "300000 100000"}, 3.0),
    "version 1, no limit": (V1 | limit_1("cpu/job", "-1", "1"), inf),
    "version 1, a container's root": (V1 | limit_1("cpu", "250000"), 2.5),
    "version 1, with another": (mounted_together("/job"), 2.5),
    "version 1, in the other order": (mounted_together("", named="cpuacct,cpu"), 2.5),
    "version 1, a part": (mounted_together("/job", "/docker/9f/job", "/docker/9f"), 2.5),
    "version 2 next to version 1": (HYBRID, 1.5),
}


@pytest.mark.parametrize(("files", "expected"), QUOTAS.values(), ids=QUOTAS)
def test_the_least_quota_on_the_way_to_the_root_holds(cgroups, files, expected):
    assert cores.quota(cgroups(files)) == expected


@pytest.mark.parametrize(("quota", "usable"), [(inf, 4), (8.0, 4), (2.5, 3), (0.2, 1)])
def test_a_part_of_a_core_counts_as_one_and_affinity_still_holds(monkeypatch, quota, usable):
    monkeypatch.setattr(cores, "affine_cores", lambda: 4)
    monkeypatch.setattr(cores, "quota", lambda root: quota)
    assert cores.usable_cores() == usable


@pytest.mark.parametrize(("reported", "expected"), [(6, 6), (None, 1)])
def test_cores_are_counted_without_sched_getaffinity(monkeypatch, reported, expected):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)  # as on macOS
    monkeypatch.setattr(os, "cpu_count", lambda: reported)
    assert cores.affine_cores() == expected


@pytest.mark.skipif(cores.affine_cores() < 2, reason="one core is bound to anyway")
def test_a_process_that_openmp_binds_still_has_all_its_cores():
    program = (
        "import torch; from mlstm_sentiment.engine.cores import affine_cores; print(affine_cores())"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=os.environ | {"OMP_PROC_BIND": "true"},
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stdout) == (0, f"{cores.affine_cores()}\n"), run.stderr


# Of eight logical cores torch takes the four physical ones or all; one thread is fewer than may run
@pytest.mark.parametrize(
    ("said", "before", "after"),
    [
        ({}, 2, 1),
        ({}, 1, 1),
        ({}, cores.affine_cores() + 1, cores.affine_cores() + 1),  # torch would not take as many
        ({"OMP_NUM_THREADS": "2"}, 2, 2),
    ],
)
@pytest.mark.skipif(cores.affine_cores() < 2, reason="two may not run at once")
def test_torch_follows_the_quota_unless_somebody_chose(
    monkeypatch, cgroups, threads, said, before, after
):
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    system = cgroups(V2 | {f"{GROUP}/cpu.max": "100000 100000"})
    threads(before)
    process.limit_threads(system)
    assert torch.get_num_threads() == after
    threads(4)  # a program's own choice stays
    process.limit_threads(system)
    assert torch.get_num_threads() == 4


TINY = ModelConfig(hidden_size=8)


@pytest.mark.parametrize(
    ("make", "after"),
    [
        pytest.param(lambda: build_model(TINY, seed=0), 1, id="built"),
        pytest.param(lambda: load_model(ROOT / "tests/fixtures/v1/run"), 1, id="loaded"),
        pytest.param(lambda: assemble(LanguageModel(TINY).state_dict(), "ifuo"), 1, id="imported"),
        pytest.param(lambda: LanguageModel(TINY), 2, id="a module alone leaves torch as it is"),
    ],
)
@pytest.mark.skipif(cores.affine_cores() < 2, reason="two may not run at once")
def test_a_command_of_ours_that_makes_a_model_follows_the_quota(monkeypatch, threads, make, after):
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(process, "usable_cores", lambda root: 1)
    process.limit_threads.cache_clear()
    threads(2)
    monkeypatch.setattr(process, "_owned", False)
    make()
    assert torch.get_num_threads() == 2
    process.own_process()
    make()
    assert torch.get_num_threads() == after
