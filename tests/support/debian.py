"""Programs of Debian's packages for tests: fetched and unpacked beside what set-up installs, never installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

DOWNLOAD_SECONDS: Final = 60


def program(package: str, path: str, *, named: str) -> Path | None:
    """The program at that path of the package: the one that the variable ``named`` names, the machine's own, else the
    package's; None where there is none.
    """
    search = f"{os.environ.get('PATH', '')}:/usr/sbin"
    if found := os.environ.get(named) or shutil.which(Path(path).name, path=search):
        return Path(found)
    kept = Path(sys.prefix) / package
    if not (kept / path).exists():
        _unpack(package, kept)
    return kept / path if (kept / path).exists() else None


def _unpack(package: str, kept: Path) -> None:
    """By Debian's own programs, where there are any."""
    apt, dpkg = shutil.which("apt-get"), shutil.which("dpkg-deb")
    if apt is None or dpkg is None:
        return
    # Of its own, because two processes of the tests may come here at the same time.
    fetched = Path(tempfile.mkdtemp(prefix=f"{package}-", dir=kept.parent))
    try:
        _do([apt, "download", package], fetched)
        (archive,) = fetched.glob(f"{package}_*.deb")
        _do([dpkg, "-x", str(archive), "unpacked"], fetched)
        (fetched / "unpacked").rename(kept)
    except (subprocess.SubprocessError, OSError, ValueError):
        pass
    finally:
        shutil.rmtree(fetched, ignore_errors=True)


def _do(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=DOWNLOAD_SECONDS)
