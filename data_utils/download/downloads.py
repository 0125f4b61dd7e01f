"""Files from the network: resumed, checked, and either complete or absent.

While a file `x` is being downloaded, its bytes are in `x.part`, and its version, as the server
named it, in `x.part.json`. `x` appears once it is complete and checked, with `x.source.json`.
"""

import hashlib
import http.client
import logging
import os
import ssl
import time
import urllib.error
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from model.errors import InputError
from model.files.storage import flush_to_disk, one_at_a_time, refusal, write_json

from .dataset import Dataset, RemoteFile
from .partial_files import NotTheFile, PartialFile, append_missing

# Errors that may be over in a minute; any other status from 400 on is final.
PASSING = (408, 425, 429, 500, 502, 503, 504)

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long to wait for a server, and how often to try again."""

    timeout_seconds: float = 30.0  # how long to wait for the next byte
    attempts: int = 5  # give up after this many in a row without a new byte
    pause_seconds: float = 1.0  # after the first of these attempts; doubled after each


def download_dataset(
    dataset: Dataset, folder: Path, patience: Patience | None = None
) -> list[Path]:
    """Download the files of a data set that `folder` lacks; return the paths of all.

    Raises InputError if a server does not deliver a file, if it is not the published one, and if
    the disk is full. A part of a file is kept, and the next call continues from there.
    """
    for place in (folder.parent, folder):
        if place.is_file():
            raise InputError(f"{place}: is a file; name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _download(file, folder / file.name, dataset.page, patience or Patience())
        for file in dataset.files
    ]


def _download(file: RemoteFile, path: Path, page: str, patience: Patience) -> Path:
    busy = refusal(f"{path}: another process is downloading it; wait for it")
    if not path.exists():  # else only others may write to its folder
        with one_at_a_time(path.with_name(f".{path.name}.lock"), busy):
            if not path.exists():
                part = PartialFile(path.with_name(f"{path.name}.part"))
                _fetch(file, part, path, page, patience)
                _finish(file, part, path)
                return path
    _check_present(file, path)
    return path


def _check_present(file: RemoteFile, path: Path) -> None:
    if file.sha256 is not None and (digest := _sha256(path)) != file.sha256:
        raise InputError(
            f"{path}: not the published file (sha256 {digest}, expected {file.sha256}); remove it "
            "and run the command again"
        )
    log.info("%s: already downloaded", path)


def _fetch(file: RemoteFile, part: PartialFile, path: Path, page: str, patience: Patience) -> None:
    """Download the rest, with further attempts as long as they bring new bytes."""
    failures, furthest = 0, part.size
    while True:
        try:
            return append_missing(file, part, patience.timeout_seconds)
        except KeyboardInterrupt:
            log.info("%s: %s bytes kept; run it again to continue", part.path, f"{part.size:,}")
            raise
        except urllib.error.HTTPError as error:
            error.close()
            final = error.code not in PASSING
            reason = f"the server answers {error.code} ({error.reason})"
        except (OSError, http.client.HTTPException) as error:
            cause = getattr(error, "reason", error)  # the error that urllib has wrapped
            final = isinstance(cause, ssl.SSLCertVerificationError | NotTheFile)
            reason = str(cause) or type(cause).__name__
        failures = 1 if part.size > furthest else failures + 1
        furthest = max(furthest, part.size)
        if final or failures >= patience.attempts:
            raise InputError(_advice(file, part, path, page, reason))
        pause = patience.pause_seconds * 2 ** (failures - 1)
        message = "%s: %s; trying again in %g s, from byte %d"
        log.warning(message, file.url, reason, pause, part.size)
        time.sleep(pause)


def _advice(file: RemoteFile, part: PartialFile, path: Path, page: str, reason: str) -> str:
    progress = f"{part.size:,} bytes are kept, the same command continues there; " * bool(part.size)
    return (
        f"{file.url}: {reason}; {progress}if the address is dead, find the file from {page} and "
        f"name its folder with --mirror, or save it as {path} yourself"
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
    comparison = "as published" if file.sha256 else "nothing to compare it with; recorded"
    log.info("%s: %s bytes, sha256 %s (%s)", path, f"{record['bytes']:,}", digest, comparison)


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
