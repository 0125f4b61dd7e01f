"""Each compiled kernel, and the number of threads."""

import sys
from collections.abc import Callable, Iterator

import pytest
import torch

from tests.model.kernels.amx.emulation import emulate_tiles
from tests.model.kernels.compiled import KERNELS, Kernel, skip_unless_it_runs


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """A compiled kernel that runs here."""
    kernel = KERNELS[request.param]
    if kernel.emulated:
        emulate_tiles(monkeypatch)
    skip_unless_it_runs(kernel)
    return kernel


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Return a function that sets the number of torch's threads; restore it afterwards."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Switch between threads as often as Python can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)
