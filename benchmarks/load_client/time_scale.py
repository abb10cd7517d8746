"""How far a measurement on the embedded engine is from the engine's own account, by time scale.

    python -m benchmarks.load_client.time_scale examples/chat.yaml 5 10 20

One line a measurement: TTFT p95 as measured and by the engine's account, and the error, of which 5%
is allowed. Each takes some ten to twenty seconds; other processes on the machine count.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tuner.domain.document import load_study
from tuner.domain.study_spec import SimulatedEngineSpec, StudySpec
from tuner.settings import Settings
from tuner.worker.composition import measure, resolve_locations


def main(arguments: list[str]) -> int:
    """Measure the study's baseline at each scale, or at the document's own."""
    if not arguments:
        print(__doc__)
        return 2
    path = Path(arguments[0])
    spec = load_study(path.read_text(encoding="utf-8"), where=str(path))
    if not isinstance(spec.engine, SimulatedEngineSpec):
        print(f"{path} is not about the embedded engine")
        return 2
    for scale in [float(text) for text in arguments[1:]] or [spec.engine.time_scale]:
        engine = spec.engine.model_copy(update={"time_scale": scale})
        print(_line(scale, spec.model_copy(update={"engine": engine}), path.parent), flush=True)
    return 0


def _line(scale: float, spec: StudySpec, base_dir: Path) -> str:
    with tempfile.TemporaryDirectory(prefix="servetune-") as directory:
        locations = resolve_locations(Settings(state_dir=Path(directory)))
        done = measure(spec, locations, base_dir=base_dir)
    found = done.result.measurement
    if found is None or found.latency.ttft_ms is None:
        return f"x{scale:g}: {done.result.outcome.value}: {done.result.reason}"
    own, error = found.instrument.engine_ttft_p95_ms, found.instrument.ttft_p95_error
    compared = "-" if own is None or error is None else f"{own:.0f} ms by the engine ({error:+.1%})"
    ours = found.latency.ttft_ms.p95.value
    return f"x{scale:g}: {done.result.outcome.value}, TTFT p95 {ours:.0f} ms, {compared}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
