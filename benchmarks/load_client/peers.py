"""GuideLLM, AIPerf and inference-perf against a known schedule.

    python -m benchmarks.load_client.peers TOKENIZER [--json FILE] [--streams 25 50]

Each is installed from PyPI into an environment of its own in
`${XDG_CACHE_HOME:-~/.cache}/servetune/load-clients` (kept; some 8 GB in all). One that cannot be
installed or fails is reported as such. TOKENIZER is a directory with a Hugging Face tokenizer: the
model that `scripts/setup-vllm` makes. The server runs on core 0, all of a client's processes on
core 1; these tools are built for many cores, so their latencies there are worse than they could
be. The processor time a token costs does not depend on that.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.load_client.clients import ANSWER_S, CLIENT_CPU, ITL_MS, TOKENS, TTFT_MS
from benchmarks.load_client.figures import HEADING, Compared, Seen, compared, row
from benchmarks.load_client.process_usage import SessionUsage
from benchmarks.load_client.truth import placement, truth_server

DURATION_S = 8
PATIENCE_S = 150
REVISION = "0" * 40
INSTALL_PATIENCE_S = 1800


@dataclass(frozen=True, slots=True)
class Peer:
    """A tool: how it is installed, started, and what it says afterwards."""

    name: str
    version: str
    command: Callable[[Path, str, str, int, Path], list[str]]
    """Of its environment, the server's URL, the tokenizer, the streams and a directory."""
    read: Callable[[Path], Mapping[str, float | None]]
    environment: Mapping[str, str]
    any_python: bool = False
    """Its metadata refuses Python 3.11, on which it works all the same."""

    @property
    def spec(self) -> str:
        return f"{self.name}=={self.version}"


def guidellm_command(env: Path, url: str, tokenizer: str, streams: int, out: Path) -> list[str]:
    scenario = {
        "spec": {
            "backend": {
                "kind": "openai_http",
                "target": url,
                "model": tokenizer,
                "request_format": "/v1/completions",
            },
            "profile": {"kind": "concurrent", "streams": [streams]},
            "data": [{"kind": "synthetic_text", "prompt_tokens": 16, "output_tokens": TOKENS}],
            "constraints": [{"kind": "max_duration", "seconds": DURATION_S}],
        }
    }
    (out / "scenario.json").write_text(json.dumps(scenario), encoding="utf-8")
    options = ["-c", str(out / "scenario.json"), "--output", f"kind=json,path={out}/report.json"]
    return [str(env / "bin" / "guidellm"), "run", *options, "--disable-console"]


def guidellm_report(out: Path) -> Mapping[str, float | None]:
    document = json.loads((out / "report.json").read_text(encoding="utf-8"))
    metrics = document["benchmarks"][0]["metrics"]

    def figures(name: str) -> tuple[float, float]:
        found = metrics[name]["successful"]
        return found["mean"], found["percentiles"]["p99"]

    ttft, itl = figures("time_to_first_token_ms"), figures("inter_token_latency_ms")
    return _figures(*ttft, *itl)


def aiperf_command(env: Path, url: str, tokenizer: str, streams: int, out: Path) -> list[str]:
    # It takes a tokenizer by its name on the hub only: OUT, its home, has a cache with that name.
    cached = out / ".cache" / "huggingface" / "hub" / "models--local--tokenizer"
    for folder in ("refs", "snapshots"):
        (cached / folder).mkdir(parents=True)
    (cached / "refs" / "main").write_text(REVISION, encoding="ascii")
    (cached / "snapshots" / REVISION).symlink_to(tokenizer, target_is_directory=True)
    command = [str(env / "bin" / "aiperf"), "profile", "--model", "truth", "--url", url]
    command += ["--endpoint-type", "completions", "--streaming", "--tokenizer", "local/tokenizer"]
    command += ["--isl", "16", "--osl", str(TOKENS), "--concurrency", str(streams)]
    command += ["--benchmark-duration", str(DURATION_S), "--benchmark-grace-period", "3"]
    return [*command, "--workers-max", "1", "--ui", "none", "--output-artifact-dir", str(out)]


def aiperf_report(out: Path) -> Mapping[str, float | None]:
    (path,) = out.rglob("profile_export_aiperf.json")
    document = json.loads(path.read_text(encoding="utf-8"))
    ttft = document["time_to_first_token"]
    # Its "inter token latency" is a mean of each request; chunk gaps are under another name.
    itl = document.get("inter_chunk_latency") or document["inter_token_latency"]
    return _figures(ttft["avg"], ttft["p99"], itl["avg"], itl["p99"])


def inference_perf_command(
    env: Path, url: str, tokenizer: str, streams: int, out: Path
) -> list[str]:
    def exactly(tokens: int) -> dict[str, object]:
        return {"min": tokens, "max": tokens, "mean": tokens, "std_dev": 0, "total_count": 4000}

    stage = {"num_requests": int(streams * DURATION_S / ANSWER_S), "concurrency_level": streams}
    config = {
        "api": {"type": "completion", "streaming": True},
        "data": {
            "type": "random",
            "input_distribution": exactly(16),
            "output_distribution": exactly(TOKENS),
        },
        "load": {
            "type": "concurrent",
            "stages": [stage],
            "num_workers": 1,
            "worker_max_concurrency": streams,
        },
        "server": {"type": "vllm", "model_name": "truth", "base_url": url, "ignore_eos": True},
        "tokenizer": {"pretrained_model_name_or_path": tokenizer},
        "report": {"request_lifecycle": {"summary": True, "percentiles": [50, 99]}},
        "storage": {"local_storage": {"path": str(out / "reports")}},
    }
    # JSON is YAML.
    (out / "config.yml").write_text(json.dumps(config), encoding="utf-8")
    return [str(env / "bin" / "inference-perf"), "--config_file", str(out / "config.yml")]


def inference_perf_report(out: Path) -> Mapping[str, float | None]:
    (path,) = out.rglob("*summary_lifecycle_metrics.json")
    latency = json.loads(path.read_text(encoding="utf-8"))["successes"]["latency"]
    ttft, itl = latency["time_to_first_token"], latency["inter_token_latency"]
    seconds = (ttft["mean"], ttft["p99"], itl["mean"], itl["p99"])
    return _figures(*(value * 1000 for value in seconds))


def _figures(ttft: float, ttft_p99: float, itl: float, itl_p99: float) -> Mapping[str, float]:
    return {
        "ttft_mean_ms": ttft,
        "ttft_p99_ms": ttft_p99,
        "itl_mean_ms": itl,
        "itl_p99_ms": itl_p99,
    }


PEERS = (
    Peer(
        "inference-perf",
        "0.7.0",
        inference_perf_command,
        inference_perf_report,
        {"HF_HUB_OFFLINE": "1"},
        any_python=True,
    ),
    Peer(
        "guidellm",
        "0.8.1",
        guidellm_command,
        guidellm_report,
        {"HF_HUB_OFFLINE": "1", "GUIDELLM__MAX_WORKER_PROCESSES": "1"},
    ),
    Peer("aiperf", "0.13.0", aiperf_command, aiperf_report, {"HF_HUB_OFFLINE": "1"}),
)


class PeerFailedError(Exception):
    """A tool could not be installed or did not end well."""


def cache_directory() -> Path:
    """Where environments are kept."""
    base = os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base else Path.home() / ".cache"
    return root / "servetune" / "load-clients"


def environment_of(peer: Peer) -> Path:
    """The tool's environment, made when it is not there. Raises PeerFailedError."""
    env = cache_directory() / peer.spec
    if (env / "complete").exists():
        return env
    _run([sys.executable, "-m", "venv", "--clear", str(env)], INSTALL_PATIENCE_S)
    pip = [str(env / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    if peer.any_python:
        _run([*pip, "--no-deps", "--ignore-requires-python", peer.spec], INSTALL_PATIENCE_S)
        _run([*pip, *_requirements(env, peer.name)], INSTALL_PATIENCE_S)
    else:
        _run([*pip, peer.spec], INSTALL_PATIENCE_S)
    (env / "complete").touch()
    return env


def _requirements(env: Path, name: str) -> list[str]:
    code = "import importlib.metadata, json, sys; "
    code += "print(json.dumps(importlib.metadata.requires(sys.argv[1])))"
    listed: list[str] = json.loads(_run([str(env / "bin" / "python"), "-c", code, name], 60))
    return [each for each in listed if "extra ==" not in each]


def _run(command: Sequence[str], timeout_s: float) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode != 0:
        raise PeerFailedError(_last_words(done.stderr))
    return done.stdout


def _last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it said nothing"


def measure(peer: Peer, env: Path, tokenizer: str, streams: int) -> Compared:
    """One tool at one load. Raises PeerFailedError."""
    with (
        truth_server(TTFT_MS, ITL_MS, cpu=0) as server,
        tempfile.TemporaryDirectory() as name,
    ):
        out = Path(name)
        command = peer.command(env, server.url, tokenizer, streams, out)
        usage = _execute(command, {**os.environ, **peer.environment, "HOME": name}, out)
        truth = server.account()
        try:
            figures = peer.read(out)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PeerFailedError(f"no figures in its report: {error!r}") from error
        return compared(peer.spec, "streams", streams, 0, _seen(figures, truth, usage), truth)


def _execute(command: list[str], environment: Mapping[str, str], out: Path) -> SessionUsage:
    with (
        (out / "log").open("wb") as log,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=out,
            start_new_session=True,
            preexec_fn=placement(CLIENT_CPU, False),
        ) as process,
        SessionUsage(process.pid) as usage,
    ):
        try:
            status = process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired as error:
            os.killpg(process.pid, 9)
            raise PeerFailedError(f"it did not end within {PATIENCE_S} s") from error
    if status != 0:
        said = (out / "log").read_text(errors="replace")
        raise PeerFailedError(f"status {status}: {_last_words(said)}")
    return usage


def _seen(
    figures: Mapping[str, float | None], truth: Mapping[str, Any], usage: SessionUsage
) -> Seen:
    """The tool's figures; rates and processor time are those between the first and last token."""
    begin_s, end_s = truth["first_unix_s"], truth["last_unix_s"]
    span_s = end_s - begin_s
    tokens = truth["ttft"]["n"] + truth["itl"]["n"]
    return Seen(
        **figures,
        tokens_per_s=tokens / span_s,
        requests_per_s=truth["ttft"]["n"] / span_s,
        cpu_share=usage.cpu_s(begin_s, end_s) / span_s,
        memory_mb=usage.memory_mb,
    )


def main() -> None:
    """A line per tool and load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--streams", type=int, nargs="*", default=(25, 50))
    parser.add_argument("--only", help="one tool")
    arguments = parser.parse_args()
    points: list[Compared] = []
    failures: dict[str, str] = {}
    print(HEADING)
    for peer in PEERS:
        if arguments.only not in (None, peer.name):
            continue
        try:
            env = environment_of(peer)
            for streams in arguments.streams:
                points.append(measure(peer, env, str(arguments.tokenizer.resolve()), streams))
                print(row(points[-1]), flush=True)
        except PeerFailedError as error:
            failures[peer.spec] = str(error)
            print(f"{peer.spec}: {error}", flush=True)
    if arguments.json:
        document = {"points": [asdict(point) for point in points], "failed": failures}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
