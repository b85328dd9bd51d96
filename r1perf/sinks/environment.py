"""Note what a run ran on: versions, machine, the state of the working tree."""

import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("r1perf", "gevent", "hdrhistogram", "httptools", "locust", "msgspec", "numpy", "openai")


def environment(folder: Path) -> dict[str, Any]:
    """Describe versions, host and, where `folder` lies in a git work tree, its commit; what is not known is absent."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    host: dict[str, Any] = {"name": platform.node(), "system": platform.platform(), "machine": platform.machine()}
    host["cpus"] = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"versions": versions, "host": host, **_git(folder)}


def _git(folder: Path) -> dict[str, Any]:
    git = shutil.which("git")
    commit = _said(git, folder, "rev-parse", "HEAD") if git else None
    if git is None or commit is None:
        return {}
    return {"git": {"commit": commit, "dirty": bool(_said(git, folder, "status", "--porcelain", "--untracked-files=no"))}}


def _said(git: str, folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run([git, *arguments], cwd=folder, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
