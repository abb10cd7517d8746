"""Writes the examples into docs/export.md; with --check fails when they are not current.

Each example stands between `<!-- example FORM -->` and `<!-- end -->` and is what
`servetune export` prints for one fixed command.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

from tuner.domain.engine_config import EngineConfig, LaunchCommand
from tuner.export.forms import FORMS, parse, render
from tuner.export.provenance import Provenance

TARGET = Path(__file__).parent.parent / "docs" / "export.md"
LANGUAGES = {
    "config-yaml": "yaml",
    "compose": "yaml",
    "kubernetes": "yaml",
    "systemd": "ini",
    "json": "json",
}
EXAMPLE = re.compile(r"(<!-- example ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

COMMAND = LaunchCommand(
    model="Qwen/Qwen2.5-7B-Instruct",
    config=EngineConfig.of(
        {
            "max-num-seqs": 192,
            "max-num-batched-tokens": 4096,
            "enable-chunked-prefill": False,
            "gpu-memory-utilization": 0.93,
            "max-model-len": 4096,
        }
    ),
    env=(("HF_HUB_OFFLINE", "1"), ("HF_TOKEN", "")),
)
PROVENANCE = Provenance(
    study="example",
    trial=None,
    at=datetime(2030, 1, 31, 18, 0, tzinfo=UTC),
    servetune_version="0.1.0",
    simulated=False,
    verdict="an example of the form: nothing was measured",
    vllm_version="0.27.0",
    gpu="NVIDIA L4",
    gpu_count=1,
)


def document(text: str) -> str:
    """The document with every example written anew; ValueError when a form has none."""
    missing = set(FORMS) - {match[2] for match in EXAMPLE.finditer(text)}
    if missing:
        raise ValueError(f"docs/export.md has no example of {', '.join(sorted(missing))}")
    return EXAMPLE.sub(lambda match: match[1] + example(match[2]) + match[3], text)


def example(form: str) -> str:
    """One form, fenced; it reads back as the same command without its secret."""
    text = render(form, COMMAND, PROVENANCE)
    if parse(text).config != COMMAND.config:
        raise ValueError(f"{form} does not read back")
    return f"```{LANGUAGES.get(form, 'sh')}\n{text}```\n"


def main() -> int:
    before = TARGET.read_text()
    after = document(before)
    if "--check" in sys.argv[1:]:
        if before == after:
            return 0
        print(f"{TARGET} is not current: run scripts/generate_export_examples.py", file=sys.stderr)
        return 1
    TARGET.write_text(after)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
