"""The settings of a run as a TOML file. Reading it checks every key and type."""

import difflib
import os
import tomllib
from collections.abc import Set
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import tomli_w

from mlstm_sentiment.bounds import fill
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.writer import write_content

Settings = TypeVar("Settings")
_MOST_BYTES = 1 << 14  # ten times ours; tomllib takes time quadratic in a key's dots


def read_toml(path: Path, kind: type[Settings], shipped: Path | None = None) -> Settings:
    """Read a TOML file into a dataclass of dataclasses.

    shipped: the folder of our files of this kind. Raises InputError for a missing file (and
    suggests a similar name, next to it or in `shipped`) or a malformed one, an unknown key (and
    suggests the nearest one), a missing key, or a value of the wrong type or range.
    """
    return fill(kind, _parsed(path, shipped), path)


def read_keys(path: Path) -> Set[str]:
    """Return the keys at the top of a TOML file; InputError as in `read_toml`."""
    return _parsed(path, None).keys()


def _parsed(path: Path, shipped: Path | None) -> dict[str, Any]:
    try:
        size = path.stat().st_size
        if size > _MOST_BYTES:
            raise InputError(f"{path}: {size:,} bytes; a config has {_MOST_BYTES:,} at most")
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # editors may add a mark
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such config{_near(path, shipped)}") from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: a folder; name a TOML file in it") from error
    # tomllib raises ValueError for a number with more digits than Python converts.
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not TOML ({error})") from error


def _near(path: Path, shipped: Path | None) -> str:
    """Return the end of an error: the file likely meant instead of a missing one, or ""."""
    folders = [path.parent] if shipped is None else [shipped, path.parent]
    configs = {file.stem: file for folder in folders for file in folder.glob("*.toml")}
    near = difflib.get_close_matches(path.stem, configs, n=1)
    return f"; did you mean {os.path.relpath(configs[near[0]])}?" if near else ""


def save_toml(path: Path, settings: Any) -> None:
    """Write a dataclass of dataclasses; a key that is None is left out."""
    content = tomli_w.dumps(_plain(asdict(settings)))
    write_content(path, content, None)


def _plain(section: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, value in section.items():
        if isinstance(value, dict):
            plain[key] = _plain(value)
        elif value is not None:
            plain[key] = _in_utf8(value) if isinstance(value, Path) else value
    return plain


def _in_utf8(path: Path) -> str:
    """Return a path as text for TOML, in any locale."""
    try:
        return os.fsencode(path).decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: its name is not UTF-8, so a config cannot hold it; rename it"
        ) from error
