"""Where a result comes from: revision, versions, hardware."""

import platform
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from mlstm_sentiment.engine.cores import ROOT as OS_ROOT
from mlstm_sentiment.engine.cores import usable_cores
from model.kernels.cores import has_instructions

_BF16_INSTRUCTIONS = ("amx_bf16", "avx512_bf16")
ROOT = Path(__file__).resolve().parent.parent
RESULTS = ("experiments/*/results/*", "experiments/*/results.json")
_PACKAGES = ("torch", "numpy", "scikit-learn", "safetensors")


def describe_origin() -> dict[str, Any]:
    """Return what another person needs to judge or repeat a result."""
    import torch

    spec = getattr(sys.modules["__main__"], "__spec__", None)
    program = f"-m {spec.name}" if spec else _without_folders(sys.argv[0])
    command = f"{program} {shlex.join(map(_without_folders, sys.argv[1:]))}".strip()
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "git_revision": git_revision(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "versions": {name: _installed_version(name) for name in _PACKAGES},
        "hardware": {
            "machine": platform.machine(),
            "cores": usable_cores(),
            "processor": processor_name(),
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
            "bf16_instructions": [name for name in _BF16_INSTRUCTIONS if has_instructions(name)],
            "gpus": gpus,
        },
        "command": command.encode(errors="replace").decode(),  # names may not be UTF-8
    }


def _without_folders(word: str) -> str:
    """Keep only the name of a path, also after an option's =, so that results show no folders."""
    if word.startswith(("/", "../")):
        return Path(word).name
    option, sign, value = word.partition("=")
    return option + sign + _without_folders(value) if sign else word


def git_revision(root: Path = ROOT) -> str:
    """Return a checkout's commit, with -dirty if files differ; `unknown` outside of git.

    Changed result files do not count: a measurement writes them, and must not mark itself dirty.
    """
    commit = _git(root, "rev-parse", "--short=12", "HEAD")
    others = ("--untracked-files=no", "--", ".", *(f":!{files}" for files in RESULTS))
    changes = _git(root, "status", "--porcelain", *others)
    return commit + "-dirty" * bool(changes) if commit else "unknown"


def _git(root: Path, *arguments: str) -> str:
    """Return what git prints about a checkout; nothing without git or outside a repository."""
    try:
        process = subprocess.run(
            ["git", "--no-optional-locks", *arguments],  # reads, and leaves the index as it is
            cwd=root,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return process.stdout.strip()


def _installed_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def processor_name(root: Path = OS_ROOT) -> str:
    """Return the processor's name, family and model; of ARM, its implementer and part.

    root: the folder that has proc.
    """
    lines: list[str] = []
    with suppress(OSError):  # only Linux has it
        lines = (root / "proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    facts = dict(re.split(r"\s*:\s*", line, maxsplit=1) for line in lines if ":" in line)
    name = facts.get("model name") or platform.processor() or platform.machine()
    keys = ("cpu family", "model", "CPU implementer", "CPU part")
    return " ".join([name, *(f"{key} {facts[key]}" for key in keys if key in facts)])
