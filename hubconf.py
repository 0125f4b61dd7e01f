"""Entry points for `torch.hub.load(path, name, source="local")`, a checkout being the path.

    import torch
    featurizer = torch.hub.load("path/to/checkout", "sentiment_featurizer", source="local")
    features = featurizer.transform(["Five stars, no regrets."])  # float32 [1, H]

The first value after the name of the entry point is the model: a model directory, a run directory,
or the name of a shipped model, all on this machine; only hf://owner/name uses the network. It has
no keyword, since torch.hub.load calls its own second parameter `model`; the others are keywords. A
wrong one is an InputError, with the known ones. `device` is "cpu", "cuda:1" and the like, a
torch.device, or "auto" or None: a GPU, if any. The package is imported as `mlstm_sentiment`, the
name that `pip install .` gives it, since the user may have a module called `model`.
"""

# Import only modules: torch.hub.list treats every visible function and class as an entry point.
import importlib
import importlib.util
import inspect
import pathlib
import sys
import typing

dependencies = ["torch", "numpy", "safetensors", "sklearn", "tqdm"]

PACKAGE = "mlstm_sentiment"


def sentiment_featurizer(name_or_dir: str = "default", **parameters: typing.Any) -> typing.Any:
    """Return a scikit-learn transformer, texts to float32 [N, F].

    parameters: preset ("papers", "pooled"), state ("cell", "hidden"), pooling ("last", "mean",
    "max", "min", or a list), layers ("last", "all", or numbers from 0), tanh, units (numbers from
    0), batch_size, precision ("fp32", "bf16", "fp16", "int8"), device, show_progress.
    """
    kind = _package().SentimentFeaturizer
    _check(parameters, kind, kind.from_pretrained)
    return kind.from_pretrained(name_or_dir, **parameters)


def sentiment_classifier(name_or_dir: str = "default", **parameters: typing.Any) -> typing.Any:
    """Return an object with predict, predict_proba, decision_function and neuron_values.

    parameters: classifier (a folder; if absent, that of the model or its run), threshold, unsure
    (two probabilities), batch_size, precision ("fp32", "bf16", "fp16", "int8"), device,
    show_progress, advance (called with the number of bytes just read).
    """
    kind = _package().SentimentClassifier
    _check(parameters, kind, kind.from_pretrained)
    return kind.from_pretrained(name_or_dir, **parameters)


def language_model(name_or_dir: str = "default", **parameters: typing.Any) -> typing.Any:
    """Return the torch module, in eval mode: tokens [B, T] and a state to logits [B, T, V].

    parameters: backend ("auto", "reference", "fused"), compute_dtype (torch.float32,
    torch.bfloat16, torch.float16), device.
    """
    load = _package().load_model
    _check(parameters, load)
    return load(name_or_dir, **parameters).model


def _check(parameters: dict[str, typing.Any], *called: typing.Any) -> None:
    """Raise InputError for a parameter that none of the called functions has."""
    errors = importlib.import_module(f"{PACKAGE}.errors")
    found = (inspect.signature(each).parameters for each in called)
    models = {"model", "name_or_dir", "name_or_folder"}
    known = sorted({name for names in found for name in names} - {*models, "parameters"})
    for name in parameters:
        if name not in known:
            raise errors.InputError(
                f"no parameter {name!r}{errors.meant(name, known)}; known: {', '.join(known)}"
            )


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
