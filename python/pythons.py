"""Tests the package on every Python on this machine, each in an environment of its own: make pythons.

    python pythons.py FOLDER

makes the environments in FOLDER. It looks for interpreters on PATH, among pyenv's, and in WEIR_PYTHONS, a list of their
paths in the form of PATH. It names the versions that it did not find. The exit status is 1 if a test fails, or if an
environment cannot be made.
"""

from __future__ import annotations

import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Iterator, NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
MINORS = range(10, 15)
PIP = ["-m", "pip", "--disable-pip-version-check"]
SECONDS = 1200  # the limit for the tests of one interpreter

# What the tests import, and what that needs, of testdata/requirements.txt.
PACKAGES = "iniconfig ml_dtypes numpy onnx packaging pluggy protobuf Pygments pytest typing_extensions".split()
# The official cases of ONNX take as long as all other tests, and depend little on Python: make python runs them.
TESTS = ["-q", "-k", "not official_cases", "-p", "no:cacheprovider"]

ASK = """
import json, sys, sysconfig
print(json.dumps([sys.version_info[0], sys.version_info[1], sys.version.split()[0],
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")), hasattr(sys, "gettotalrefcount")]))
"""


class Python(NamedTuple):
    """An interpreter. free is one without the global lock, debug a debug build."""

    path: str
    minor: int
    version: str
    free: bool
    debug: bool

    @property
    def label(self) -> str:
        """A name such as 3.12, 3.13t or 3.11d."""
        return f"3.{self.minor}{'t' * self.free}{'d' * self.debug}"

    def pins(self) -> dict[str, str]:
        """The packages of an environment: the versions of testdata/requirements.txt, or the last with wheels for the
        Python.
        """
        text = (HERE.parent / "testdata" / "requirements.txt").read_text()
        pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", text, re.M))
        pins = {name: pinned[name] for name in PACKAGES}
        if self.minor == 10:
            pins.update(numpy="2.2.6", exceptiongroup="1.3.2", tomli="2.5.0")
        if self.free and self.minor == 13:
            pins.update(ml_dtypes="0.5.4")
            del pins["onnx"], pins["protobuf"]  # no version of them has both the official cases and a wheel
        return pins


def names() -> Iterator[str]:
    """The names that interpreters may have."""
    for minor in MINORS:
        for ending in ("", "t", "-dbg", "d", "td", "t-dbg"):
            yield f"python3.{minor}{ending}"
    yield "python3-dbg"


def candidates() -> Iterator[str]:
    """The paths of possible interpreters."""
    yield from filter(None, os.environ.get("WEIR_PYTHONS", "").split(os.pathsep))
    root = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    folders = [f for f in os.get_exec_path() if os.path.basename(f) != "shims"]  # of pyenv, whose versions follow below
    folders += sorted(glob.glob(os.path.join(root, "versions", "*", "bin")))
    for folder in folders:
        for name in names():
            if found := shutil.which(name, path=folder):
                yield found


def found() -> dict[str, Python]:
    """The interpreters on this machine by their labels: the first of each."""
    pythons: dict[str, Python] = {}
    for path in candidates():
        try:
            told = subprocess.run([path, "-I", "-c", ASK], capture_output=True, text=True, timeout=60, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"   {path} does not run, and is left out: {error}")
            continue
        major, minor, version, free, debug = json.loads(told.stdout)
        if major == 3 and minor in MINORS:
            python = Python(path, minor, version, free, debug)
            pythons.setdefault(python.label, python)
    return dict(sorted(pythons.items(), key=lambda item: (item[1].minor, item[1].free, item[1].debug)))


def environment(python: Python, folder: pathlib.Path, wheel: pathlib.Path) -> pathlib.Path:
    """Makes a virtual environment with the package, unless it is there already, and returns its interpreter."""
    home = folder / python.label
    stamp = home / "ready"
    inside = home / "bin" / "python"
    pins = [f"{name}=={version}" for name, version in sorted(python.pins().items())]
    told = "\n".join([python.path, python.version, *pins])
    pip = [str(inside), *PIP, "install", "--quiet", "--no-deps"]  # its own pip, which knows the wheels that fit it
    if not stamp.exists() or stamp.read_text() != told:
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([python.path, "-m", "venv", str(home)], check=True)
        subprocess.run([*pip, "--only-binary", ":all:", *pins], check=True)
        stamp.write_text(told)
    subprocess.run([*pip, "--force-reinstall", str(wheel)], check=True)
    return inside


def test(python: Python, folder: pathlib.Path, wheel: pathlib.Path) -> bool:
    """Runs the tests in development mode, and reports whether they passed."""
    print(f"== the Python package on {python.label}: {python.version}, {python.path}", flush=True)
    try:
        inside = environment(python, folder, wheel)
        command = [str(inside), "-X", "dev", *(["-X", "gil=0"] if python.free else [])]
        subprocess.run([*command, str(inside.with_name("pytest")), *TESTS], cwd=HERE, check=True, timeout=SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"   FAILED on {python.label}: {error}", flush=True)
        return False
    return True


def main() -> None:
    """Builds the package once for all, and tests it on each."""
    folder = pathlib.Path(sys.argv[1]).resolve()
    wheels = folder / "wheel"
    shutil.rmtree(wheels, ignore_errors=True)
    build = [sys.executable, *PIP, "wheel", "--quiet", "--no-build-isolation", "--no-deps"]
    subprocess.run([*build, "-w", str(wheels), str(HERE)], check=True)
    (wheel,) = wheels.glob("*.whl")
    pythons = found()
    failed = [label for label, python in pythons.items() if not test(python, folder, wheel)]
    missing = [label for label in (f"3.{minor}" for minor in MINORS) if label not in pythons]
    missing += [] if any(p.free for p in pythons.values()) else ["one without the global lock (3.13t, 3.14t)"]
    missing += [] if any(p.debug for p in pythons.values()) else ["a debug build (python3-dbg)"]
    passed = [label for label in pythons if label not in failed]
    print(f"== the Python package passed its tests on: {', '.join(passed) or 'NONE'}")
    print("   without the official cases of ONNX, which make python has; 3.13t has no onnx at all")
    if missing:
        print(f"   NOT FOUND, AND SO NOT TESTED: {', '.join(missing)}")
    if failed:
        sys.exit(f"   FAILED: {', '.join(failed)}")


main()
