"""Finds the folder of a model: by its path, a run's, a shipped model's name, or one of the hub.

The network is used only for a model that is named hf://owner/name.
"""

import reprlib
from os import PathLike
from pathlib import Path
from typing import Any

from ..errors import InputError, imported, suggestion
from ..text.tokenizer import TOKENIZER_FILE
from .storage import read_json, step_folders

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
MODEL_FILES = (WEIGHTS_FILE, CONFIG_FILE, TOKENIZER_FILE)  # of a model directory
CLASSIFIER_FILE = "classifier.json"  # in a folder of a classifier without a model
_SOURCES_FILE = "SOURCES.md"  # of a shipped model: tables of the texts that it has read
# What is fetched from the hub: no run, checkpoint or corpus.
_HUB_FILES = [*MODEL_FILES, "README.md", "LICENSE", _SOURCES_FILE, "classifier/*"]
_HUB = "hf://"  # before a repository's owner/name
SHIPPED_MODELS = Path(__file__).parent.parent / "pretrained"
ALIASES = {"default": "stars_1024", "default_small": "stars_512"}  # of shipped models


def shipped_models() -> list[str]:
    """Return the names of the shipped models, without those of ALIASES."""
    return sorted(path.parent.name for path in SHIPPED_MODELS.glob(f"*/{CONFIG_FILE}"))


def model_in(folder: Path) -> Path | None:
    """Return the folder of the model that a model or run directory holds; else None."""
    places = (folder, folder / "model")
    return next((place for place in places if (place / CONFIG_FILE).is_file()), None)


def model_name(folder: Path) -> str:
    """Return what the model in a folder is called: as the run whose model it is, if there is one.

    >>> model_name(Path("runs/mine/model"))
    'mine'
    """
    folder = folder.resolve()
    return folder.parent.name if folder.name == "model" else folder.name


def local_model(name_or_folder: str | PathLike[str]) -> Path | None:
    """Return the folder of a shipped model, or that in a model or run directory; else None."""
    path = Path(name_or_folder)
    places = [path]
    if path.name == str(name_or_folder):  # a bare name, not a path that ends in one
        places.append(SHIPPED_MODELS / ALIASES.get(path.name, path.name))
    return next(filter(None, map(model_in, places)), None)


def find_model(name_or_folder: str | Path) -> Path:
    """Return the folder of a model.

    name_or_folder: a shipped model's name, a model directory, a run directory, or hf://owner/name,
    which is downloaded from the Hugging Face hub. Raises InputError if there is no such model.
    """
    if not isinstance(name_or_folder, str | PathLike):
        raise InputError(f"model is {reprlib.repr(name_or_folder)}; it must be a name or a path")
    if str(name_or_folder).startswith(_HUB):
        return _fetch_from_hub(str(name_or_folder).removeprefix(_HUB))
    if (model := local_model(name_or_folder)) is not None:
        return model
    path = Path(name_or_folder)
    folders = step_folders(path / "checkpoint")
    if checkpoints := [folder for folder in folders if (folder / CONFIG_FILE).is_file()]:
        raise InputError(
            f"model {str(name_or_folder)!r}: a run without an evaluated model yet; use its "
            f"newest checkpoint: {checkpoints[-1]}"
        )
    if any(path.glob(CLASSIFIER_FILE)) or any(path.glob(f"*/{CLASSIFIER_FILE}")):
        raise InputError(
            f"model {str(name_or_folder)!r}: holds a classifier; name the model that it was fitted "
            "on, and give this folder to classify as --classifier"
        )
    names = [*ALIASES, *shipped_models()]
    raise InputError(
        f"model {str(name_or_folder)!r}: neither a model directory (with {CONFIG_FILE}), nor a run "
        f"directory (with model/{CONFIG_FILE}), nor a shipped model ({', '.join(names)}), nor one "
        f"of the Hugging Face hub ({_HUB}owner/name)"
        f"{suggestion(str(name_or_folder), names)}"
    )


def describe_shipped(name: str) -> dict[str, Any]:
    folder = SHIPPED_MODELS / name
    description = read_json(folder / CONFIG_FILE)
    classifier = folder / "classifier" / CLASSIFIER_FILE
    described = read_json(classifier) if classifier.is_file() else {}
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        "name": name,
        "aliases": [alias for alias, meaning in ALIASES.items() if meaning == name],
        "folder": str(folder),
        "megabytes": round(sum(path.stat().st_size for path in files) / 1e6, 1),
        "architecture": description["architecture"],
        "tokenizer": description["tokenizer"],
        "text_profile": description["text_profile"],
        "classes": described.get("classes", []),
        "neutral": "neutral" in [step["step"] for step in described.get("steps", [])],
    }


def _fetch_from_hub(repository: str) -> Path:
    """Download a model from the Hugging Face hub; return its folder.

    repository: "owner/name", or "owner/name@revision", with the layout of a model directory.
    """
    hub = imported("huggingface_hub", "the hub needs")
    name, _, revision = repository.partition("@")
    try:
        download = hub.snapshot_download
        return Path(download(name, revision=revision or None, allow_patterns=_HUB_FILES))
    except Exception as error:  # errors of its library and of its HTTP library have no common base
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"hf://{repository}: {type(error).__name__}: {reason}") from error
