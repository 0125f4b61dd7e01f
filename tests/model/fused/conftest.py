"""Every kernel in turn."""

import pytest

from tests.model.fused.kernels import KERNELS, Kernel, skip_unless_it_runs
from tests.model.fused.tiles.emulation import emulate_tiles


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """A compiled kernel that runs here."""
    kernel = KERNELS[request.param]
    if kernel.emulated:
        emulate_tiles(monkeypatch)
    skip_unless_it_runs(kernel)
    return kernel
