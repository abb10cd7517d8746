from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectives.slo import Slo
from tuner.domain.proxy import Proxy
from tuner.loadgen.closing import AdaptiveWindow
from tuner.loadgen.plan import (
    ClosedLoopSegment,
    LoadPlan,
    OpenLoopSegment,
    PlannedRequest,
    UserLoopSegment,
)
from tuner.loadgen.plan_file import read_plan, write_plan

times = st.floats(0, 1e6)
open_requests = st.builds(
    PlannedRequest,
    index=st.integers(0, 10**6),
    prompt_tokens=st.integers(1, 10**6),
    output_tokens=st.integers(1, 10**6),
    prompt_seed=st.integers(0, 2**53 - 1),
    due_s=times,
    blocks=st.lists(st.tuples(st.integers(0, 2**53 - 1), st.integers(1, 600)), max_size=3).map(
        tuple
    ),
    after=st.none() | st.integers(0, 10**6),
    token_ids=st.none() | st.lists(st.integers(0, 2**31), max_size=4).map(tuple),
    scope=st.integers(0, 2**40),
)
closed_requests = st.builds(
    PlannedRequest,
    index=st.integers(0, 10**6),
    prompt_tokens=st.integers(1, 10**6),
    output_tokens=st.integers(1, 10**6),
    prompt_seed=st.integers(0, 2**53 - 1),
)
windows: dict[str, st.SearchStrategy[object]] = {
    "adaptive": st.none()
    | st.builds(
        AdaptiveWindow,
        st.floats(0.001, 1),
        st.floats(0, 1),
        st.lists(st.text(), max_size=3).map(tuple),
    ),
    "planned_window_s": st.none() | times,
}
open_segments = st.builds(
    OpenLoopSegment,
    requests=st.lists(open_requests, max_size=5).map(tuple),
    warmup_s=times,
    window_s=times,
    drain_s=times,
    slo=st.none() | st.builds(Slo, ttft_ms=st.floats(1, 1e6), e2e_ms=st.none() | st.floats(1, 1e6)),
    **windows,
)
closed_segments = st.builds(
    ClosedLoopSegment,
    requests=st.lists(closed_requests, max_size=5).map(tuple),
    concurrency=st.integers(1, 1000),
    warmup_s=times,
    window_s=times,
    **windows,
)
thinking = st.builds(
    PlannedRequest,
    index=st.integers(0, 10**6),
    prompt_tokens=st.integers(1, 10**6),
    output_tokens=st.integers(1, 10**6),
    prompt_seed=st.integers(0, 2**53 - 1),
    pause_after_s=times,
)
user_segments = st.builds(
    UserLoopSegment,
    requests=st.lists(thinking, max_size=5).map(tuple),
    concurrency=st.integers(1, 1000),
    warmup_s=times,
    window_s=times,
    drain_s=times,
    think_s=times,
)
plans = st.builds(
    LoadPlan,
    base_url=st.just("http://127.0.0.1:8000"),
    model=st.text(),
    segments=st.lists(open_segments | closed_segments | user_segments, max_size=3).map(tuple),
    vocabulary_size=st.integers(4, 10**6),
    salt=st.integers(-(2**60), 2**60),
    time_scale=st.floats(1, 100),
    stall_s=st.floats(0.1, 1000),
    transport=st.sampled_from(["automatic", "socket", "aiohttp"]),
    proxy=st.none() | st.builds(Proxy, url=st.text(), credentials_env=st.none() | st.text()),
)


@given(plan=plans)
def test_a_plan_survives_the_file_exactly(
    plan: LoadPlan, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    write_plan(plan, path)
    assert read_plan(path) == plan


def test_plans_of_older_versions_have_whole_windows_and_no_slo(tmp_path: Path) -> None:
    plan = LoadPlan("http://127.0.0.1:1", "m", (OpenLoopSegment((), 1, 2, 3),), 100, 1, 1.0, 60.0)
    write_plan(plan, tmp_path / "plan.json")
    document = json.loads((tmp_path / "plan.json").read_text())
    for key in ("slo", "adaptive", "planned_window_s"):
        del document["segments"][0][key]
    (tmp_path / "plan.json").write_text(json.dumps(document))
    assert read_plan(tmp_path / "plan.json") == plan
