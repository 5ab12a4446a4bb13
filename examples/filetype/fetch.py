"""Fetches the file-type model: python3 fetch.py [FOLDER], by default .cache/magika at the top of the repository.

The model is part of the package magika 1.0.3 (Apache-2.0), which pip downloads from the package index and checks against the hash
below. The wheel of one platform serves all: only the model and its tables are taken out of it. Nothing is run, nothing installed.
"""
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


def main():
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(top, ".cache", "magika")
    if all(os.path.exists(os.path.join(folder, name)) for name in FILES.values()):
        return
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        requirements = os.path.join(temporary, "requirements.txt")
        with open(requirements, "w") as f:
            f.write(f"{PACKAGE} --hash={HASH}\n")
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
                        f"--platform={PLATFORM}", "--require-hashes", "--dest", temporary, "--requirement", requirements], check=True)
        wheel, = (name for name in os.listdir(temporary) if name.endswith(".whl"))
        with zipfile.ZipFile(os.path.join(temporary, wheel)) as archive:
            for member, name in FILES.items():
                path = os.path.join(temporary, name)
                with open(path, "wb") as f:
                    f.write(archive.read(member))
                os.replace(path, os.path.join(folder, name))
    print(f"{PACKAGE}: {', '.join(FILES.values())} in {os.path.relpath(folder)}")


if __name__ == "__main__":
    main()
