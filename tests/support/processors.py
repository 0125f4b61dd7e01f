"""Run the tests marked `processor` as on other processors than this one.

python -m tests.support.processors

What `auto` chooses, and how products round, differs by processor. Environment variables that torch,
oneDNN and model/kernels/cores.py read take instructions away; Intel AMX is emulated in plain C++.
"""

import os
import shlex
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from tests.support.forked import run_forked

ROOT = Path(__file__).resolve().parents[2]
PROCESSORS = {
    "no vectors": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"},
    "AVX2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "AVX512": {"ATEN_CPU_CAPABILITY": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI"},
    "AVX512-BF16": {"ATEN_CPU_CAPABILITY": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"},
    "AMX": {"MLSTM_EMULATED_AMX": "1"},
}
NEEDED = {"AVX2": "avx2", "AVX512": "avx512_vnni", "AVX512-BF16": "avx512_bf16"}
AT_ONCE = 2
LIMIT = 300  # seconds for a processor


def has(instructions: str) -> bool:
    """Return whether this processor itself has these instructions, if torch can tell."""
    return bool(getattr(torch.cpu, "get_capabilities", dict)().get(instructions))


def simulated_here() -> Iterator[str]:
    """Yield the processors whose instructions this one has."""
    for name in PROCESSORS:
        if name not in NEEDED or has(NEEDED[name]):
            yield name
        else:
            print(f"not simulated: {name}; this processor lacks {NEEDED[name]}")


def files_with_the_marker() -> list[str]:
    """Return these files, since pytest takes long to collect all."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(path.relative_to(ROOT)) for path in files if "mark.processor" in path.read_text()]


def run_on(name: str) -> tuple[int, str]:
    """Run the marked tests as on a processor; return pytest's exit code and what to print.

    In a process that has imported torch, which asks for the processor only when it first computes.
    """
    begun = time.monotonic()
    pytest = ("pytest", "-q", "-p", "no:cacheprovider", "-m", "processor and not slow and not gpu")
    words = ["-m", *pytest, *files_with_the_marker()]
    done = run_forked(words, ROOT, LIMIT, os.environ | PROCESSORS[name])
    if done.returncode == 0:
        return 0, f"{name}: {done.stdout.splitlines()[-1]}"
    variables = shlex.join(f"{key}={value}" for key, value in PROCESSORS[name].items())
    seconds = time.monotonic() - begun
    return (
        done.returncode,
        f"{name} ({variables}), {seconds:.0f} s:\n{done.stdout}{done.stderr}",
    )


def main() -> int:
    """Return 1 if a test failed on any processor."""
    failed = 0
    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"  # as tests/conftest.py, which comes too late here
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for code, report in pool.map(run_on, simulated_here()):
            print(report, flush=True)
            failed |= code != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
