"""The images' environment in a container without rights, on a root that cannot be written.

The image itself cannot be built without a registry; this checkout is mounted in its place.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.podman import IMAGE, Podman, engine_mounts, podman_service

pytestmark = pytest.mark.containers

ROOT = Path(__file__).parents[3]
DOCKERFILE = ROOT / "deploy" / "images" / "Dockerfile"
CONFINED = (
    "--read-only",
    "--read-only-tmpfs=false",
    "--user=10001:10001",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--tmpfs=/tmp:mode=1777",
)
SCRIPT = """
import json, os, subprocess, sys, time, urllib.request
from pathlib import Path

servetune = sys.argv[1]
refused = []
for place in ("/", "/opt", "/usr", os.path.dirname(servetune)):
    try:
        Path(place, "written").write_text("")
    except OSError:
        refused.append(place)
service = subprocess.Popen([servetune, "serve", "--no-auth", "--port", "18743"])
address = "http://127.0.0.1:18743"
try:
    for _ in range(300):
        try:
            ready = urllib.request.urlopen(f"{address}/readyz", timeout=5).status
            break
        except OSError:
            assert service.poll() is None, "the service ended"
            time.sleep(0.2)
    else:
        raise AssertionError("it was never ready")
    document = {
        "name": "chat",
        "model": {"id": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 4096},
        "engine": {"kind": "simulated", "gpu": "L4", "time_scale": 20},
        "workload": {"preset": "chat"},
        "budget": {"trials": 3},
    }
    request = urllib.request.Request(
        f"{address}/api/v1/studies/validate",
        json.dumps(document).encode(),
        {"Content-Type": "application/json"},
    )
    forecast = json.load(urllib.request.urlopen(request, timeout=60))
    metrics = urllib.request.urlopen(f"{address}/metrics", timeout=5).read().decode()
finally:
    service.terminate()
    code = service.wait()
print(json.dumps({
    "uid": os.getuid(), "refused": refused, "ready": ready, "code": code,
    "forecast": sorted(forecast), "up": "servetune_database_up 1.0" in metrics,
}))
"""


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    with podman_service() as service:
        yield service


def image_environment() -> dict[str, str]:
    """What the Dockerfile's ENV says, but for the path of its executables."""
    text = DOCKERFILE.read_text().replace("\\\n", " ")
    line = next(line for line in text.splitlines() if line.startswith("ENV "))
    found = dict(re.findall(r"(\w+)=(\S+)", line))
    found.pop("PATH")
    return found


@pytest.mark.timeout(300)
def test_api_and_worker_run_without_rights_on_a_read_only_root(podman: Podman) -> None:
    mounts = [
        f"--volume={mount.source}:{mount.target}:{'ro' if mount.read_only else 'rw'}"
        for mount in engine_mounts()
    ]
    variables = [f"--env={name}={value}" for name, value in image_environment().items()]
    home = image_environment()["SERVETUNE_STATE_DIR"]
    executable = Path(sys.prefix) / "bin" / "servetune"
    said = podman.command(
        "run",
        "--rm",
        *CONFINED,
        f"--tmpfs={home}:mode=1777",
        *mounts,
        *variables,
        IMAGE,
        str(Path(sys.prefix) / "bin" / "python"),
        "-c",
        SCRIPT,
        str(executable),
    )
    found = json.loads(said.strip().splitlines()[-1])
    assert found.pop("forecast")
    assert found == {
        "uid": 10001,
        "refused": ["/", "/opt", "/usr", str(executable.parent)],
        "ready": 200,
        "code": 0,
        "up": True,
    }
