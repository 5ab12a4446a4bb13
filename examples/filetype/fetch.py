"""Fetches the file-type model: python3 fetch.py [FOLDER], by default .cache/magika at the top of the repository.

The model is part of the package magika 1.0.3 (Apache-2.0). Where this Python has the package installed, the files are copied from
there. Otherwise pip downloads it from the package index and checks it against the hash below: the wheel of one platform serves all,
since only the model and its tables are taken out of it. Nothing is run, nothing installed.
"""
import importlib.metadata
import os
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "magika==1.0.3"
HASH = "sha256:3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529"
PLATFORM = "manylinux_2_28_x86_64"
FILES = {
    "magika/models/standard_v3_3/model.onnx": "model.onnx",
    "magika/models/standard_v3_3/config.min.json": "config.min.json",
    "magika/config/content_types_kb.min.json": "content_types_kb.min.json",
}


def installed():
    """The files' contents from the installed package, or None."""
    try:
        package = importlib.metadata.distribution("magika")
    except importlib.metadata.PackageNotFoundError:
        return None
    if "magika==" + package.version != PACKAGE:
        return None
    contents = {}
    for member in FILES:
        with open(package.locate_file(member), "rb") as f:
            contents[member] = f.read()
    return contents


def downloaded():
    """The files' contents from the wheel that pip downloads."""
    with tempfile.TemporaryDirectory() as temporary:
        requirements = os.path.join(temporary, "requirements.txt")
        with open(requirements, "w") as f:
            f.write(f"{PACKAGE} --hash={HASH}\n")
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
                        f"--platform={PLATFORM}", "--require-hashes", "--dest", temporary, "--requirement", requirements], check=True)
        wheel, = (name for name in os.listdir(temporary) if name.endswith(".whl"))
        with zipfile.ZipFile(os.path.join(temporary, wheel)) as archive:
            return {member: archive.read(member) for member in FILES}


def main():
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(top, ".cache", "magika")
    if all(os.path.exists(os.path.join(folder, name)) for name in FILES.values()):
        return
    contents = installed() or downloaded()
    os.makedirs(folder, exist_ok=True)
    for member, name in FILES.items():
        path = os.path.join(folder, name)
        with open(path + ".part", "wb") as f:
            f.write(contents[member])
        os.replace(path + ".part", path)
    print(f"{PACKAGE}: {', '.join(FILES.values())} in {os.path.relpath(folder)}")


if __name__ == "__main__":
    main()
