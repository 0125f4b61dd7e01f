"""Entry points for `torch.hub.load(path, name, source="local")`, a checkout being the path.

    import torch
    featurizer = torch.hub.load("path/to/checkout", "sentiment_featurizer", source="local")
    features = featurizer.transform(["Five stars, no regrets."])  # float32 [1, H]

A model is a model directory, a run directory, or the name of a shipped model, all on this machine;
only hf://owner/name uses the network. The package is imported as `mlstm_sentiment`, the name that
`pip install .` gives it, since the user may have a module called `model`.
"""

# Import only modules: torch.hub.list treats every visible function and class as an entry point.
import importlib.util
import pathlib
import sys
import typing

dependencies = ["torch", "numpy", "safetensors", "sklearn", "tqdm"]

PACKAGE = "mlstm_sentiment"


def sentiment_featurizer(model: str = "default", **parameters: typing.Any) -> typing.Any:
    """Return a scikit-learn transformer, texts to float32 [N, F].

    parameters: state, pooling, layers, tanh, batch_size, precision, as for its class.
    """
    return _package().SentimentFeaturizer.from_pretrained(model, **parameters)


def sentiment_classifier(model: str = "default", **parameters: typing.Any) -> typing.Any:
    """Return an object with predict, predict_proba, decision_function and neuron_values.

    parameters: classifier (a folder; if absent, the one inside the model), threshold, batch_size.
    """
    return _package().SentimentClassifier.from_pretrained(model, **parameters)


def language_model(model: str = "default", **parameters: typing.Any) -> typing.Any:
    """Return the torch module, in eval mode: tokens [B, T] and a state to logits [B, T, V].

    parameters: backend ("auto", "reference", "fused"), compute_dtype (a torch.dtype).
    """
    return _package().load_model(model, **parameters).model


def _package() -> typing.Any:
    """Import model/ under its installed name, from this checkout unless it was imported already."""
    if PACKAGE not in sys.modules:
        source = pathlib.Path(__file__).resolve().parent / "model" / "__init__.py"
        spec = importlib.util.spec_from_file_location(PACKAGE, source)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[PACKAGE] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[PACKAGE])
    return sys.modules[PACKAGE]
