"""Which engine processes outlived their server."""

from __future__ import annotations

from tuner.engine.orphans import NamedProcess, diagnose_processes, orphans_among

SERVER = NamedProcess(10, 5, "vllm")
CORE = NamedProcess(20, 10, "VLLM::EngineCor")
WORKER = NamedProcess(30, 20, "VLLM::Worker_TP")
SHELL = NamedProcess(5, 1, "bash")
INIT = NamedProcess(1, 0, "systemd")


def test_a_tree_under_its_server_is_none() -> None:
    assert orphans_among([INIT, SHELL, SERVER, CORE, WORKER]) == ()


def test_what_init_adopted_is_one_with_all_its_workers() -> None:
    adopted = NamedProcess(20, 1, "VLLM::EngineCore")

    assert orphans_among([INIT, WORKER, adopted]) == (adopted, WORKER)


def test_a_sessions_reaper_is_no_server() -> None:
    reaper = NamedProcess(7, 1, "systemd")
    adopted = NamedProcess(20, 7, "VLLM::EngineCor")

    assert orphans_among([INIT, reaper, adopted, WORKER]) == (adopted, WORKER)


def test_other_programs_are_never_named() -> None:
    assert orphans_among([INIT, NamedProcess(9, 1, "python3"), NamedProcess(8, 1, "vllm")]) == ()


def test_an_orphan_is_told_as_such_and_not_as_out_of_memory() -> None:
    adopted = NamedProcess(26803, 1, "VLLM::EngineCore")

    worker = NamedProcess(26845, 26803, "VLLM::Worker")

    found = diagnose_processes([worker, adopted], port_free=True, gpu_used_gib=70.0)

    assert found.failure_class == "orphan_of_own_trial"
    assert found.retry_same_config
    assert found.facts["pids"] == ("26803", "26845")
    assert "group" in found.summary
    assert diagnose_processes([SERVER, CORE], port_free=False).failure_class == "ok"
