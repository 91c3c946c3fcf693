"""A virtual environment for each rival, made once, with what is in it written down."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import xxhash
from contestants import COLRANK, Rival

ROOT = Path(__file__).parents[2]
SOURCE = ("pyproject.toml", "README.md", "LICENSE", "colrank", "kernels")


class Venvs:
    """The environments under a folder.

    Attributes:
        source: digest of the working tree of colrank, a part of the name of what was measured with it.
    """

    def __init__(self, work: Path) -> None:
        self._folder = work / "venvs"
        self._copy = work / "source"
        self.source = _digest(ROOT)

    def pins(self, rival: Rival) -> list[str]:
        """What the environment is made of, the working tree by its digest."""
        return [f"{each} {self.source}" if each.startswith(COLRANK) else each for each in rival.requirements]

    def python(self, rival: Rival) -> Path:
        """The interpreter of a rival's environment, which is made, or brought up to date, where need be."""
        folder = self._folder / rival.name
        python, made = folder / "bin" / "python", folder / "pins.json"
        pins = self.pins(rival)
        if made.exists() and json.loads(made.read_text())["pins"] == pins:
            return python
        print(f"{rival.name}: installing {', '.join(rival.requirements)}", flush=True)
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        self._install(python, rival)
        found = subprocess.run([python, "-m", "pip", "freeze"], check=True, capture_output=True, text=True)
        made.write_text(json.dumps({"pins": pins, "installed": found.stdout.splitlines()}, indent=1))
        return python

    def installed(self, rival: Rival) -> list[str]:
        """Every package of a rival's environment with its version."""
        return json.loads((self._folder / rival.name / "pins.json").read_text())["installed"]

    def _install(self, python: Path, rival: Rival) -> None:
        install = [python, "-m", "pip", "install", "--quiet"]
        requirements = list(rival.requirements)
        ours = [each for each in requirements if each.startswith(COLRANK)]
        if ours:
            # A copy, so that neither the build nor a later edit and the runs get in each other's way.
            _copy(ROOT, self._copy)
            requirements = [each.replace(COLRANK, str(self._copy), 1) for each in requirements]
        # Without compilers a slower colrank would be measured unawares.
        environment = {**os.environ, "COLRANK_KERNELS": "required"}
        subprocess.run([*install, *requirements], check=True, env=environment)
        if ours:
            # Its version number stands still between edits, so that the step above may have kept an old one.
            again = [*install, "--force-reinstall", "--no-deps", str(self._copy)]
            subprocess.run(again, check=True, env=environment)


def _files(root: Path) -> list[Path]:
    found = []
    for name in SOURCE:
        path = root / name
        found += [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    return [path for path in found if "__pycache__" not in path.parts and path.suffix != ".so"]


def _digest(root: Path) -> str:
    digest = xxhash.xxh3_64()
    for path in _files(root):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _copy(root: Path, target: Path) -> None:
    for name in SOURCE:
        shutil.rmtree(target / name, ignore_errors=True)
    for path in _files(root):
        place = target / path.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)
