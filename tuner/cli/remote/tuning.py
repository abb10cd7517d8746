"""`servetune tune --server`: a service's workers run the study, this process watches."""

from __future__ import annotations

from pathlib import Path

from tuner.cli.output import OutputFormat, notice
from tuner.cli.remote.studies import remote_studies
from tuner.cli.study_file import read_text
from tuner.settings import Settings

INTERRUPTED = 130


def tune_remotely(document: Path, settings: Settings, output: OutputFormat, *, new: bool) -> int:
    """Run the study in this file there and print its report; returns the exit code."""
    text = read_text(document)
    with remote_studies(settings) as remote:
        try:
            return remote.tune(text, output, new=new)
        except KeyboardInterrupt:
            notice("watching ended; the study goes on there")
            return INTERRUPTED
