"""Files of published sets from the network: resumed, checked, and either complete or absent.

While a file `x` is being downloaded, its bytes are in `x.part`, and its version, as the server
named it, in `x.part.json`. `x` appears once it is complete and checked, with `x.source.json`.
"""

import hashlib
import http.client
import logging
import os
import shutil
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from model.errors import InputError
from model.files.storage import FULL, flush_to_disk, one_at_a_time, read_json, refusal, write_json
from model.reading.progress import ProgressBar

BLOCK_BYTES = 1 << 16
TIMEOUT_SECONDS = 30.0  # how long to wait for the next byte
ATTEMPTS = 5  # give up after this many in a row without a new byte
PAUSE_SECONDS = 1.0  # after the first of these attempts; doubled after each
# Errors that may be over in a minute; any other status from 400 on is final.
PASSING = (408, 416, 425, 429, 500, 502, 503, 504)

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

    page: str  # about the set, and where to look if an address no longer works
    terms: str  # of use, in a sentence or two
    files: tuple[RemoteFile, ...] = ()  # none if they must be fetched by hand
    # Converts a downloaded file, in a folder, for transfer; returns the files and their rows.
    convert: Callable[[Path, Path], dict[Path, int]] | None = None
    name: str = ""  # of the folder; for a published set, the name of the set


class NotTheFile(OSError):
    """The server sends something other than the file; another attempt would not help."""


@dataclass(frozen=True)
class PartialFile:
    """The part of a file that has been downloaded so far, and the version it belongs to."""

    path: Path

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def notes(self) -> Path:
        return self.path.with_name(f"{self.path.name}.json")

    def version(self) -> dict[str, Any]:
        """Return the file's ETag and date, as the server sent them with these bytes."""
        return read_json(self.notes) if self.notes.exists() else {}

    def drop(self) -> None:
        self.path.unlink(missing_ok=True)
        self.notes.unlink(missing_ok=True)


def download_dataset(dataset: Dataset, folder: Path) -> list[Path]:
    """Download the files of a data set that `folder` lacks; return the paths of all.

    Raises InputError if a server does not deliver a file, if it is not the published one, and if
    the disk is full. A part of a file is kept, and the next call continues from there.
    """
    for place in (folder.parent, folder):
        if place.is_file():
            raise InputError(f"{place}: is a file; name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    return [_download(file, folder / file.name, dataset.page) for file in dataset.files]


def _download(file: RemoteFile, path: Path, page: str) -> Path:
    busy = refusal(f"{path}: another process is downloading it; wait for it")
    if not path.exists():  # else only others may write to its folder
        with one_at_a_time(path.with_name(f".{path.name}.lock"), busy):
            if not path.exists():
                part = PartialFile(path.with_name(f"{path.name}.part"))
                _fetch(file, part, path, page)
                _finish(file, part, path)
                return path
    if file.sha256 is not None and (digest := _sha256(path)) != file.sha256:
        raise InputError(
            f"{path}: not the published file (sha256 {digest}, expected {file.sha256}); remove it "
            "and run the command again"
        )
    log.info("%s: already downloaded", path)
    return path


def _fetch(file: RemoteFile, part: PartialFile, path: Path, page: str) -> None:
    """Download the rest, with further attempts as long as they bring new bytes."""
    failures, furthest = 0, part.size
    while True:
        try:
            return _append_missing(file, part)
        except KeyboardInterrupt:
            log.info("%s: %s bytes kept; run it again to continue", part.path, f"{part.size:,}")
            raise
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                if error.headers.get("Content-Range") == f"bytes */{part.size}":
                    return  # nothing is missing
                part.drop()  # it is longer than the file
            final = error.code not in PASSING
            reason = f"the server answered {error.code} ({error.reason})"
        except (OSError, http.client.HTTPException) as error:
            number = getattr(error, "errno", None)
            if number in FULL:  # not the network: no second attempt
                raise InputError(
                    f"{part.path}: {os.strerror(number)}; fix that and run the command again; it "
                    "continues from there"
                ) from error
            cause = getattr(error, "reason", error)  # the error that urllib has wrapped
            final = isinstance(cause, ssl.SSLCertVerificationError | NotTheFile)
            reason = str(cause) or type(cause).__name__
        failures = 1 if part.size > furthest else failures + 1
        furthest = max(furthest, part.size)
        if final or failures >= ATTEMPTS:
            size = f"{part.size:,} bytes are kept, and the same command continues from there; "
            raise InputError(
                f"{file.url}: {reason}; {size * bool(part.size)}if the address is dead, find the "
                f"file from {page} and name its folder with --mirror, or save it as {path} yourself"
            )
        pause = PAUSE_SECONDS * 2 ** (failures - 1)
        message = "%s: %s; trying again in %g s, from byte %d"
        log.warning(message, file.url, reason, pause, part.size)
        time.sleep(pause)


def _append_missing(file: RemoteFile, part: PartialFile) -> None:
    """Request the missing bytes once; append what arrives, so that an interruption loses none."""
    request = urllib.request.Request(file.url, headers=_headers(file, part))
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
        if response.headers.get_content_type() == "text/html":
            raise NotTheFile("the server sent a web page, not the file")
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            if part.size:
                log.warning(
                    "%s: the file changed or the server cannot resume; starting over", part.path
                )
            part.drop()
            names = {"etag": "ETag", "last_modified": "Last-Modified"}
            write_json(part.notes, {key: response.headers.get(name) for key, name in names.items()})
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {part.size}-"):
            part.drop()
            raise ConnectionError("the server sent a different part of the file than requested")
        total = None if response.length is None else part.size + response.length
        _check_room(part, response.length or 0)
        with (
            ProgressBar(file.name, total, done=part.size) as progress,
            open(part.path, "ab", buffering=0) as target,
        ):
            while block := response.read1(BLOCK_BYTES):
                left = memoryview(block)
                while left:
                    left = left[target.write(left) :]
                progress.advance(len(block))
    if total is not None and part.size < total:
        raise ConnectionError(f"cut off after {part.size:,} of {total:,} bytes")


def _headers(file: RemoteFile, part: PartialFile) -> dict[str, str]:
    headers = {"User-Agent": "mlstm-sentiment", "Accept-Encoding": "identity"}
    version = part.version()
    # A weak ETag promises the same meaning, not the same bytes (RFC 9110, 13.1.5).
    etag = version.get("etag")
    validator = etag if etag and not etag.startswith("W/") else version.get("last_modified")
    # Without either, only a digest can show that the rest belongs to the same file.
    if part.size and (validator or file.sha256):
        headers["Range"] = f"bytes={part.size}-"
        if validator:
            headers["If-Range"] = validator
    return headers


def _check_room(part: PartialFile, missing: int) -> None:
    free = shutil.disk_usage(part.path.parent).free
    if missing > free:
        raise InputError(
            f"{part.path}: {missing:,} bytes are still to come, but the disk has only {free:,} "
            "free; make room or choose another --output"
        )


def _finish(file: RemoteFile, part: PartialFile, path: Path) -> None:
    """Check the whole file, record its origin, and give it its name."""
    digest = _sha256(part.path)
    if file.sha256 not in (None, digest):
        size = part.size
        part.drop()
        raise InputError(
            f"{file.url}: sent {size:,} bytes that are not the published file (sha256 {digest}, "
            f"expected {file.sha256}); they were dropped; run the command again, or get it "
            "elsewhere"
        )
    flush_to_disk(part.path)
    record = {
        "url": file.url,
        "bytes": part.size,
        "sha256": digest,
        "sha256_was_known": file.sha256 is not None,
        **part.version(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }
    write_json(path.with_name(f"{path.name}.source.json"), record)
    os.replace(part.path, path)
    part.drop()
    comparison = "as published" if file.sha256 else "no published digest to compare it with"
    log.info("%s: %s bytes, sha256 %s (%s)", path, f"{record['bytes']:,}", digest, comparison)


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
