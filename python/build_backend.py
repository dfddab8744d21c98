"""Builds the package `ork` as a wheel and as a source distribution (PEP 517).

It is a backend of its own because it needs nothing but the standard library: `pip install ./python` works without an index.
"""

import base64
import hashlib
import io
import os
import re
import tarfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = ("pyproject.toml", "README.md", "build_backend.py")


def read(path):
    with open(os.path.join(HERE, path), "rb") as file:
        return file.read()


def field(name):
    return re.search(rf'^{name} = "(.*)"$', read("pyproject.toml").decode(), re.MULTILINE).group(1)


NAME = f"ork-{field('version')}"


def package_files():
    names = sorted(name for name in os.listdir(os.path.join(HERE, "lib/ork")) if name.endswith((".py", ".typed")))
    return {f"ork/{name}": read(f"lib/ork/{name}") for name in names}


def metadata():
    lines = [
        "Metadata-Version: 2.1",
        "Name: ork",
        f"Version: {field('version')}",
        f"Summary: {field('description')}",
        "License: Apache-2.0",
        f"Requires-Python: {field('requires-python')}",
        "Classifier: Typing :: Typed",
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines).encode() + b"\n\n" + read("README.md")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    info = f"{NAME}.dist-info"
    kind = b"Wheel-Version: 1.0\nGenerator: ork\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {**package_files(), f"{info}/METADATA": metadata(), f"{info}/WHEEL": kind}
    record = [f"{path},sha256={digest(data)},{len(data)}" for path, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    name = f"{NAME}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            wheel.writestr(path, data)
    return name


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def build_sdist(sdist_directory, config_settings=None):
    files = {**{path: read(path) for path in SOURCES}, "PKG-INFO": metadata()}
    files.update({f"lib/{path}": data for path, data in package_files().items()})
    name = f"{NAME}.tar.gz"
    with tarfile.open(os.path.join(sdist_directory, name), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for path, data in files.items():
            entry = tarfile.TarInfo(f"{NAME}/{path}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return name
