"""The published sets and the Amazon reviews that sets.toml describes: where to get them, and how.

A download is checked, and either complete or absent.
"""

import logging
import shutil
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlstm_sentiment.errors import InputError, nearest
from mlstm_sentiment.files.writer import write_atomically

from .movie_reviews import convert_movie_reviews

if TYPE_CHECKING:
    from requests import Response

_CHUNK_BYTES = 1 << 20
_TIMEOUT_SECONDS = 30.0  # how long to wait for the next byte
# Compression in transit would change the bytes of the file.
_HEADERS = {"User-Agent": "mlstm-sentiment", "Accept-Encoding": "identity"}
_CONVERSIONS = {"movie reviews": convert_movie_reviews}

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RemoteFile:
    """One file at an address."""

    name: str  # on the disk
    url: str
    sha256: str | None = None  # of the published file; None if none was published


@dataclass(frozen=True)
class Dataset:
    """Files that belong together: their addresses and the terms of use."""

    name: str  # of the folder; for a published set, the name of the set
    page: str  # about the set, and where to look if an address no longer works
    terms: str  # of use, in a sentence or two
    files: tuple[RemoteFile, ...] = ()  # none if they must be fetched by hand
    # Converts a downloaded file, in a folder, for transfer; returns the files and their rows.
    convert: Callable[[Path, Path], dict[Path, int]] | None = None


DATA = tomllib.loads((Path(__file__).parent / "sets.toml").read_text(encoding="utf-8"))
AMAZON = {year: release for year, release in DATA["amazon"].items() if year != "terms"}
DATASETS = {
    name: Dataset(
        name,
        entry["page"],
        entry["terms"],
        tuple(RemoteFile(**file) for file in entry.get("downloads", ())),
        _CONVERSIONS.get(entry.get("convert")),
    )
    for name, entry in DATA["sets"].items()
}


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
    return Dataset(f"amazon_{release}", source["page"], terms, (file,))


def download_dataset(dataset: Dataset, folder: Path) -> list[Path]:
    """Download the files of a data set that `folder` lacks; return the paths of all.

    A download that is interrupted leaves no file and starts over. Raises InputError if a server
    does not deliver a file, if it is not the published one, or if the disk has no room for it.
    """
    for place in (folder.parent, folder):
        if place.is_file():
            raise InputError(f"{place}: is a file; name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    return [_download(file, folder / file.name, dataset.page) for file in dataset.files]


def _download(file: RemoteFile, path: Path, page: str) -> Path:
    import pooch  # here: with requests, it adds filters of warnings
    from requests import RequestException

    if path.exists():
        if file.sha256 not in (None, digest := pooch.file_hash(path)):
            raise InputError(
                f"{path}: not the published file (sha256 {digest}, expected {file.sha256}); "
                "remove it and run the command again"
            )
        log.info("%s: already downloaded", path)
        return path
    try:
        write_atomically(path, partial(_fetch, file), "a download")
    except RequestException as error:
        raise InputError(
            f"{file.url}: {_cause(error)}; run the command again; if the address is dead, find the "
            f"file from {page} and save it as {path} yourself"
        ) from error
    return path


def _fetch(file: RemoteFile, path: Path) -> None:
    import pooch

    download = pooch.HTTPDownloader(
        progressbar=sys.stderr.isatty(),
        chunk_size=_CHUNK_BYTES,
        timeout=_TIMEOUT_SECONDS,
        headers=_HEADERS,
        hooks={"response": partial(_check_answer, path)},
    )
    download(file.url, path, None)
    digest, size = pooch.file_hash(path), path.stat().st_size
    if file.sha256 not in (None, digest):
        raise InputError(
            f"{file.url}: sent {size:,} bytes that are not the published file (sha256 {digest}, "
            f"expected {file.sha256}); they were dropped; run the command again, or get it "
            "elsewhere"
        )
    comparison = "as published" if file.sha256 else "no published digest to compare it with"
    log.info("%s: %s bytes, sha256 %s (%s)", file.url, f"{size:,}", digest, comparison)


def _check_answer(path: Path, response: "Response", **_: Any) -> None:
    """Refuse a web page, and a file for which the disk has no room, before the download."""
    from requests import RequestException

    if response.is_redirect or not response.ok:
        return
    if response.headers.get("Content-Type", "").startswith("text/html"):
        raise RequestException("the server sent a web page, not the file")
    # Some servers call the compression of the file itself one for the transfer.
    response.raw.headers.pop("Content-Encoding", None)
    size, free = int(response.headers.get("Content-Length", 0)), shutil.disk_usage(path.parent).free
    if size > free:
        raise InputError(
            f"{path.parent}: the file has {size:,} bytes, but the disk has only {free:,} free; "
            "make room or choose another --output"
        )


def _cause(error: BaseException) -> BaseException:
    """Return the error behind those that libraries wrap around it, such as a refused connection."""
    return error if error.__context__ is None else _cause(error.__context__)
