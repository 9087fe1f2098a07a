"""What the queues' programs share. The environment has the server's port: PORT=7379.

A job writes its name into a file whenever it runs, so what ran is known without the server.
"""

import collections
import contextlib
import os
import subprocess
import sys
import tempfile
import time

URL = f"redis://127.0.0.1:{os.environ['PORT']}/0"
SECONDS_MAX = 60
"""No step takes as long unless something is lost."""

if "RAN" not in os.environ:  # workers inherit it
    directory = tempfile.TemporaryDirectory()
    os.environ["RAN"] = os.path.join(directory.name, "ran")
    open(os.environ["RAN"], "w").close()


def ran(name):
    """Notes one run of a job. One write at the end of a file is not mixed with others."""
    with open(os.environ["RAN"], "ab", buffering=0) as file:
        file.write(f"{name}\n".encode())


def runs():
    """How often each job has run."""
    with open(os.environ["RAN"]) as file:
        return collections.Counter(file.read().split())


def expected(jobs):
    """Runs of `jobs` plain jobs and a late one, once each, and of one that fails twice."""
    return collections.Counter({"flaky": 3, "late": 1} | {str(n): 1 for n in range(jobs)})


def until(holds, what):
    """Waits until `holds()`."""
    end = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < end, f"{what} takes more than {SECONDS_MAX} s: {runs()}"
        time.sleep(0.02)


def must_have_run(wanted):
    """Fails unless each job ran exactly as often as wanted."""
    found = runs()
    assert found == wanted, f"missing {wanted - found}, too often {found - wanted}"


@contextlib.contextmanager
def worker(*module_and_arguments):
    """A worker, `python -m MODULE ARGUMENTS`, in a process of its own. SIGTERM ends it well."""
    here = os.path.dirname(os.path.abspath(__file__))
    environment = os.environ | {"PYTHONPATH": here}
    command = [sys.executable, "-m", *module_and_arguments]
    process = subprocess.Popen(command, cwd=here, env=environment)
    try:
        yield process
        process.terminate()
        process.wait(SECONDS_MAX)
    finally:
        process.kill()
        process.wait()
