"""Builds the wheel: the library from the Go sources beside this folder, and one wheel for every Python."""

import os
import pathlib
import subprocess
import sys

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

SOURCES = pathlib.Path(__file__).resolve().parent.parent
LIBRARY = {"darwin": "libweir.dylib", "win32": "libweir.dll"}.get(sys.platform, "libweir.so")


class BuildLibrary(build_py):
    """Adds the library to the package."""

    def run(self):
        super().run()
        if not (SOURCES / "cmd" / "libweir").is_dir():
            sys.exit("weir's Go sources are not beside this folder: install it from a clone of the repository")
        target = pathlib.Path(self.build_lib).resolve() / "weir" / LIBRARY
        build = ["go", "build", "-trimpath", "-ldflags=-s -w", "-buildmode=c-shared", "-o", str(target), "./cmd/libweir"]
        try:
            subprocess.run(build, cwd=SOURCES, env={**os.environ, "CGO_ENABLED": "1"}, check=True)
        except FileNotFoundError:
            sys.exit("weir is built by Go, which is not here: https://go.dev/dl")
        target.with_suffix(".h").unlink(missing_ok=True)


class Wheel(bdist_wheel):
    """A wheel whose library depends on the platform, but not on the version of Python."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class WithLibrary(Distribution):
    """Marks the package as not pure, so that it is installed in the platform's folder."""

    def has_ext_modules(self):
        return True


setup(distclass=WithLibrary, cmdclass={"build_py": BuildLibrary, "bdist_wheel": Wheel})
