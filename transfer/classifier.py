"""A fitted classifier on disk: weights as safetensors, the rest as JSON."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from model.storage import write_json
from model.weights import save_tensors

from .regression import Neuron, Regression

FORMAT_VERSION = 1
WEIGHTS_FILE = "classifier.safetensors"
CONFIG_FILE = "classifier.json"


def save_classifier(
    folder: Path, regression: Regression, neuron: Neuron, classes: Sequence[str], digest: str
) -> None:
    """Write a binary classifier; `digest` names the model whose features it reads."""
    folder.mkdir(parents=True, exist_ok=True)
    coefficients = torch.from_numpy(regression.coefficients.astype(np.float32))
    intercept = torch.tensor([regression.intercept], dtype=torch.float32)
    save_tensors(folder / WEIGHTS_FILE, {"coefficients": coefficients, "intercept": intercept})
    description = {
        "format_version": FORMAT_VERSION,
        "classes": list(classes),  # the negative one, the positive one
        "state": "cell",
        "model_digest": digest,
        "neuron": {"index": neuron.index, "polarity": neuron.polarity},
    }
    write_json(folder / CONFIG_FILE, description)
