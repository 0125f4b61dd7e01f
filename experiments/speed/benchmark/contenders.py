"""The implementations that are timed: ours, and those that others would use instead."""

from collections.abc import Callable
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from model.kernels.triton.graphs import Graphs, InferenceGraphs, captured_by
from model.kernels.window import RecurrenceInput, RecurrentWeights
from model.layers.config import Backend
from model.layers.recurrence import recur
from model.state import State, accumulation_dtype

from .problem import Problem

Forward = Callable[[], Tensor]
Result = TypeVar("Result")


def zero_state(problem: Problem) -> State:
    """Return h and c [B, H]."""
    s = problem.shape
    h = torch.zeros(s.B, s.H, dtype=s.dtype, device=s.device)
    return State(h, h.to(accumulation_dtype(s.dtype)))


def recurrent_weights(problem: Problem) -> RecurrentWeights:
    """Return the weights that every byte is multiplied by."""
    return RecurrentWeights(problem.w_mh, problem.w_h, problem.b)


def from_table(problem: Problem) -> Forward:
    """Ours as the language model's first layer runs it: each token projected once."""
    state, weights = zero_state(problem), recurrent_weights(problem)

    def forward() -> Tensor:
        table = F.linear(problem.embedding, problem.w_x)
        return recur("auto", RecurrenceInput(table, state, weights, problem.tokens))[0]

    return forward


def from_inputs(problem: Problem, backend: Backend = "auto") -> Forward:
    """Ours as a deeper layer runs it: every byte's input projected."""
    state, weights = zero_state(problem), recurrent_weights(problem)

    def forward() -> Tensor:
        x = F.embedding(problem.tokens, problem.embedding)
        return recur(backend, RecurrenceInput(x, state, weights, w_x=problem.w_x))[0]

    return forward


def captured_alone(work: Callable[[], Result], device: torch.device) -> Callable[[], Result]:
    """Give work its own CUDA graphs on a GPU, since other work has other sizes."""
    if device.type != "cuda":
        return work
    graphs, inference = Graphs(), InferenceGraphs()

    def captured() -> Result:
        with captured_by(graphs, inference):
            return work()

    captured()  # a window without a gradient is captured only when its size recurs
    return captured


def reference(problem: Problem) -> Forward:
    """The definition under autograd."""
    return from_inputs(problem, "reference")


def loop_2018(problem: Problem) -> Forward:
    """The per-byte loop of 2018; a copy, so that changes to the reference do not change it.

    Four products per byte, each with its own autograd node and full weight gradient, everything in
    the compute dtype, as in the code that accompanies Puri et al. 2018.
    """
    H = problem.shape.H
    bias = problem.b.to(problem.shape.dtype)
    h0, c0 = (tensor.to(problem.shape.dtype) for tensor in zero_state(problem).tensors().values())

    def forward() -> Tensor:
        x = F.embedding(problem.tokens, problem.embedding)
        w_mx, w_x = problem.w_x[:H], problem.w_x[H:]
        h, c, outputs = h0, c0, []
        for x_t in x:
            m = F.linear(x_t, w_mx) * F.linear(h, problem.w_mh)
            gates = F.linear(x_t, w_x) + F.linear(m, problem.w_h) + bias
            i, f, u, o = gates.chunk(4, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(u)
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs.append(h)
        return torch.stack(outputs)

    return forward


def compiled_step(problem: Problem) -> Forward:
    """The definition with one step under torch.compile."""
    from model.cell import mlstm_step

    step = torch.compile(mlstm_step)
    state0 = zero_state(problem)

    def forward() -> Tensor:
        x_proj = F.linear(F.embedding(problem.tokens, problem.embedding), problem.w_x)
        state, outputs = state0, []
        for x_proj_t in x_proj:
            state = step(x_proj_t, state, problem.w_mh, problem.w_h, problem.b)
            outputs.append(state.h)
        return torch.stack(outputs)

    return forward


def nn_lstm(problem: Problem) -> tuple[Forward, tuple[Tensor, ...]]:
    """torch's LSTM of the same size, and its parameters."""
    s = problem.shape
    lstm = torch.nn.LSTM(s.E, s.H).to(s.device, s.dtype)

    def forward() -> Tensor:
        return lstm(F.embedding(problem.tokens, problem.embedding))[0]

    return forward, (problem.embedding, *lstm.parameters())


def training(
    forward: Forward, parameters: tuple[Tensor, ...], dh: Tensor
) -> Callable[[], tuple[Tensor, ...]]:
    """Forward and backward, with all gradients computed again."""

    def work() -> tuple[Tensor, ...]:
        return torch.autograd.grad(forward(), parameters, dh)

    return work


def inference(forward: Forward) -> Forward:
    """Forward alone, nothing kept for a gradient."""

    def work() -> Tensor:
        with torch.inference_mode():
            return forward()

    return work
