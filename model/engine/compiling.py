"""Compiles the engine's C in a checkout, once for this machine; an installed package has it built.

The library is code that runs with the user's rights. So it is kept in a folder that no other user
can write to, and loaded only if it has the digest that was written next to it.
"""

import atexit
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

SOURCE = Path(__file__).parent / "source"
# Without contraction, a * b + c is rounded twice on every processor, so that all give the same.
OPTIONS = (
    *("-std=gnu11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fvisibility=hidden"),
    *("-Wno-psabi", "-fPIC", "-g0"),
)
SECONDS_TO_COMPILE = 600
ERRORS = (OSError, RuntimeError, subprocess.SubprocessError)  # of a build that fails


def digest_of_sources() -> str:
    """Return a digest of all that is compiled; empty if the sources are not there."""
    texts = [path.read_bytes() for path in sorted(SOURCE.glob("*.[ch]"))]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16] if texts else ""


def compiled(extra: tuple[str, ...] = ()) -> Path:
    """Return the library, compiled now unless the user's cache has it; raises one of ERRORS.

    extra: more options for the compiler.
    """
    command = [*_compiler(), *OPTIONS, "-shared", f'-DSOURCES="{digest_of_sources()}"', *extra]
    system = [platform.machine(), *platform.libc_ver()]  # since machines may share a home
    key = hashlib.sha256("\0".join([*command, *system]).encode()).hexdigest()[:16]
    folder = _cache()
    library = folder / f"engine-{key}.so"
    if not _is_whole(library):
        _compile([*command, str(SOURCE / "engine.c"), "-lm"], library)
    return library


def _compiler() -> list[str]:
    """Return the words of CC, or the path of a C compiler."""
    chosen = shlex.split(os.environ.get("CC", ""))
    for words in (chosen, ["cc"], ["gcc"], ["clang"]):
        if words and (path := shutil.which(words[0])):
            return [path, *words[1:]]
    raise RuntimeError("no C compiler")


def _cache() -> Path:
    """Return the user's folder of compiled code; a private temporary one if there is none."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        folder = (base if base.is_absolute() else Path.home() / ".cache") / "mlstm_sentiment"
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        runs_nothing = os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0)
        if _is_private(folder, stat.S_ISDIR) and os.access(folder, os.W_OK) and not runs_nothing:
            return folder
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        pass
    folder = Path(tempfile.mkdtemp(prefix="mlstm_sentiment-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _is_private(path: Path, is_kind: Callable[[int], bool]) -> bool:
    """Return whether no other user, except root, could have made or changed a file or folder."""
    status = path.lstat()
    if not hasattr(os, "getuid"):
        return is_kind(status.st_mode)
    writable_by_others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return is_kind(status.st_mode) and status.st_uid in (0, os.getuid()) and not writable_by_others


def _is_whole(library: Path) -> bool:
    """Return whether a library has the digest that was written when it was compiled."""
    digest = library.with_suffix(".sha256")
    try:
        if not all(_is_private(path, stat.S_ISREG) for path in (library, digest)):
            return False
        return hashlib.sha256(library.read_bytes()).hexdigest() == digest.read_text("ascii")
    except OSError:
        return False


def _compile(command: list[str], library: Path) -> None:
    """Compile, and put the library and its digest into place; each appears whole or not at all."""
    partial = library.with_name(f"{library.stem}.{os.getpid()}.tmp")
    try:
        done = subprocess.run(
            [*command, "-o", str(partial)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS_TO_COMPILE,
            check=False,
        )
        if done.returncode != 0:
            errors = [line for line in done.stderr.splitlines() if "error" in line.lower()]
            raise RuntimeError(f"{command[0]}: {(errors or ['failed'])[0][:300]}")
        partial.chmod(0o700)
        digest = hashlib.sha256(partial.read_bytes()).hexdigest()
        partial.replace(library)
        partial.write_text(digest, "ascii")
        partial.chmod(0o600)
        partial.replace(library.with_suffix(".sha256"))
    finally:
        partial.unlink(missing_ok=True)
