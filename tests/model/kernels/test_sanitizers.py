"""The compiled kernels under AddressSanitizer and ThreadSanitizer.

ThreadSanitizer does not see vector instructions: for it, the kernels are compiled without, and
Intel AMX is emulated. It sees no race in what it does not see, so a kernel with a race comes first.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processors import PROCESSORS
from tests.support.runs import ROOT

SECONDS = 1800
pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS)]

HERE = Path(__file__).parent.relative_to(ROOT)
PLAIN = {**PROCESSORS["no vectors"], **PROCESSORS["AMX"]}


def test_no_address_out_of_bounds(tmp_path):
    tests = (HERE / "amx", HERE / "test_compiled.py", HERE / "test_weight_gradients.py")
    options = {"ASAN_OPTIONS": f"log_path={tmp_path}/report:detect_leaks=0"}
    done = pytest_under("address", [], tmp_path, ROOT, *tests, **options)
    assert (done.returncode, reports(tmp_path)) == (0, []), done.stdout


@pytest.mark.parametrize("has_race", [True, False])
def test_no_race_of_threads(tmp_path, has_race):
    checkout = without_barrier(tmp_path / "copy") if has_race else ROOT
    runtime("thread")
    openmp = tmp_path / "openmp.so"
    source = ROOT / HERE / "team" / "openmp_for_tsan.cpp"
    subprocess.run(
        ["g++", "-fsanitize=thread", "-shared", "-fPIC", source, "-o", openmp], check=True
    )
    options = {"TSAN_OPTIONS": f"log_path={tmp_path}/report:ignore_noninstrumented_modules=1"}
    tests = (HERE / "test_compiled.py", "-k", "threads")
    done = pytest_under("thread", [openmp], tmp_path, checkout, *tests, **options, **PLAIN)
    assert (done.returncode == 0, reports(tmp_path) == []) == (not has_race,) * 2, done.stdout


def without_barrier(copy):
    """Return a copy of the kernels whose threads do not wait for each other."""
    shutil.copytree(ROOT, copy, ignore=lambda folder, names: others(Path(folder), names))
    header = copy / "model" / "kernels" / "team.h"
    waits = "if (size == 1) return;"
    assert waits in header.read_text()
    header.write_text(header.read_text().replace(waits, "return;"))
    return copy


def others(folder, names):
    if folder == ROOT:
        return {name for name in names if name.startswith(".") or name in ("runs", "data")}
    return {"__pycache__"}


def pytest_under(sanitizer, preloaded, work, checkout, *tests, **variables):
    """Run tests of a checkout whose kernels are compiled with a sanitizer of g++."""
    environment = {
        **os.environ,
        "CXX": f"g++ -fsanitize={sanitizer} -g",
        "XDG_CACHE_HOME": str(work / "cache"),
        "LD_PRELOAD": " ".join(map(str, [*runtime(sanitizer), *preloaded])),
        "OMP_NUM_THREADS": "2",
        **variables,
    }
    (work / "cache").mkdir()
    words = ("pytest", "-q", "-p", "no:cacheprovider", "--timeout", str(SECONDS))
    command = [sys.executable, "-m", *words, *map(str, tests)]
    return subprocess.run(
        command,
        cwd=checkout,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def runtime(sanitizer):
    """Return the libraries that must be loaded before all others: the sanitizer's, C++'s."""
    if not shutil.which("g++"):
        pytest.skip("no g++")
    names = {"address": "libasan.so", "thread": "libtsan.so"}[sanitizer], "libstdc++.so.6"
    paths = []
    for name in names:
        command = ["g++", f"-print-file-name={name}"]
        path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        if not Path(path).is_absolute():
            pytest.skip(f"g++ has no {name}")
        paths.append(path)
    return paths


def reports(work):
    return [path.read_text() for path in sorted(work.glob("report*"))]
