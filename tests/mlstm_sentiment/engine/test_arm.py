"""NEON itself, in an emulated processor, gives the same bits as this machine's paths."""

import shutil
import subprocess
from pathlib import Path

import pytest

from mlstm_sentiment.engine.sources import OPTIONS, SOURCE

COMPILERS = {"here": "gcc", "arm": "aarch64-linux-gnu-gcc"}
EMULATOR = "qemu-aarch64"


@pytest.mark.long
@pytest.mark.skipif(
    not all(map(shutil.which, (*COMPILERS.values(), EMULATOR))),
    reason="needs gcc-aarch64-linux-gnu and qemu-user (Debian)",
)
def test_neon_computes_the_same(tmp_path):
    digests = {}
    for name, compiler in COMPILERS.items():
        program = tmp_path / name
        source = Path(__file__).parent / "all_paths.c"
        quick = ("-O1", "-static")  # -O3 takes three times as long
        command = [compiler, *OPTIONS, *quick, f"-I{SOURCE}", source, "-o", program, "-lm"]
        subprocess.run(command, check=True)
        start = [EMULATOR, "-cpu", "max"] if name == "arm" else []
        lines = subprocess.run([*start, program], check=True, capture_output=True, text=True).stdout
        for parts, path, digest in map(str.split, lines.splitlines()):
            digests.setdefault(parts, {})[name, int(path)] = digest
    for of_paths in digests.values():
        assert ("arm", 1) in of_paths  # numbered as in engine.c
        assert len(set(of_paths.values())) == 1, of_paths
