"""A product in fp32 as several products of bf16 parts."""

import pytest
import torch

from experiments.recurrence.split_bf16 import relative, split, split_product


def test_three_parts_are_the_whole_number():
    values = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    parts = split(values)
    assert all(torch.equal(part, part.bfloat16().float()) for part in parts)
    assert torch.equal(parts[0] + (parts[1] + parts[2]), values)


@pytest.mark.parametrize(("products", "bits"), [(1, 8), (2, 8), (3, 16), (6, 22)])
def test_each_part_brings_eight_bits(products, bits):
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(n, 64, generator=generator) for n in (16, 32))
    error = relative(split_product(a, b, products), a.double() @ b.double().t())
    assert 2.0 ** -(bits + 4) < error < 2.0**-bits
