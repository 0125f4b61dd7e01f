"""The CPU cores of this process: how many it may use.

Their number follows from the process's affinity and the CPU quota of its cgroups.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress
from math import ceil, inf
from pathlib import Path
from typing import Any

ROOT = Path("/")


def usable_cores(root: Path = ROOT) -> int:
    """Return how many cores this process may use; all, if the system does not say.

    A quota of one and a half cores counts as two: one thread would leave a third of it unused.
    root: the folder that has proc and sys.
    """
    return max(1, ceil(min(affine_cores(), quota(root))))


def affine_cores() -> int:
    return len(core_numbers())


def core_numbers() -> set[int]:
    """Return the numbers of the cores that the scheduler may use for this process."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0) | bound_cores()
    return set(range(os.cpu_count() or 1))


def bound_cores() -> set[int]:
    """Return the numbers of the cores that OpenMP binds its threads to.

    Empty unless OpenMP was set to bind them. This asks torch's OpenMP, whose functions are visible
    in the whole process.

    With OMP_PROC_BIND and the like, OpenMP also binds the thread that loads it to one of the cores.
    From then on, the system reports only that core for this thread and for those that it starts.
    """
    cores: set[int] = set()
    openmp: Any = ctypes.CDLL(None) if os.name == "posix" else None
    if hasattr(openmp, "omp_get_place_proc_ids"):
        for place in range(openmp.omp_get_num_places()):
            numbers = (ctypes.c_int * openmp.omp_get_place_num_procs(place))()
            openmp.omp_get_place_proc_ids(place, numbers)
            cores.update(numbers)
    return cores


def quota(root: Path = ROOT) -> float:
    """Return the CPU quota of this process's cgroups, in cores; infinity without a limit.

    The smallest limit from its own cgroup up to the root applies. root: the folder that has proc
    and sys.
    """
    with suppress(OSError):
        return min(map(_quota_of, _cgroups(root)), default=inf)
    return inf


def _cgroups(root: Path) -> Iterator[Path]:
    """Yield the folders of every cgroup that limits this process, of both versions.

    They go from its own cgroup up to the root; a folder may be absent. In a container, proc may
    give the host's path; only its root is visible. Raises OSError if the system has no cgroups.
    """
    for line in (root / "proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)  # version 2 names no controllers
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount, top = _mount("cpu" if controllers else "", root)
        own = mount / Path(path).relative_to(top if Path(path).is_relative_to(top) else "/")
        yield own
        yield from (folder for folder in own.parents if folder.is_relative_to(mount))


def _mount(controller: str, root: Path) -> tuple[Path, str]:
    """Return where a controller's cgroups of version 1 are mounted, and the root of the mount.

    Often several controllers are mounted together, as cpu,cpuacct. controller: empty for version 2.
    """
    kind = "cgroup" if controller else "cgroup2"
    with suppress(OSError):
        for line in (root / "proc/self/mountinfo").read_text().splitlines():
            place, _, system = line.partition(" - ")
            file_system, _, options = system.split(" ", 2)
            if file_system == kind and (not controller or controller in options.split(",")):
                top, point = place.split(" ")[3:5]
                return root / point.lstrip("/"), top
    return root / "sys/fs/cgroup" / controller, "/"


def _quota_of(folder: Path) -> float:
    """Return the quota of one cgroup, of either version, in cores."""
    with suppress(OSError):
        limit, period = (folder / "cpu.max").read_text().split()
        return inf if limit == "max" else int(limit) / int(period)
    with suppress(OSError):
        limit, period = (
            (folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period")
        )
        return inf if int(limit) < 0 else int(limit) / int(period)
    return inf
