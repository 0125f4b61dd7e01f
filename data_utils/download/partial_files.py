"""A file that is being downloaded: the bytes so far, and one attempt to get the rest."""

import http
import http.client
import logging
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from email.message import Message
from io import FileIO
from pathlib import Path
from typing import Any

from model.errors import InputError
from model.files.storage import read_json, write_json
from model.reading.progress import ProgressBar

from .dataset import RemoteFile

BLOCK_BYTES = 1 << 16
SIZE = r"\d{1,18}"  # digits of the largest file size
CONTENT_RANGE = re.compile(rf"bytes (?:({SIZE})-{SIZE}|\*)/({SIZE})")

log = logging.getLogger(__name__)


class NotTheFile(OSError):
    """The server sends something other than the file; another attempt would not help."""


@dataclass(frozen=True)
class PartialFile:
    """The bytes of a file that have been downloaded so far."""

    path: Path

    @property
    def size(self) -> int:
        """How many bytes."""
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def notes(self) -> Path:
        """Where `version` is kept."""
        return self.path.with_name(f"{self.path.name}.json")

    def version(self) -> dict[str, Any]:
        """Return the file's version, as the server named it when it sent these bytes."""
        return read_json(self.notes) if self.notes.exists() else {}

    def drop(self) -> None:
        """Delete the bytes and their version."""
        self.path.unlink(missing_ok=True)
        self.notes.unlink(missing_ok=True)


def append_missing(file: RemoteFile, part: PartialFile, timeout_seconds: float) -> None:
    """Request the missing bytes once, and append what arrives.

    Raises OSError or HTTPException if the network or the server fails, and InputError if the disk
    does. The bytes that arrived are kept.
    """
    request = urllib.request.Request(file.url, headers=_headers(file, part))
    try:
        response = urllib.request.urlopen(request, timeout=timeout_seconds)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        error.close()
        return _check_nothing_missing(error.headers, part)
    with response:
        total = _prepare_part(response, part)
        _check_room(part, total)
        with ProgressBar(file.name, total, done=part.size) as progress:
            for block_bytes in _append(response, part, total):
                progress.advance(block_bytes)
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


def _check_nothing_missing(headers: Message, part: PartialFile) -> None:
    match = CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
    if match is None or int(match[2]) != part.size:
        part.drop()
        raise ConnectionError("the file has changed on the server")


def _prepare_part(response: http.client.HTTPResponse, part: PartialFile) -> int | None:
    """Cut the part to where the response begins; return the whole file's size, if it is given."""
    headers = response.headers
    if headers.get_content_type() == "text/html":
        raise NotTheFile("the server sends a web page, not the file")
    if response.status == http.HTTPStatus.PARTIAL_CONTENT:
        match = CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
        known = part.version()
        if match is None or match[1] != str(part.size) or _version(headers, known) != known:
            part.drop()
            raise ConnectionError("the server sends another part than requested")
        return int(match[2])
    if part.size:
        log.warning("%s: changed on the server, or it cannot resume; from the start", part.path)
    part.drop()
    with _on_disk(part.notes):
        write_json(part.notes, _version(headers, {}))
    length = headers.get("Content-Length", "")
    return int(length) if re.fullmatch(SIZE, length) else None


def _version(headers: Message, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return what identifies the file's version; `known` fills in what the server leaves out."""
    return {
        key: headers.get(name, known.get(key))
        for key, name in (("etag", "ETag"), ("last_modified", "Last-Modified"))
    }


def _append(
    response: http.client.HTTPResponse, part: PartialFile, total: int | None
) -> Iterator[int]:
    """Append bytes as they arrive, so that an interruption loses none; yield the counts."""
    with _appending(part.path) as file:
        while total is None or part.size < total:
            block = memoryview(response.read1(BLOCK_BYTES))
            if not block:
                return
            yield len(block)
            with _on_disk(part.path):
                while block:
                    block = block[file.write(block) :]


@contextmanager
def _appending(path: Path) -> Iterator[FileIO]:
    with ExitStack() as stack:
        with _on_disk(path):
            file = stack.enter_context(open(path, "ab", buffering=0))
        yield file


def _check_room(part: PartialFile, total: int | None) -> None:
    free = shutil.disk_usage(part.path.parent).free
    missing = 0 if total is None else total - part.size
    if missing > free:
        raise InputError(
            f"{part.path}: {missing:,} bytes are missing, and the disk has {free:,} free; make "
            "room or choose another --output"
        )


@contextmanager
def _on_disk(path: Path) -> Iterator[None]:
    """Separate errors of the disk, which a second attempt cannot fix, from those of the network."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror}; fix that and run the command again; it continues from there"
        ) from error
