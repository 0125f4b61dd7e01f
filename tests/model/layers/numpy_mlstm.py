"""The multiplicative LSTM written again from the papers, in NumPy and float64.

Krause et al. 2016, equations for m, the candidate and the gates; the output gate outside the tanh
and the weight norm as in Radford et al. 2017. Every matrix is one gate's own, [in, out], so that
nothing of the layout under test is shared.
"""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def norm_columns(v, g):
    return v * g / np.sqrt((v**2).sum(axis=0))


def run(xs, h, c, matrices):
    """xs: list of [B, E]. Returns the lists of h and c after each."""
    p = matrices
    hs, cs = [], []
    for x in xs:
        m = (x @ p["Wmx"]) * (h @ p["Wmh"])
        i = sigmoid(x @ p["Wix"] + m @ p["Wim"] + p["bi"])
        f = sigmoid(x @ p["Wfx"] + m @ p["Wfm"] + p["bf"])
        o = sigmoid(x @ p["Wox"] + m @ p["Wom"] + p["bo"])
        u = np.tanh(x @ p["Wux"] + m @ p["Wum"] + p["bu"])
        c = f * c + i * u
        h = o * np.tanh(c)
        hs.append(h)
        cs.append(c)
    return hs, cs


def matrices_of(layer):
    """Take a MlstmLayer apart into one normed [in, out] matrix per gate."""

    def normed(name):
        v = getattr(layer, f"w_{name}").detach().double().numpy().T
        g = getattr(layer, f"g_{name}")
        return v if g is None else norm_columns(v, g.detach().double().numpy())

    matrices = {"Wmx": normed("mx"), "Wmh": normed("mh")}
    blocks = zip(
        "ifuo",
        np.split(normed("x"), 4, axis=1),
        np.split(normed("h"), 4, axis=1),
        np.split(layer.b.detach().double().numpy(), 4),
        strict=True,
    )
    for gate, from_input, from_m, bias in blocks:
        matrices |= {f"W{gate}x": from_input, f"W{gate}m": from_m, f"b{gate}": bias}
    return matrices
