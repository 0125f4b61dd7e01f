"""What else the machine does while something is measured on it, and whether it is large enough."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from model.errors import InputError

STAT, MEMORY = Path("/proc/stat"), Path("/proc/meminfo")
BYTES_OF_A_RANK = 250e6  # torch takes most of it
COUNTED = (0, 1, 2, 7)  # user, nice, system, steal: the work of others is among them
USER, CHILDREN = 13, 15  # columns of /proc/PID/stat: own user and system time


@dataclass(frozen=True)
class Snapshot:
    """Ticks of the processors so far."""

    total: int
    busy: int  # with processes, or taken by the host
    own: int  # of these, with ours

    @classmethod
    def now(cls, processes: Iterable[int]) -> "Snapshot":
        """Take one; processes: ids of ours."""
        first, *_ = STAT.read_text().splitlines()
        ticks = [int(word) for word in first.split()[1:9]]  # guests are in user already
        own = sum(map(ticks_of, processes))
        return cls(sum(ticks), sum(ticks[column] for column in COUNTED), own)

    def others_since(self, before: "Snapshot") -> float:
        """Return the part of all processors' time that went to others since then.

        Interrupts are not counted: most of them are the traffic that is measured.
        """
        total = self.total - before.total
        others = (self.busy - before.busy) - (self.own - before.own)
        return max(others, 0) / total if total else 0.0


def ticks_of(process: int) -> int:
    """Return the processor time of a process, 0 where it is gone."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0
    words = text.rpartition(")")[2].split()  # its name may hold anything
    offset = 2  # pid and name
    return sum(int(word) for word in words[USER - offset : CHILDREN - offset])


def require_memory(ranks: int) -> None:
    """Raise InputError where so many ranks would not fit."""
    lines = dict(line.split(":", 1) for line in MEMORY.read_text().splitlines())
    available = int(lines["MemAvailable"].split()[0]) * 1024
    if available < ranks * BYTES_OF_A_RANK:
        raise InputError(
            f"{ranks} ranks take {ranks * BYTES_OF_A_RANK / 1e9:.1f} GB of memory, "
            f"{available / 1e9:.1f} are free; try fewer --nodes"
        )


def facts() -> dict[str, object]:
    """Return what is worth knowing of the machine."""
    uname = os.uname()
    control = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    return {
        "kernel": uname.release,
        "congestion_control": control.read_text().strip() if control.exists() else None,
        "load_before": os.getloadavg(),
    }
