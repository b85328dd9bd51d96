"""Environments with other versions of pytest, made once under `.cache/pytests`.

Each has its own pytest and the plugins that ours must get along with; everything else, r1perf too, comes from the environment
that runs these tests, which stands behind it on the path.
"""

import hashlib
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from services import CACHE

VERSIONS = ("8.4.2", "9.0.3", "9.1.1", "9.2.0")
"""The newest patch of each version that the plugin supports."""

BESIDE = ("execnet==2.1.2", "pytest-asyncio==1.5.0", "pytest-rerunfailures==16.7", "pytest-xdist==3.8.0")


def python(version: str) -> Path:
    """Return the interpreter of the environment with this pytest; skip where it cannot be made."""
    pins = (f"pytest=={version}", *BESIDE)
    name = f"{version}-{hashlib.sha256(repr((pins, sys.prefix, sys.version)).encode()).hexdigest()[:8]}"
    folder = CACHE / "pytests" / name
    if not (folder / "ready").exists():
        _make(folder, pins)
    return folder / "bin" / "python"


def pip(interpreter: Path, *words: str | Path) -> "subprocess.CompletedProcess[str]":
    """Install into an environment that has no pip of its own."""
    return subprocess.run([*pip_for(interpreter), *words], capture_output=True, text=True, check=False)


def pip_for(interpreter: Path) -> list[str | Path]:
    """Return the command of a pip that installs there: ours, or that of the Python that ours was made from; skip without one."""
    for each in (sys.executable, getattr(sys, "_base_executable", sys.executable)):
        if subprocess.run([each, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
            return [each, "-m", "pip", "--disable-pip-version-check", "--python", interpreter]
    pytest.skip("no pip: environments of their own cannot be made")


def empty(folder: Path) -> Path:
    """Make an environment with nothing in it and return its interpreter."""
    venv.create(folder, with_pip=False, clear=True)
    return folder / "bin" / "python"


def _make(folder: Path, pins: tuple[str, ...]) -> None:
    interpreter = empty(folder)
    installed = pip(interpreter, "install", "--quiet", "--no-deps", *pins)
    if installed.returncode:
        shutil.rmtree(folder)
        pytest.skip(f"pytest {pins[0].partition('==')[2]} cannot be installed: {installed.stderr.strip().splitlines()[-1]}")
    site = next((folder / "lib").glob("python*/site-packages"))
    # Own packages come first; what stands behind them are paths of the environment that runs this.
    behind = [sysconfig.get_path("purelib"), *(str(path) for path in sys.path if path.endswith("site-packages"))]
    (site / "behind.pth").write_text("".join(f"import site; site.addsitedir({path!r})\n" for path in dict.fromkeys(behind)))
    (folder / "ready").touch()
