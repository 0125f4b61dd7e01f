"""Measure the other load of the machine during a run, and check its memory."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from model.errors import InputError

STAT, MEMORY = Path("/proc/stat"), Path("/proc/meminfo")
BYTES_OF_A_RANK = 250e6  # most of them belong to torch
COUNTED = (0, 1, 2, 7)  # columns of /proc/stat: user, nice, system, steal
USER, CHILDREN = 13, 15  # columns of /proc/PID/stat: own user and system time


@dataclass(frozen=True)
class Snapshot:
    """Ticks of the processors since the start of the machine."""

    total: int
    busy: int  # of all processes and of the host
    own: int  # of our processes

    @classmethod
    def now(cls, processes: Iterable[int]) -> "Snapshot":
        """Read the ticks; processes: our ids."""
        first, *_ = STAT.read_text().splitlines()
        ticks = [int(word) for word in first.split()[1:9]]  # user includes guests
        own = sum(map(ticks_of, processes))
        return cls(sum(ticks), sum(ticks[column] for column in COUNTED), own)

    def others_since(self, before: "Snapshot") -> float:
        """Return the part of the processors' time that others have used since then.

        Interrupts do not count, because most of them belong to the measured traffic.
        """
        total = self.total - before.total
        others = (self.busy - before.busy) - (self.own - before.own)
        return max(others, 0) / total if total else 0.0


def ticks_of(process: int) -> int:
    """Return the ticks of a process; 0 if it has ended."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0
    words = text.rpartition(")")[2].split()  # the name may contain spaces
    offset = 2  # pid and name
    return sum(int(word) for word in words[USER - offset : CHILDREN - offset])


def require_memory(ranks: int) -> None:
    """Raise InputError if the memory is too small for so many ranks."""
    lines = dict(line.split(":", 1) for line in MEMORY.read_text().splitlines())
    available = int(lines["MemAvailable"].split()[0]) * 1024
    if available < ranks * BYTES_OF_A_RANK:
        raise InputError(
            f"{ranks} ranks take {ranks * BYTES_OF_A_RANK / 1e9:.1f} GB of memory, "
            f"{available / 1e9:.1f} are free; try fewer --nodes"
        )


def facts() -> dict[str, object]:
    """Return the kernel, its congestion control and the load."""
    uname = os.uname()
    control = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    return {
        "kernel": uname.release,
        "congestion_control": control.read_text().strip() if control.exists() else None,
        "load_before": os.getloadavg(),
    }
