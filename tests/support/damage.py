"""Hypothesis strategies that damage files as disks, killed processes and people do."""

import torch
from hypothesis import strategies as st
from safetensors.torch import load, save

HEADER = 400  # bytes of a safetensors file that surely say names, dtypes and shapes
DTYPES = (torch.int8, torch.int64, torch.float16, torch.float64, torch.bool, torch.complex64)


def damaged_bytes(content):
    """Return a strategy for files that were `content`: cut, and written over, into or out of."""
    places = st.integers(0, len(content)) | st.integers(0, min(len(content), HEADER))
    few = st.binary(min_size=1, max_size=9)
    return st.one_of(
        places.map(lambda end: content[:end]),
        st.tuples(places, few).map(lambda c: content[: c[0]] + c[1] + content[c[0] + len(c[1]) :]),
        st.tuples(places, few).map(lambda c: content[: c[0]] + c[1] + content[c[0] :]),
        st.tuples(places, places).map(lambda c: content[: min(c)] + content[max(c) :]),
    )


@st.composite
def damaged_tensors(draw, content):
    """Return safetensors that lack one of `content`, or have it under another name, shape, dtype.

    What is returned never fits what `content` fitted.
    """
    tensors = load(content)
    name = draw(st.sampled_from(sorted(tensors)))
    tensor = tensors.pop(name)
    dtype = draw(st.sampled_from([other for other in DTYPES if other != tensor.dtype]))
    changed = {
        "absent": {},
        "renamed": {draw(st.sampled_from([f"{name}x", f"x.{name}", f"{name}.step"])): tensor},
        "of another rank": {name: tensor.unsqueeze(0)},
        "longer": {name: tensor.new_ones((*tensor.shape[:-1], 77))},
        "empty": {name: tensor.new_empty(0)},
        "of another dtype": {name: torch.ones(tensor.shape, dtype=dtype)},
    }
    return save(tensors | changed[draw(st.sampled_from(sorted(changed)))])
