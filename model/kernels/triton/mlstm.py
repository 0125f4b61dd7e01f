"""The recurrence on CUDA, with its gradient."""

import logging
from contextlib import nullcontext
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...state import DTYPES, State
from ..weight_gradients import DeferredWeightGradients, Factors, weight_gradients
from ..window import Inputs, RecurrenceInput, kernel_inputs
from .graphs import graphed_forward, graphed_mlstm
from .window import Activations, in_order, run_backward, run_forward

_log = logging.getLogger(__name__)


def runs_in_triton(w_mh: Tensor) -> bool:
    """Return whether the Triton kernels can take a w_mh of this device and dtype."""
    supported = w_mh.device.type == "cuda" and w_mh.dtype in DTYPES.values()
    return supported and _launches(w_mh.device)


@cache
def _launches(device: torch.device) -> bool:
    """Try a kernel: Triton needs a C compiler at run time and a GPU that it supports."""
    if find_spec("triton") is None:
        return False
    from .kernels import launch, multiply

    x, r = torch.full((1, 5), 3.0, device=device), torch.full((1, 1), 2.0, device=device)
    m = torch.zeros_like(r)
    try:
        with torch.cuda.device(device):
            launch(multiply, m, x, None, r, m)
        return m.item() == 6.0
    except Exception as error:  # anything that Triton, a compiler or a driver raises
        _log.warning(
            "Triton does not run on %s (%s); the recurrence is slower there", device, error
        )
        return False


def triton_mlstm(window: RecurrenceInput) -> tuple[Tensor, State]:
    """Compute what `reference_mlstm` computes, where `runs_in_triton` says that it can."""
    inputs = kernel_inputs(window)
    # The tensors' device need not be the current one; autocast would cast again.
    device = inputs.x.device
    on_device = torch.cuda.device(device) if device.type == "cuda" else nullcontext()
    with on_device, torch.autocast(device.type, enabled=False):
        if inputs.want_gradient:
            deferred = window.weights.deferred
            outputs = graphed_mlstm(inputs, deferred) or _TritonMlstm.apply(deferred, *inputs)
        else:
            outputs = graphed_forward(inputs) or run_forward(inputs, save=False).ends()
    h, last_h, last_c = outputs
    return h, State(last_h, last_c)


class _TritonMlstm(torch.autograd.Function):
    """Without graphs: autograd saves the activations."""

    @staticmethod
    def forward(
        ctx: Any, deferred: DeferredWeightGradients | None, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        inputs = Inputs(*tensors)
        activations = run_forward(inputs, save=True)
        ctx.deferred = deferred
        ctx.save_for_backward(*inputs, *activations)
        return activations.ends()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        size = len(Inputs._fields)
        inputs, activations = Inputs(*saved[:size]), Activations(*saved[size:])
        dh, dh_last, dc_last = (grad.contiguous() for grad in grads)
        *gradients, dz, m, d_r, h, h0 = run_backward(inputs, activations, dh, dh_last, dc_last)
        of_weights = weight_gradients(Factors(dz, m, d_r, h, h0), ctx.deferred)
        return None, *in_order(gradients, *of_weights)
