"""The next step reuses the memory of a step, block by block."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import grad

from model.kernels.memory_pool import SMALLEST, MemoryPool
from model.kernels.window import linear_into_pooled_buffer
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from tests.model.kernels.amx.emulation import emulate_tiles
from tests.model.layers.windows import EPS, error


class CountingPool(MemoryPool):
    """A pool that counts the blocks which were not there."""

    new = 0

    def allocate(self, size):
        idle = {block.data_ptr() for block in self.idle}
        block = super().allocate(size)
        self.new += block.data_ptr() not in idle
        return block


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("tiles", [False, True])
def test_later_steps_map_nothing_new(tiles, dtype, layers, monkeypatch, recycle_into):
    if tiles:
        emulate_tiles(monkeypatch)
    pool = recycle_into(CountingPool(smallest=1 << 10))
    model = build_model(ModelConfig(hidden_size=64, layers=layers), seed=0, compute_dtype=dtype)
    tokens = torch.randint(0, 256, (16, 33), generator=torch.Generator().manual_seed(0))
    for step in range(6):
        if step == 3:
            pool.new = 0
        nats, _ = model.loss(tokens[:, :-1], tokens[:, 1:], model.initial_state(16))
        nats.backward()
        model.zero_grad()
    assert pool.new == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_product_into_kept_memory_is_linear(dtype):
    generator = torch.Generator().manual_seed(0)
    x, w, d = (
        torch.randn(shape, generator=generator).to(dtype)
        for shape in ((6, 5, 40), (300, 40), (6, 5, 300))
    )
    inputs = [x.requires_grad_(), w.requires_grad_()]
    twins = [tensor.detach().double().requires_grad_() for tensor in inputs]
    expected = F.linear(*twins)
    product = linear_into_pooled_buffer(*inputs)
    for actual, exact in (
        (product, expected),
        *zip(grad(product, inputs, d), grad(expected, twins, d.double()), strict=True),
    ):
        assert error(actual, exact) <= EPS[dtype] + EPS[torch.float32] * 300**0.5
    with torch.no_grad():
        assert torch.equal(linear_into_pooled_buffer(x, w), product)
    assert linear_into_pooled_buffer(x.double(), w.double()).dtype == torch.float64


@pytest.fixture
def pool():
    return MemoryPool()


def test_memory_is_reused_only_when_nothing_refers_to_it_and_counts_only_if_it_was_had(pool):
    size = SMALLEST
    first = pool.empty(size, dtype=torch.uint8)
    address, view = first.data_ptr(), first[10:20]
    del first
    other = pool.empty(size, dtype=torch.uint8)
    assert other.data_ptr() != address
    del view
    again = pool.empty(size // 8, 2, dtype=torch.float32)  # another shape and dtype
    assert again.data_ptr() == address
    assert again.shape == (size // 8, 2)
    pool = MemoryPool()
    with pytest.raises(RuntimeError, match="memory"):
        pool.allocate(1 << 60)  # more than any machine has
    assert (pool.used, pool.most_used) == (0, 0)
    pool.release(pool.allocate(SMALLEST))
    assert (pool.used, pool.most_used) == (0, SMALLEST)


def test_idle_memory_is_little_more_than_was_used_and_none_that_is_much_too_large_is_reused(pool):
    size = SMALLEST
    held = [pool.empty(size, dtype=torch.uint8) for _ in range(5)]
    del held
    assert [block.numel() for block in pool.idle] == [size] * 5
    pool.empty(3 * size, dtype=torch.uint8)  # too large for what is idle; given back at once
    assert sum(block.numel() for block in pool.idle) == 6 * size  # at most 1.25 times 5 sizes
    assert pool.used == 0
    pool.idle = [torch.empty(5 * SMALLEST, dtype=torch.uint8)]
    tensor = pool.empty(2 * SMALLEST, dtype=torch.uint8)
    assert tensor.untyped_storage().nbytes() == 2 * SMALLEST


@pytest.mark.usefixtures("frequent_switches")
def test_threads_never_share_memory(pool):
    def intact(mark):
        for _ in range(300):
            mine = pool.empty(SMALLEST, dtype=torch.uint8)
            mine[:4] = mark
            time.sleep(0)
            if not (mine[:4] == mark).all():
                return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(intact, range(4)))
