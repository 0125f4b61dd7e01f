"""main.py's training against one in float64 with NumPy alone, which shares no code with it.

Forward, backward through time, weight norm, clipping and five optimizers are written out below. The
data are the windows of data_utils.lanes, whose own tests hold them.
"""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from data_utils.corpus import open_corpus
from data_utils.lanes import DataConfig, lanes_of
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from tests.support.runs import ROOT, SMALL_RUN, run, run_ranks, small_run

CORPUS = ROOT / SMALL_RUN["data.corpus"]
LANES, LAYER = SMALL_RUN["data.lanes"], "layers.0."
MATRICES = ("x", "h", "mx", "mh")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def normed(v, g):
    return g[:, None] * v / np.linalg.norm(v, axis=1, keepdims=True)


def nats_and_gradients(P, X, Y, mask, h, c):
    """Return summed nats, their gradients, and the last h and c.

    P: parameters by their names, float64. X, Y: tokens [B, T]. mask: of targets that count [B, T].
    """
    V = {name: P[f"{LAYER}w_{name}"] for name in MATRICES}
    g = {name: P[f"{LAYER}g_{name}"] for name in MATRICES}
    W = {name: normed(V[name], g[name]) for name in MATRICES}
    E, D = P["embedding.weight"], P["decoder.weight"]
    (B, T), H = X.shape, h.shape[1]
    steps, states, nats = [], [], 0.0
    for t in range(T):
        x = E[X[:, t]]
        mx, mh = x @ W["mx"].T, h @ W["mh"].T
        z = x @ W["x"].T + (mx * mh) @ W["h"].T + P[LAYER + "b"]
        i, f, u, o = np.split(z, 4, axis=1)
        i, f, u, o = sigmoid(i), sigmoid(f), np.tanh(u), sigmoid(o)
        new = f * c + i * u
        steps.append((x, mx, mh, i, f, u, o, c, np.tanh(new), h))
        h, c = o * np.tanh(new), new
        states.append(h)
    G = {name: np.zeros_like(array) for name, array in P.items()}
    dW = {name: np.zeros_like(array) for name, array in W.items()}
    dh, dc = np.zeros((B, H)), np.zeros((B, H))
    for t in reversed(range(T)):
        x, mx, mh, i, f, u, o, before, tanh_c, h_before = steps[t]
        logits = states[t] @ D.T + P["decoder.bias"]
        logits -= logits.max(1, keepdims=True)
        p = np.exp(logits)
        p /= p.sum(1, keepdims=True)
        nats -= (np.log(p[np.arange(B), Y[:, t]]) * mask[:, t]).sum()
        p[np.arange(B), Y[:, t]] -= 1
        p *= mask[:, t, None]
        G["decoder.weight"] += p.T @ states[t]
        G["decoder.bias"] += p.sum(0)
        dh = dh + p @ D
        dc = dc + dh * o * (1 - tanh_c**2)
        gates = dc * u * i * (1 - i), dc * before * f * (1 - f), dc * i * (1 - u**2)
        dz = np.concatenate([*gates, dh * tanh_c * o * (1 - o)], axis=1)
        dc = dc * f
        dm = dz @ W["h"]
        dmx, dmh = dm * mh, dm * mx
        factors = {"x": (dz, x), "h": (dz, mx * mh), "mx": (dmx, x), "mh": (dmh, h_before)}
        for name, (left, right) in factors.items():
            dW[name] += left.T @ right
        G[LAYER + "b"] += dz.sum(0)
        dh = dmh @ W["mh"]
        np.add.at(G["embedding.weight"], X[:, t], dz @ W["x"] + dmx @ W["mx"])
    for name in MATRICES:
        n = np.linalg.norm(V[name], axis=1, keepdims=True)
        along = (dW[name] * V[name] / n).sum(1)
        G[f"{LAYER}g_{name}"] = along
        G[f"{LAYER}w_{name}"] = g[name][:, None] / n * (dW[name] - along[:, None] * V[name] / n)
    return nats, G, states[-1], c


def orthogonalized(update):
    """Return Muon's five steps of Newton and Schulz on a matrix, and its factor of shape."""
    x = update.T if len(update) > update.shape[1] else update
    x = x / (np.linalg.norm(x) + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    x = x.T if len(update) > update.shape[1] else x
    return x


class Optimizer:
    """Adam, AdamW, SGD, Muon or LAMB, as their papers have them."""

    def __init__(self, name, decay):
        self.name, self.decay, self.steps, self.moments = name, decay, 0, {}

    def step(self, P, G, rate):
        self.steps += 1
        for name, gradient in G.items():
            kind = self.name
            if kind == "muon" and not (name.startswith("layers.") and gradient.ndim == 2):
                kind = "adamw"
            getattr(self, kind)(P, name, gradient, rate)

    def sgd(self, P, name, gradient, rate):
        gradient = gradient + self.decay * P[name]
        before = self.moments.get(name)
        self.moments[name] = gradient if before is None else 0.9 * before + gradient
        P[name] = P[name] - rate * self.moments[name]

    def _adam(self, name, gradient, eps):
        first, second = self.moments.get(name, (0, 0))
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        self.moments[name] = first, second
        root = np.sqrt(second / (1 - 0.999**self.steps))
        return first / (1 - 0.9**self.steps) / (root + eps)

    def adam(self, P, name, gradient, rate):
        P[name] = P[name] - rate * self._adam(name, gradient + self.decay * P[name], 1e-8)

    def adamw(self, P, name, gradient, rate):
        update = self._adam(name, gradient, 1e-8)
        P[name] = P[name] * (1 - rate * self.decay) - rate * update

    def lamb(self, P, name, gradient, rate):
        first, second = self.moments.get(name, (0, 0))
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        self.moments[name] = first, second
        update = first / (np.sqrt(second) + 1e-6) + self.decay * P[name]
        norms = np.linalg.norm(P[name]), np.linalg.norm(update)
        P[name] = P[name] - rate * (norms[0] / norms[1] if all(norms) else 1) * update

    def muon(self, P, name, gradient, rate):
        momentum = 0.95 * self.moments.get(name, 0) + 0.05 * gradient
        self.moments[name] = momentum
        update = orthogonalized(0.05 * gradient + 0.95 * momentum)
        factor = 0.2 * max(gradient.shape) ** 0.5
        P[name] = P[name] * (1 - rate * self.decay) - rate * factor * update


def trained_here(
    steps, *, window=16, windows_per_step=1, lr=1e-2, clip=1.0, name="adam", decay=0.0
):
    """Return the weights before and after `steps` of main.py's recipe on all lanes together."""
    model = build_model(ModelConfig(hidden_size=16, forget_gate_bias=3.0), 0, torch.float32)
    P = {key: value.numpy().astype(np.float64) for key, value in model.state_dict().items()}
    before, optimizer = dict(P), Optimizer(name, decay)
    config = DataConfig(window=window, shuffle="even")
    windows = lanes_of(open_corpus(CORPUS).splits["train"], config, LANES, 0, slice(None))
    h = c = np.zeros((LANES, 16))
    for step in range(steps):
        batches = [windows[step * windows_per_step + k] for k in range(windows_per_step)]
        total = dict.fromkeys(P, 0.0)
        for batch in batches:
            keep = ~batch.reset[:, None]
            X, Y = batch.tokens[:, :-1].astype(int), batch.tokens[:, 1:].astype(int)
            mask = np.arange(window) < batch.lengths[:, None]
            _, G, h, c = nats_and_gradients(P, X, Y, mask, h * keep, c * keep)
            total = {key: total[key] + G[key] for key in P}
        active = sum(batch.active_fraction for batch in batches) / len(batches)
        scale = active / sum(batch.transitions for batch in batches)
        G = {key: scale * gradient for key, gradient in total.items()}
        norm = np.sqrt(sum((gradient**2).sum() for gradient in G.values()))
        G = {key: gradient * min(1, clip / (norm + 1e-6)) for key, gradient in G.items()}
        optimizer.step(P, G, lr * (1 - step / steps) * active)
    return before, P


STEPS = 12


def optimizer(name, **options):
    """Return the options of main.py for an optimizer, and the same for the recipe."""
    return {f"optim.{key}": value for key, value in {"name": name, **options}.items()}, {
        "name": name, "lr": options.get("lr", 1e-2), "decay": options.get("weight_decay", 0.0),
    }  # fmt: skip


CASES = {  # options of main.py, the same for the recipe, ranks
    "adam": ({}, {}, 1),
    "clipping": ({"optim.clip_norm": 0.05}, {"clip": 0.05}, 1),
    "adamw": (*optimizer("adamw", weight_decay=0.5), 1),
    "sgd": (*optimizer("sgd", lr=0.5, weight_decay=0.01), 1),
    "muon": (*optimizer("muon", weight_decay=0.1), 1),
    "lamb": (*optimizer("lamb", weight_decay=0.1), 1),
    # Beyond an epoch's end, where windows hold unlike numbers of tokens.
    "windows": (
        {"parallel.windows_per_step": 3, "data.window": 72, "train.steps": 14},
        *({"windows_per_step": 3, "window": 72}, 1),
    ),
    "lane groups": ({"parallel.lane_groups": 3}, {}, 1),
    "two ranks": ({}, {}, 2),
    "an empty rank": ({"parallel.shares": ("3", "1", "0"), "parallel.lane_groups": 2}, {}, 3),
    "ends of epochs": ({"data.window": 72, "train.steps": 40}, {"window": 72}, 1),
}


@pytest.mark.parametrize(("changes", "recipe", "ranks"), CASES.values(), ids=CASES)
def test_main_trains_what_numpy_trains_in_float64(changes, recipe, ranks, tmp_path):
    changes = {"optim.lr": 1e-2, "evaluate.every_steps": 100, **changes}
    steps = changes.pop("train.steps", STEPS)
    shares = changes.pop("parallel.shares", ())
    words = small_run(tmp_path, steps, **changes)
    words += ["--parallel.shares", *shares] if shares else []
    for process in [run(*words)] if ranks == 1 else run_ranks(ranks, *words):
        assert process.returncode in (0, 3), process.stderr
    before, expected = trained_here(steps, **recipe)
    found = load_file(tmp_path / f"checkpoint/step-{steps:08d}/model.safetensors")
    for name, value in expected.items():
        moved = np.abs(value - before[name]).max()
        assert moved > 1e-3, name
        np.testing.assert_allclose(
            found[name].numpy(), value, rtol=0, atol=1e-3 * moved, err_msg=name
        )
