"""Bandwidths by the size of what travels: small messages do not reach what large ones do."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class BandwidthTable:
    """B of a ring all-reduce, t = 2 (p - 1) / p S / B, measured for some sizes S."""

    sizes: tuple[float, ...]
    """Bytes, rising."""
    bytes_per_second: tuple[float, ...]

    def at(self, size: float) -> float:
        """Return B for `size` bytes: straight in logarithms from one measured size to the next.

        What is smaller than all of them takes as long as the smallest; what is larger than all is
        as fast as the largest.
        """
        least, slowest = self.sizes[0], self.bytes_per_second[0]
        if size < least:
            return slowest * (size / least if size > 0 else 1.0)
        known = np.log(self.sizes), np.log(self.bytes_per_second)
        return float(np.exp(np.interp(np.log(size), *known)))


Bandwidth = float | BandwidthTable


def bandwidth_at(bandwidth: Bandwidth, size: float) -> float:
    """Return the bytes per second that `size` bytes travel at."""
    return bandwidth.at(size) if isinstance(bandwidth, BandwidthTable) else bandwidth


def slowest(*bandwidths: Bandwidth) -> Bandwidth:
    """Return the one that is slowest for large sizes."""
    return min(bandwidths, key=lambda bandwidth: bandwidth_at(bandwidth, float("inf")))
