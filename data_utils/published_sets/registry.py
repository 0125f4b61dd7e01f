"""Where to get the published sets and the Amazon reviews, as sets.toml describes them."""

import tomllib
from pathlib import Path
from typing import Any

from mlstm_sentiment.errors import InputError, nearest

from ..download.downloads import Dataset, RemoteFile
from ..download.movie_reviews import convert_movie_reviews

DATA = tomllib.loads((Path(__file__).parent / "sets.toml").read_text(encoding="utf-8"))
AMAZON = {year: release for year, release in DATA["amazon"].items() if year != "terms"}


def _dataset(name: str, entry: dict[str, Any]) -> Dataset:
    return Dataset(
        entry["page"],
        entry["terms"],
        tuple(RemoteFile(**file) for file in entry.get("downloads", ())),
        convert_movie_reviews if entry.get("convert") == "movie reviews" else None,
        name=name,
    )


DATASETS = {name: _dataset(name, entry) for name, entry in DATA["sets"].items()}


def how_to_get(name: str) -> str:
    """Say how to get the files of a published set."""
    title = DATA["sets"][name]["title"]
    if DATASETS[name].files:
        return f"python scripts/download_data.py {name} gets {title}"
    files = ", ".join(f"{name}/{file}" for file in DATA["sets"][name]["files"])
    return f"get {title} by hand from {DATASETS[name].page} as {files}"


def find_dataset(name: str, release: str | None = None) -> Dataset:
    """Look up a published set or `amazon:<category>`; asks no server.

    release: of the Amazon reviews, by default 2014. Raises InputError for an unknown name, and
    lists known ones; for a set that must be fetched by hand; and for a release of any other set.
    """
    kind, _, category = name.partition(":")
    if kind == "amazon":
        return _amazon(category, release or "2014")
    if release is not None:
        raise InputError(f"--release is for amazon:<category>, not for {name}; leave it out")
    if name in DATASETS and DATASETS[name].files:
        return DATASETS[name]
    names = [name for name, entry in DATASETS.items() if entry.files]
    why = how_to_get(name) if name in DATASETS else f"data set {name!r} is unknown"
    raise InputError(f"{why}; known: {', '.join(names)}, amazon:<category>")


def _amazon(category: str, release: str) -> Dataset:
    source = AMAZON[release]
    if category not in source["categories"]:
        raise InputError(
            f"amazon:{category}: the release of {release} has no such category"
            f"{nearest(category, source['categories'], cutoff=0.4)}"
        )
    url = source["url"].format(category=category)
    terms = DATA["amazon"]["terms"].format(cite=source["cite"])
    file = RemoteFile(url.rpartition("/")[2], url)
    return Dataset(source["page"], terms, (file,), name=f"amazon_{release}")
