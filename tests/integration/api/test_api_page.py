"""The commands of docs/api.md, as a reader would paste them."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.support.service_process import service
from tuner.domain.operator_config import load_operator

PAGE = (Path(__file__).parents[3] / "docs" / "api.md").read_text()


@pytest.mark.timeout(300)
def test_every_command_on_the_page_works(tmp_path: Path) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 8
    script = "set -euo pipefail\n" + "\n".join(blocks)
    state_dir = tmp_path / "state"
    state_dir.mkdir()
    with service(state_dir) as running:
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env={**os.environ, "SERVER": running.url, "KEY": running.key},
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert '"kind":"study_created"' in done.stdout
    assert '"valid":true' in done.stdout


def test_the_operators_configuration_on_the_page_is_one() -> None:
    (block,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert tomllib.loads(block)["profiles"]
    assert "vllm-stable" in load_operator(block, where="docs/api.md").profiles
