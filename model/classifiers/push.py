"""Pushes a model with its classifier and a card to the Hugging Face hub."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from ..files.card import model_card
from ..files.hub import CARD_FILE, FILES, hub_library, refusals
from ..files.layout import CONFIG_FILE
from ..files.storage import check_replaceable, inside, read_json, whole_folder
from ..files.weights import load_model
from .classifier import CLASSIFIER_FILES, FOLDER
from .fitted import HOW_TO_FIT, find_classifier, load_fitted

REPOSITORY_FILES = (*FILES, CARD_FILE, *inside(FOLDER, CLASSIFIER_FILES))
RESULTS_FILE = "results.json"  # of a transfer, next to the classifier's folder


def push_to_hub(
    name_or_folder: str | Path, repository: str, *, private: bool = False, token: str | None = None
) -> str:
    """Upload a model with its classifier and a card; return the address.

    repository: "owner/name", created if absent. token: None: the one of `hf auth login`.
    """
    hub = hub_library()
    with TemporaryDirectory() as folder:
        write_repository(name_or_folder, Path(folder), repository)
        with refusals(repository):
            api = hub.HfApi(token=token)
            api.create_repo(repository, private=private, exist_ok=True)
            return str(api.upload_folder(repo_id=repository, folder_path=folder))


def write_repository(name_or_folder: str | Path, folder: Path, repository: str) -> None:
    """Write the content of a hub repository into a folder.

    The model's own card, if any, is kept. Raises InputError for a damaged model or classifier: it
    is not published.
    """
    loaded = load_model(name_or_folder, device="cpu")
    classifier = find_classifier(loaded)
    results = None
    if classifier is not None:
        load_fitted(loaded, classifier, f"fit it again. {HOW_TO_FIT}")
        measured = classifier.parent / RESULTS_FILE
        results = read_json(measured) if measured.is_file() else None
    check_replaceable(folder, REPOSITORY_FILES)
    with whole_folder(folder, REPOSITORY_FILES) as partial:
        for name in FILES:
            if (loaded.folder / name).is_file():
                shutil.copy(loaded.folder / name, partial / name)
        if classifier is not None:
            shutil.copytree(classifier, partial / FOLDER)
        if not (partial / CARD_FILE).exists():
            card = model_card(read_json(partial / CONFIG_FILE), results, repository)
            (partial / CARD_FILE).write_text(card, encoding="utf-8")
