"""Builds a virtualenv from a file of requirements, once for all processes: FOLDER/env, and FOLDER/complete when it can be used.

Ork runs it as the user of a task: `python3 -I build_virtualenv.py FOLDER REQUIREMENTS`. It uses uv if that is in PATH, else venv and pip.
It needs only Python 3.9 and its standard library.
"""

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys

NO_ENSUREPIP = (
    "error: {program} has no ensurepip, which venv needs to install pip: install the package python3-venv"
    " (apt-get install python3-venv), or uv"
)


def main(folder, requirements):
    # Other users run the virtualenv too.
    os.umask(0o022)
    # Variables of Python, such as PYTHONPATH, would make pip find packages that are not in the virtualenv.
    for name in [name for name in os.environ if name.startswith("PYTHON")]:
        del os.environ[name]
    environment = os.path.join(folder, "env")
    complete = os.path.join(folder, "complete")
    lock = os.open(os.path.join(folder, "lock"), os.O_RDONLY | os.O_CREAT, 0o644)
    fcntl.flock(lock, fcntl.LOCK_EX)
    if os.path.exists(complete):
        return
    # An interrupted build may have left a part.
    shutil.rmtree(environment, ignore_errors=True)
    build(environment, requirements)
    # The virtualenv must be on the disk before it counts as complete.
    os.sync()
    with open(complete, "w"):
        pass


def build(environment, requirements):
    python = os.path.join(environment, "bin", "python")
    uv = shutil.which("uv")
    if uv is not None:
        cache = [] if has_home() else ["--no-cache"]
        run(uv, "venv", "--quiet", "--python", sys.executable, *cache, environment)
        run(uv, "pip", "install", "--quiet", "--python", python, "--link-mode", "copy", *cache, "-r", requirements)
        return
    if importlib.util.find_spec("ensurepip") is None:
        sys.exit(NO_ENSUREPIP.format(program=sys.executable))
    cache = [] if has_home() else ["--no-cache-dir"]
    run(sys.executable, "-m", "venv", environment)
    run(python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", *cache, "-r", requirements)


def has_home():
    """Returns True if a cache of packages can be kept in the home folder."""
    return os.access(os.path.expanduser("~"), os.W_OK)


def run(*command):
    ended = subprocess.run(command, stdin=subprocess.DEVNULL)
    if ended.returncode != 0:
        sys.exit(1)


main(*sys.argv[1:])
