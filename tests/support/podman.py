"""A container engine with the Docker API for the tests: podman and runc, in directories of its own.

The images hold no files but a few links: the host's /usr, Python and this checkout are mounted, so
that starting a container copies nothing.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.engine.places import Mount

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "localhost/servetune-test:plain"
NEWER_IMAGE = "localhost/servetune-test:newer"
"""Its entrypoint is that of recent vLLM images."""
OLDER_IMAGE = "localhost/servetune-test:older"
"""Its entrypoint is that of older vLLM images."""
STRANGE_IMAGE = "localhost/servetune-test:strange"

_ENTRYPOINTS = {
    IMAGE: "[]",
    NEWER_IMAGE: '["vllm","serve"]',
    OLDER_IMAGE: '["python3","-m","vllm.entrypoints.openai.api_server"]',
    STRANGE_IMAGE: '["/opt/start.sh"]',
}
_CONFIGURATION = """
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
netns = "host"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
_START_S = 60.0
_PODMAN = ("podman", "--storage-driver", "vfs", "--runtime", "runc")
VLLM = f"""#!/bin/sh
exec {sys.executable} -P -m tuner.simulator "$@" --sim-gpu L4 --sim-time-scale 100
"""
"""What stands in for vLLM's program: the embedded engine takes the same words."""


def engine_mounts(*writable: Path) -> tuple[Mount, ...]:
    """What an engine of the tests needs of the host, and directories it may write to."""
    needed = dict.fromkeys(("/usr", sys.base_prefix, str(ROOT), str(Path(sys.prefix))))
    shared = tuple(Mount(path, path, read_only=True) for path in needed)
    return (*shared, *(Mount(str(path), str(path)) for path in writable))


@dataclass(frozen=True)
class Podman:
    """A running service. `docker_host` is what DOCKER_HOST has to say."""

    directory: Path

    @property
    def docker_host(self) -> str:
        return f"unix://{self.directory / 'api.sock'}"

    def command(self, *words: str, data: bytes | None = None) -> str:
        """Run podman on the same storage."""
        place = ["--root", str(self.directory / "root"), "--runroot", str(self.directory / "run")]
        done = subprocess.run(
            [*_PODMAN, *place, *words],
            input=data,
            capture_output=True,
            env={**os.environ, "CONTAINERS_CONF": str(self.directory / "containers.conf")},
            check=False,
        )
        if done.returncode != 0:
            raise AssertionError(f"podman {' '.join(words)}: {done.stderr.decode()}")
        return done.stdout.decode()

    def containers(self) -> Sequence[str]:
        """Ids of all there are, running or not."""
        return self.command("ps", "--all", "--quiet", "--no-trunc").split()


@contextlib.contextmanager
def podman_service() -> Iterator[Podman]:
    """A service with the images; whatever containers are left go with it."""
    directory = Path(tempfile.mkdtemp(prefix="servetune-podman-", dir="/tmp"))
    podman = Podman(directory)
    (directory / "containers.conf").write_text(_CONFIGURATION)
    service: subprocess.Popen[bytes] | None = None
    try:
        _import_images(podman)
        service = _serve(podman)
        yield podman
    finally:
        with contextlib.suppress(AssertionError):
            podman.command("rm", "--all", "--force", "--time", "0")
        if service is not None:
            service.terminate()
            service.wait()
        shutil.rmtree(directory, ignore_errors=True)


def _serve(podman: Podman) -> subprocess.Popen[bytes]:
    place = ["--root", str(podman.directory / "root"), "--runroot", str(podman.directory / "run")]
    with (podman.directory / "service.log").open("wb") as log:
        service = subprocess.Popen(
            [*_PODMAN, *place, "system", "service", "--time", "0", podman.docker_host],
            stdout=log,
            stderr=log,
            cwd=podman.directory,  # conmon leaves a file `oom` where it was started
            env={**os.environ, "CONTAINERS_CONF": str(podman.directory / "containers.conf")},
        )
    deadline = time.monotonic() + _START_S
    while not (podman.directory / "api.sock").exists():
        if service.poll() is not None or time.monotonic() > deadline:
            raise AssertionError((podman.directory / "service.log").read_text())
        time.sleep(0.05)
    return service


def _import_images(podman: Podman) -> None:
    layer = _layer()
    for name, entrypoint in _ENTRYPOINTS.items():
        changes = (f"ENTRYPOINT {entrypoint}", "ENV PATH=/opt/engine:/usr/local/bin:/usr/bin:/bin")
        options = [word for change in changes for word in ("--change", change)]
        podman.command("import", *options, "-", name, data=layer)


def _layer() -> bytes:
    """Links into the mounted /usr, and the program that stands in for vLLM."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("usr", "etc", "tmp", "proc", "sys", "dev", "run", "root", "opt", "opt/engine"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            archive.addfile(entry)
        for name, target in _LINKS.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
        program = tarfile.TarInfo("opt/engine/vllm")
        program.size, program.mode = len(VLLM.encode()), 0o755
        archive.addfile(program, io.BytesIO(VLLM.encode()))
    return packed.getvalue()
