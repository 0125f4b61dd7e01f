"""Compiling the recurrence: cached, safe between processes, replaced if it fails."""

import os
import shutil
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import filelock
import pytest

from mlstm_sentiment.files import compiled_code
from mlstm_sentiment.files.writer import RECORD
from model.kernels import compilation
from tests.model.kernels.compilers import broken_compiler, quick_compiler
from tests.support.runs import run_code, start

USE = """
import logging, re, sys, torch
from pathlib import Path
def openmp():
    maps = Path("/proc/self/maps")
    return set(re.findall(r"/\\S*/lib[gi]?omp\\S*", maps.read_text() if maps.exists() else ""))
of_torch = openmp()
logging.basicConfig(stream=sys.stderr, format="%(message)s")
from model.kernels.cpp.mlstm import runs_compiled
from model.kernels.reference.mlstm import reference_mlstm
from model.layers.recurrence import recur
from model.state import State
from model.kernels.window import RecurrentWeights, RecurrenceInput
g = torch.Generator().manual_seed(0)
x, h, w_mh, w_h = (torch.randn(s, generator=g) for s in ((3, 2, 40), (2, 8), (8, 8), (32, 8)))
window = RecurrenceInput(x, State(h, h), RecurrentWeights(w_mh, w_h, torch.zeros(32)))
fused, exact = recur("auto", window)[0], reference_mlstm(window)[0]
assert torch.allclose(fused, exact, atol=1e-5), (fused - exact).abs().max()
assert openmp() == of_torch  # threads of another one would poll beside torch's
print(runs_compiled(w_mh))
"""


def use(cache, **environment):
    """Run the fused recurrence in a process of its own; return (compiled?, stderr)."""
    process = run_code(USE, env={"XDG_CACHE_HOME": str(cache)} | environment)
    assert process.returncode == 0, process.stderr
    return process.stdout.strip() == "True", process.stderr


def libraries(cache):
    return list(cache.rglob("*.so"))


def compiled_aloud(cache, **environment):
    """Compile, and return the messages but the one that it takes its time."""
    compiled, stderr = use(cache, **environment)
    assert compiled
    said = stderr.splitlines()
    assert said.pop().startswith("compiling the recurrence for this machine, once (window.cpp)")
    return said


def path_to_a_quick_compiler(folder):
    return f"{quick_compiler(folder).parent}:{os.environ['PATH']}"


@pytest.fixture(scope="module")
def compiled_cache(tmp_path_factory):
    """A cache in which a first use has compiled; only to be read."""
    cache = tmp_path_factory.mktemp("compiled")
    assert compiled_aloud(cache, CXX="", PATH=path_to_a_quick_compiler(cache)) == []
    return cache


def test_compiles_once_and_keeps_it(compiled_cache):
    (library,) = libraries(compiled_cache)
    written = library.stat().st_mtime_ns
    path = path_to_a_quick_compiler(compiled_cache)
    assert use(compiled_cache, CXX="/no/such/compiler", PATH=path) == (True, "")
    assert library.stat().st_mtime_ns == written
    assert not list(compiled_cache.rglob("*.tmp"))


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["g++", "g++-11", "clang++", "clang++-14"])
def test_every_compiler_builds_on_the_threads_of_torch(tmp_path, compiler):
    if shutil.which(compiler) is None:
        pytest.skip("not installed")
    assert compiled_aloud(tmp_path, CXX=compiler) == []


@pytest.mark.parametrize(
    ("cxx", "broken", "said"),
    [
        pytest.param("", False, "the recurrence was not compiled (no C++ compiler)", id="none"),
        pytest.param("c++", True, "error: unknown flag", id="one that fails"),
        pytest.param(
            "/no/such/compiler",
            True,
            "CXX names /no/such/compiler, which is not an installed program; using ",
            id="one that is not there",
        ),
    ],
)
def test_without_a_compiler_that_works_it_warns_once_and_continues(tmp_path, cxx, broken, said):
    if broken:
        broken_compiler(tmp_path)
    path = f"{tmp_path}:/usr/bin:/bin" if broken else str(tmp_path)
    compiled, stderr = use(tmp_path, CXX=cxx, PATH=path)
    assert not compiled
    assert stderr.count(said) == 1
    assert "C++20 compiler: g++ 11 or clang 14, named by CXX" in stderr
    assert not libraries(tmp_path)


def test_copies_of_the_sources_share_one_build(tmp_path, monkeypatch):
    """An example is a checkout and the package installed from it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    built = set()
    for text in ("int one() { return 1; }", "int one() { return 1; }", "int two() { return 2; }"):
        source = tmp_path / str(len(list(tmp_path.iterdir()))) / "window.cpp"
        source.parent.mkdir()
        source.write_text(text)
        compilation.load(compilation.Build(source, ("-O0",)))
        built |= set(libraries(tmp_path))
        assert len(built) == (2 if "two" in text else 1)


@pytest.fixture
def build(tmp_path, monkeypatch):
    """A build that is not yet in its cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = tmp_path / "window.cpp"
    source.write_text('extern "C" int one() { return 1; }')
    return compilation.Build(source, ("-O0",))


def test_a_cache_that_cannot_be_made_is_done_without(build, tmp_path, monkeypatch):
    for home in (str(tmp_path), "relative"):  # which XDG does not allow
        monkeypatch.setenv("XDG_CACHE_HOME", home)
        monkeypatch.setenv("HOME", str(tmp_path / "mlstm_sentiment"))
        (tmp_path / "mlstm_sentiment").write_text("a file where the folder should be")
        assert compilation.load(build).one() == 1
    assert not Path("relative").exists()


@pytest.fixture
def built(build, tmp_path, monkeypatch):
    """A build and its library in a cache; from now on there is no compiler."""
    monkeypatch.delenv("CXX", raising=False)
    compilation._compiled(build)  # without loading it: a test may change the file
    monkeypatch.setenv("PATH", str(tmp_path))
    (library,) = libraries(tmp_path)
    return build, library


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no owners and modes")
@pytest.mark.parametrize("fault", ["others may write", "a group may write", "a link", "theirs"])
def test_what_others_could_have_planted_is_not_loaded(built, monkeypatch, caplog, fault):
    build, library = built
    folder = library.parent
    if fault == "a link":
        folder = folder.rename(folder.with_name("elsewhere"))
        library.parent.symlink_to(folder)
    elif fault == "theirs":
        monkeypatch.setattr(os, "getuid", lambda: 12345)
        if library.stat().st_uid == 0:  # whom everybody has to trust
            os.chown(folder, 54321, -1)
    else:
        folder.chmod(0o777 if fault == "others may write" else 0o770)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no C\\+\\+ compiler"):  # it would build its own
            compilation.load(build)
    assert caplog.text.count("is not used for compiled code") == 1
    assert (folder / library.name).exists()


def test_a_cache_is_for_its_user_alone_and_needs_no_compiler_or_right_to_write(built, monkeypatch):
    _, library = built
    assert library.parent.stat().st_mode & 0o777 == 0o700
    assert library.stat().st_mode & 0o022 == 0
    assert {path.suffix for path in library.parent.iterdir()} >= {".so", ".jsonl"}
    build, library = built
    monkeypatch.setattr(os, "access", lambda *arguments: False)
    assert Path(compilation.load(build)._name) == library


# Cut after it was made, as a full disk or a crash leaves it: loaded, it would end the process.
@pytest.mark.parametrize("damage", ["cut", "digest lost", "another library", "another's digest"])
def test_a_library_that_is_not_as_it_was_built_is_built_again(built, monkeypatch, tmp_path, damage):
    build, library = built
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    digest = library.with_name(RECORD)
    if damage == "cut":
        os.truncate(library, library.stat().st_size // 2)
    elif damage == "digest lost":
        digest.unlink()
    elif damage == "another library":
        source = tmp_path / "planted.cpp"
        source.write_text("int planted() { return 2; }")
        compiler = compiled_code.CXX.command()
        subprocess.run([*compiler, "-shared", "-fPIC", source, "-o", library], check=True)
    else:
        digest.write_text("0" * 64)
    assert compilation.load(build).one() == 1
    assert compiled_code._is_whole(library, build.function)


def test_a_library_without_our_functions_is_built_again_and_refused(build):
    compilation._compiled(build)  # of the same name
    with pytest.raises(RuntimeError, match="the compiled library lacks two"):
        compilation.load(build._replace(function="two"))


def test_cxx_may_have_options_and_a_launcher(tmp_path, monkeypatch):
    compiler = quick_compiler(tmp_path)
    launcher = tmp_path / "launch"
    launcher.write_text('#!/bin/sh\nexec "$@"\n')
    launcher.chmod(0o755)
    source = tmp_path / "window.cpp"
    source.write_text('extern "C" int one() { return ONE; }')
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for one in (1, 2):
        monkeypatch.setenv("CXX", f"{launcher} {compiler} -DONE={one}")
        assert compilation.load(compilation.Build(source, ())).one() == one
    for nothing in ("", "  ", 'g++ "'):
        monkeypatch.setenv("CXX", nothing)
        assert len(compiled_code.CXX.command()) == 1


@pytest.mark.skipif(not hasattr(os, "ST_NOEXEC"), reason="the system does not tell")
def test_a_cache_from_which_no_code_runs_is_left_alone(built, monkeypatch):
    """It may be a home folder from which other machines run code."""
    build, library = built
    whole = library.read_bytes()
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_NOEXEC))
    with pytest.raises(RuntimeError, match="no C\\+\\+ compiler"):
        compilation.load(build)
    assert library.read_bytes() == whole


def test_processes_share_one_build(tmp_path):
    counter, source = tmp_path / "builds", tmp_path / "window.cpp"
    source.write_text("int one() { return 1; }")
    counting = quick_compiler(tmp_path, before=f"echo built >> {counter}; sleep 1")
    environment = {"XDG_CACHE_HOME": str(tmp_path), "CXX": str(counting)}
    code = (
        "from pathlib import Path; from model.kernels.compilation import Build, load; "
        f"load(Build(Path({str(source)!r}), ()))"
    )
    processes = [start("-c", code, env=environment) for _ in range(3)]
    said = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], said
    assert counter.read_text().split() == ["built"]


def test_compiling_waits_neither_for_a_live_process_nor_a_compiler_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled_code, "SECONDS_TO_COMPILE", 0.2)
    with filelock.FileLock(tmp_path / "window.lock"):
        started = time.monotonic()
        with compiled_code._one_at_a_time(tmp_path / "window.so"):
            assert 0.1 < time.monotonic() - started < 60
    monkeypatch.setattr(compiled_code, "SECONDS_TO_COMPILE", 0.1)
    sleeping = tmp_path / "compiler" / "c++"
    sleeping.parent.mkdir()
    sleeping.write_text("#!/bin/sh\nexec sleep 60\n")
    sleeping.chmod(0o755)
    with pytest.raises(RuntimeError, match=r"c\+\+: took longer than 0\.1 s$"):
        compiled_code._compile([str(sleeping)], sleeping.with_name("window.so"))
    assert list(sleeping.parent.iterdir()) == [sleeping]
