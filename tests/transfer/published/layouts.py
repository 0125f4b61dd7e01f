"""Weights laid out as OpenAI and NVIDIA published them, from one matrix per gate.

None of our code is used: a model is a dictionary of float64 matrices [in, out] as numpy_mlstm.py
has them, its states are what that file computes, and a layout stacks the gates by their letters.
"""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import torch

from tests.model.layers import numpy_mlstm


@dataclass
class Language:
    """A model as mathematics: weight norm applied, one matrix per gate."""

    embedding: np.ndarray  # [256, E]
    layers: list[dict[str, np.ndarray]]
    w: np.ndarray  # [H, 256]
    b: np.ndarray  # [256]

    def read(self, data):
        """Return the last layer's h and c [n, H] and the logits [n, 256] after each byte."""
        xs = [self.embedding[[byte]] for byte in data]
        for matrices in self.layers:
            zero = np.zeros((1, len(matrices["Wmh"])))
            xs, cs = numpy_mlstm.run(xs, zero, zero, matrices)
        h = np.concatenate(xs)
        return h, np.concatenate(cs), h @ self.w + self.b


def draw(E=6, H=10, layers=1, seed=0):
    """A random model, large enough to distinguish gates, too small to magnify rounding."""
    rng = np.random.default_rng(seed)
    stack = []
    for width in [E] + [H] * (layers - 1):
        shapes = {"Wmx": (width, H), "Wmh": (H, H)}
        for gate in "ifou":
            shapes |= {f"W{gate}x": (width, H), f"W{gate}m": (H, H), f"b{gate}": (H,)}
        stack.append({name: rng.normal(scale=0.5, size=shape) for name, shape in shapes.items()})
    return Language(
        rng.normal(size=(256, E)), stack, rng.normal(size=(H, 256)), rng.normal(size=256)
    )


def from_model(model):
    """Take one of our models apart."""
    state = {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}
    return Language(
        state["embedding.weight"],
        [numpy_mlstm.matrices_of(layer) for layer in model.layers],
        state["decoder.weight"].T,
        state["decoder.bias"],
    )


def stacked(matrices, part, order):
    """One part of every gate, side by side: [in, 4H] or [4H]."""
    names = [f"b{gate}" if part == "b" else f"W{gate}{part}" for gate in order]
    return np.concatenate([matrices[name] for name in names], axis=-1)


def unfold(w, seed=1):
    """Return v and g whose weight norm, per column, is w [in, out]."""
    scale = np.random.default_rng(seed).uniform(0.5, 2, w.shape[1])
    return w * scale, np.sqrt((w**2).sum(axis=0))


def openai_arrays(language, blocks=4):
    """The arrays in the order of their numbers."""
    (matrices,) = language.layers
    w = {name: stacked(matrices, name[1], "ifou") for name in ("wx", "wm")}
    w |= {"wmx": matrices["Wmx"], "wmh": matrices["Wmh"]}
    unfolded = {name: unfold(value) for name, value in w.items()}
    v = {name: pair[0] for name, pair in unfolded.items()}
    g = [unfolded[name][1] for name in ("wx", "wm", "wmx", "wmh")]
    arrays = [language.embedding, v["wx"], *np.array_split(v["wm"], blocks, axis=1)]
    arrays += [v["wmx"], v["wmh"], stacked(matrices, "b", "ifou"), *g, language.w, language.b]
    return [array.astype(np.float32) for array in arrays]


def write_openai(folder, arrays):
    folder.mkdir()
    for number, array in enumerate(arrays):
        np.save(folder / f"{number}.npy", array)
    return folder


def nvidia_language_model(
    language, order="ifuo", tokens=256, weight_norm=True, dtype=torch.float32
):
    """The nested dictionaries that a training run saved."""

    def tensor(array):
        return torch.from_numpy(np.ascontiguousarray(array)).to(dtype)

    rnn = OrderedDict()  # as torch's modules have it
    for k, matrices in enumerate(language.layers):
        parts = {"w_ih": stacked(matrices, "x", order), "w_hh": stacked(matrices, "m", order)}
        parts |= {"w_mih": matrices["Wmx"], "w_mhh": matrices["Wmh"]}
        for name, w in parts.items():
            if weight_norm:
                v, g = unfold(w)
                rnn[f"rnns.{k}.{name}_g"] = tensor(g[:, None])
                rnn[f"rnns.{k}.{name}_v"] = tensor(v.T)
            else:
                rnn[f"rnns.{k}.{name}"] = tensor(w.T)
        bias = stacked(matrices, "b", order)
        rnn |= {f"rnns.{k}.b_ih": tensor(3 * bias), f"rnns.{k}.b_hh": tensor(-2 * bias)}
    embedding, w, b = language.embedding, language.w.T, language.b
    if tokens == 257:
        # What a pad's row holds must not matter.
        pad = np.full((1, embedding.shape[1]), 50.0)
        embedding = np.concatenate([pad, embedding])
        w, b = np.concatenate([w[:1], w]), np.concatenate([[9.0], b])
    return {
        "encoder": {"encoder": {"weight": tensor(embedding)}, "rnn": rnn},
        "decoder": {"weight": tensor(w), "bias": tensor(b)},
    }
