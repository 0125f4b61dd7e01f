"""Sends rows of metrics to an experiment tracker with the interface of wandb: Trackio, W&B."""

import logging
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from model.errors import InputError

PROJECT = "mlstm-sentiment"
log = logging.getLogger(__name__)


class Tracker:
    """A run in a tracker. If the tracker fails, training continues and only it misses rows."""

    def __init__(self, package: str, name: str, settings: Mapping[str, object]):
        """Start a run. Raises InputError if the package is missing or cannot start one."""
        try:
            self._package = import_module(package)
        except ImportError as error:
            raise InputError(
                f"log.tracker is {package}: not installed ({error}); pip install {package}, or "
                "leave it out"
            ) from error
        except Exception as error:  # an empty name, or any error of the import
            raise InputError(
                f"log.tracker is {package!r}: cannot be imported ({type(error).__name__}: {error})"
            ) from error
        plain = {key: str(value) for key, value in settings.items()}
        try:
            self._package.init(project=PROJECT, name=name, config=plain)
        except Exception as error:  # trackers raise many kinds of errors
            raise InputError(f"log.tracker is {package}: it started no run ({error})") from error
        self._failed = False

    def write(self, row: Mapping[str, Any]) -> None:
        """Send the numbers of a row; warn of the first failure only."""
        numbers = {key: value for key, value in row.items() if isinstance(value, int | float)}
        try:
            self._package.log(numbers, step=row["step"])
        except Exception as error:
            if not self._failed:
                log.warning("%s does not accept rows: %s", self._package.__name__, error)
            self._failed = True

    def close(self) -> None:
        """End the run."""
        try:
            self._package.finish()
        except Exception as error:
            log.warning("%s could not end its run: %s", self._package.__name__, error)
