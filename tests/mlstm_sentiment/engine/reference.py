"""The model in float64, written from its equations: what every path is compared with."""

import numpy as np

from mlstm_sentiment.engine.stored import StoredMatrix, StoredModel


def matrix(stored: StoredMatrix) -> np.ndarray:
    """Return a stored matrix with its weight norm, float64 [rows, columns]."""
    if stored.scale is None:
        w = stored.data.astype(np.float64)
    elif stored.bits == 8:
        w = stored.data * stored.scale.astype(np.float64)[:, None]
    else:
        places = np.arange(stored.columns)[:, None] * stored.bits + np.arange(stored.bits)
        digits = np.unpackbits(stored.data, axis=1)[:, places]  # [rows, columns, bits]
        values = digits @ (1 << np.arange(stored.bits)[::-1])
        values = np.where(values >= 1 << (stored.bits - 1), values - (1 << stored.bits), values)
        w = values * stored.scale.astype(np.float64)[:, None]
    if stored.gain is None:
        return w
    norms = np.sqrt((w**2).sum(1))
    return w * np.divide(stored.gain, norms, out=np.zeros(len(w)), where=norms > 0)[:, None]


class Reference:
    """One text at a time, one token at a time."""

    def __init__(self, stored: StoredModel):
        self.embedding = matrix(stored.embedding)
        self.layers = [
            ({name: matrix(each) for name, each in layer.matrices.items()}, layer.b.astype(float))
            for layer in stored.layers
        ]
        self.decoder, self.bias = matrix(stored.decoder), stored.decoder_bias.astype(float)
        self.H = len(self.layers[0][0]["mh"])

    def states(self, tokens, h=None, c=None, clamp=None, with_bits=True):
        """Return h and c after each token, float64 [n, L, H], and the bits of each token [n]."""
        L = len(self.layers)
        h = np.zeros((L, self.H)) if h is None else np.array(h, float)
        c = np.zeros((L, self.H)) if c is None else np.array(c, float)
        hs, cs, bits = [], [], []
        for token in tokens:
            if with_bits:
                bits.append(self.bits(h[-1])[token])
            x = self.embedding[token]
            for index, (w, b) in enumerate(self.layers):
                m = (w["mx"] @ x) * (w["mh"] @ h[index])
                i, f, u, o = np.split(w["x"] @ x + w["h"] @ m + b, 4)
                c[index] = sigmoid(f) * c[index] + sigmoid(i) * np.tanh(u)
                h[index] = x = sigmoid(o) * np.tanh(c[index])
            if clamp is not None:
                for part, value in ((h, clamp.hidden), (c, clamp.cell)):
                    if value is not None:
                        part[clamp.layer, clamp.unit] = value
            hs.append(h.copy())
            cs.append(c.copy())
        shape = (len(hs), L, self.H)
        return np.array(hs).reshape(shape), np.array(cs).reshape(shape), np.array(bits)

    def logits(self, h):
        return self.decoder @ h + self.bias

    def bits(self, h):
        """Return what each token would cost next, [V]."""
        z = self.logits(h)
        return (np.log(np.exp(z - z.max()).sum()) + z.max() - z) / np.log(2)


def sigmoid(x):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))
