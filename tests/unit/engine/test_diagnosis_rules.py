"""Which of several stories in a log is the cause, and what the end of the process adds."""

from __future__ import annotations

import signal

import pytest

from tests.support.engine_logs import CORE_FAILED, READY
from tuner.domain.diagnosis import Consequence, Phase, Remedy
from tuner.engine.diagnosis import EVIDENCE_CHARACTERS, diagnose
from tuner.engine.launcher import ExitStatus

ASKED = ExitStatus(0, stop_requested=True, killed=False)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB."


def crashed(returncode: int | None) -> ExitStatus:
    return ExitStatus(returncode, stop_requested=False, killed=False)


def line(process: str, text: str, level: str = "ERROR") -> str:
    return f"({process}) {level} 10-02 09:15:00 [file.py:1] {text}\n"


class TestDeepestProcess:
    def test_a_workers_cause_beats_what_the_engine_core_and_the_server_say(self) -> None:
        log = (
            line("APIServer pid=1", "OSError: [Errno 98] Address already in use")
            + line("EngineCore pid=2", "ValueError: No available memory for the cache blocks")
            + line("Worker_TP1 pid=4", '  File "x.py", line 1, in profile_run')
            + line("Worker_TP1 pid=4", OOM)
            + CORE_FAILED
        )

        assert diagnose(log, exit_status=crashed(1), ready=False).failure_class == "oom_profile"

    def test_a_ranks_out_of_memory_beats_the_broken_links_of_the_others(self) -> None:
        log = (
            line("Worker_TP0 pid=3", "NCCL error: remote process exited")
            + line("Worker_TP1 pid=4", '  File "x.py", line 1, in load_weights')
            + line("Worker_TP1 pid=4", OOM)
        )

        assert diagnose(log, exit_status=crashed(1), ready=False).failure_class == "oom_weights"

    def test_phases_are_kept_apart_by_process_though_a_worker_changes_its_name(self) -> None:
        log = (
            line("VllmWorker-0 pid=3", "Starting to load model m...", "INFO")
            + line("VllmWorker-1 pid=4", "Starting to load model m...", "INFO")
            + line("Worker_TP0 pid=3", "Model loading took 9.0 GiB and 2 seconds", "INFO")
            + line("Worker_TP1 pid=4", OOM)
        )

        found = diagnose(log, exit_status=crashed(1), ready=False)

        assert (found.failure_class, found.phase) == ("oom_weights", Phase.LOAD)

    def test_frames_of_another_rank_do_not_move_the_phase(self) -> None:
        log = (
            line("Worker_TP0 pid=3", '  File "x.py", line 1, in profile_run')
            + line("Worker_TP1 pid=4", "Traceback (most recent call last):")
            + line("Worker_TP0 pid=3", '  File "x.py", line 1, in profile_run')
            + line("Worker_TP1 pid=4", '  File "x.py", line 1, in capture_model')
            + line("Worker_TP1 pid=4", OOM)
        )

        assert diagnose(log, exit_status=None, ready=False).failure_class == "oom_capture"

    def test_explicit_words_beat_the_bare_out_of_memory_that_they_explain(self) -> None:
        log = (
            line("Worker pid=3", '  File "x.py", line 1, in _dummy_sampler_run')
            + line("Worker pid=3", OOM)
            + line(
                "Worker pid=3",
                "RuntimeError: CUDA out of memory occurred when warming up sampler with 300 "
                "dummy requests.",
            )
        )

        found = diagnose(log, exit_status=None, ready=False)

        assert found.remedies[0] == Remedy("max_num_seqs", "down", "<300")

    def test_a_wrapper_that_quotes_the_cause_tells_it_when_the_head_is_lost(self) -> None:
        log = (
            "RuntimeError: Worker failed with error 'max_num_seqs (9) exceeds available Mamba "
            f"cache blocks (3)', please check the stack trace above\n{CORE_FAILED}"
        )

        assert diagnose(log, exit_status=None, ready=False).failure_class == "mamba_blocks"


class TestLevels:
    def test_informative_lines_never_tell_a_failure(self) -> None:
        log = line("EngineCore pid=2", "NCCL error counters are enabled", "INFO") + line(
            "APIServer pid=1",
            "We couldn't connect to 'https://huggingface.co', retrying",
            "WARNING",
        )

        assert diagnose(log, exit_status=None, ready=False).failure_class == "ok"

    def test_errors_handled_before_the_server_was_ready_are_not_the_cause(self) -> None:
        log = f"OSError: [Errno 98] Address already in use\n{READY}\n"

        assert diagnose(log, exit_status=None, ready=False).failure_class == "ok"
        assert diagnose(log, exit_status=crashed(1), ready=True).failure_class == "unknown"

    def test_only_the_last_start_of_a_supervised_engine_counts(self) -> None:
        start = line("APIServer pid=1", "non-default args: {'max_num_seqs': 8}", "INFO")
        log = f"{start}No CUDA GPUs are available\n{CORE_FAILED}\n{start}{READY}\n"

        assert diagnose(log, exit_status=None, ready=False).failure_class == "ok"


class TestEnd:
    def test_status_0_that_nobody_asked_for_is_a_crash(self) -> None:
        found = diagnose(f"{READY}\n", exit_status=crashed(0), ready=True)

        assert found.failure_class == "unknown"
        assert found.consequence is Consequence.RETRY
        assert "nobody asked" in found.summary
        assert found.returncode == 0

    def test_status_0_after_the_engine_core_died_names_the_death(self) -> None:
        log = f"{READY}\n" + line(
            "APIServer pid=1", "EngineDeadError: EngineCore encountered an issue"
        )

        found = diagnose(log, exit_status=crashed(0), ready=True)

        assert found.failure_class == "engine_dead_unknown"

    def test_status_0_that_we_asked_for_is_fine_even_when_the_core_complains(self) -> None:
        log = (
            f"{READY}\n"
            + line("APIServer pid=1", "[shutdown] API server: shutdown triggered", "INFO")
            + line("APIServer pid=1", "EngineDeadError: EngineCore encountered an issue")
        )

        assert diagnose(log, exit_status=ASKED, ready=True).failure_class == "ok"

    def test_a_stop_that_we_asked_for_while_it_started_is_fine(self) -> None:
        log = (
            line(
                "APIServer pid=1", "[shutdown] Process manager: send sigterm to EngineCore", "INFO"
            )
            + "KeyboardInterrupt: terminated\n"
        )

        assert diagnose(log, exit_status=ASKED, ready=False).failure_class == "ok"
        strangers = diagnose(log, exit_status=crashed(1), ready=False)
        assert strangers.failure_class == "startup_timeout"

    @pytest.mark.parametrize("returncode", [-9, 137])
    def test_killed_from_outside_means_host_memory(self, returncode: int) -> None:
        log = line("Worker pid=3", "Starting to load model m...", "INFO")

        found = diagnose(log, exit_status=crashed(returncode), ready=False)

        assert (found.failure_class, found.phase) == ("host_oom", Phase.LOAD)

    def test_killed_after_a_cuda_traceback_is_told_by_the_traceback(self) -> None:
        log = line("Worker pid=3", '  File "x", line 1, in profile_run') + line("Worker pid=3", OOM)

        found = diagnose(log, exit_status=crashed(-9), ready=False)

        assert found.failure_class == "oom_profile"

    def test_killed_by_us_is_not_host_memory(self) -> None:
        status = ExitStatus(-9, stop_requested=True, killed=True)

        assert diagnose("", exit_status=status, ready=True).failure_class == "ok"

    def test_other_signals_are_named(self) -> None:
        found = diagnose("", exit_status=crashed(-signal.SIGSEGV), ready=True)

        assert found.failure_class == "unknown"
        assert "SIGSEGV" in found.summary

    def test_an_end_that_nobody_saw_is_unknown(self) -> None:
        assert diagnose("", exit_status=crashed(None), ready=True).failure_class == "unknown"

    def test_out_of_memory_after_ready_is_under_load_although_the_ready_line_is_lost(self) -> None:
        found = diagnose(OOM, exit_status=crashed(1), ready=True)

        assert (found.failure_class, found.phase) == ("oom_runtime", Phase.SERVING)


class TestDeadline:
    def test_a_start_that_took_too_long_says_how_far_it_came(self) -> None:
        log = line("Worker pid=3", "Starting to load model m...", "INFO")

        found = diagnose(log, exit_status=None, ready=False, deadline_exceeded=True)

        assert (found.failure_class, found.phase) == ("startup_timeout", Phase.LOAD)
        assert found.retry_same_config

    def test_a_cause_in_the_log_beats_the_deadline(self) -> None:
        log = line("Worker pid=3", '  File "x", line 1, in profile_run') + line("Worker pid=3", OOM)

        found = diagnose(log, exit_status=None, ready=False, deadline_exceeded=True)

        assert found.failure_class == "oom_profile"

    def test_no_answer_after_ready_is_a_hang(self) -> None:
        found = diagnose(READY, exit_status=None, ready=True, deadline_exceeded=True)

        assert (found.failure_class, found.phase) == ("hang", Phase.SERVING)


class TestIllness:
    STALLED = (
        "INFO [loggers.py:259] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation "
        "throughput: 0.0 tokens/s, Running: 0 reqs, Waiting: 3 reqs, GPU KV cache usage: 0.0%, "
        "Prefix cache hit rate: 0.0%\n"
    )
    BUSY = STALLED.replace("generation throughput: 0.0", "generation throughput: 90.1").replace(
        "Running: 0", "Running: 7"
    )
    BLOCKED = line(
        "EngineCore pid=2",
        "No available shared memory broadcast block found in 60 seconds.",
        "INFO",
    )

    def test_waiting_requests_that_never_run_are_a_stall(self) -> None:
        sized = "INFO [kv_cache_utils.py:1] GPU KV cache size: 2,048 tokens\n"
        found = diagnose(sized + READY + "\n" + self.STALLED * 2, exit_status=None, ready=True)

        assert found.failure_class == "stalled"
        assert Remedy("max_model_len", "down", 2048) in found.remedies
        assert found.facts["waiting"] == 3

    @pytest.mark.parametrize("end", [STALLED, STALLED * 3 + BUSY])
    def test_one_idle_moment_is_none(self, end: str) -> None:
        found = diagnose(f"{READY}\n{end}", exit_status=None, ready=True)

        assert found.failure_class == "ok"

    def test_blocked_workers_after_ready_are_a_hang(self) -> None:
        log = f"{READY}\n{self.BLOCKED * 3}"

        assert diagnose(log, exit_status=None, ready=True).failure_class == "hang"

    def test_blocked_workers_with_tokens_flowing_are_none(self) -> None:
        log = f"{READY}\n{self.BLOCKED * 3}{self.BUSY}{self.BLOCKED}"

        assert diagnose(log, exit_status=None, ready=True).failure_class == "ok"

    def test_preemption_of_the_old_engine_is_told_with_its_count(self) -> None:
        log = f"{READY}\n" + line(
            "APIServer pid=1",
            "Sequence group 5 is preempted by PreemptionMode.RECOMPUTE mode because there is not "
            "enough KV cache space. total_cumulative_preemption_cnt=51",
            "WARNING",
        )

        found = diagnose(log, exit_status=None, ready=True)

        assert (found.failure_class, found.facts["preemptions"]) == ("preemption", 51)
        assert found.consequence is Consequence.NONE
        assert Remedy("max_num_seqs", "down") in found.remedies


class TestEvidence:
    def test_unknown_quotes_exceptions_of_the_deepest_process(self) -> None:
        log = line("APIServer pid=1", "RuntimeError: shallow") + line(
            "Worker pid=3", "ValueError: deep trouble"
        )

        found = diagnose(log, exit_status=crashed(1), ready=False)

        assert found.failure_class == "unknown"
        assert len(found.evidence) == 1
        assert "deep trouble" in found.evidence[0]

    def test_unknown_without_exceptions_quotes_the_end(self) -> None:
        found = diagnose("one\ntwo\nthree\nfour\n", exit_status=crashed(3), ready=False)

        assert found.evidence == ("two", "three", "four")

    def test_an_empty_log_is_no_reason_to_guess(self) -> None:
        found = diagnose("", exit_status=crashed(1), ready=False)

        assert (found.failure_class, found.evidence, found.remedies) == ("unknown", (), ())

    def test_secrets_are_not_quoted(self) -> None:
        log = "FooError: token hf_abcdefghij1234567890 and Bearer abc.def --api-key s3cret\n"

        quoted = diagnose(log, exit_status=crashed(1), ready=False).evidence[0]

        assert "hf_abc" not in quoted
        assert "abc.def" not in quoted
        assert "s3cret" not in quoted

    def test_long_lines_are_cut(self) -> None:
        found = diagnose("FooError: " + "x" * 9999, exit_status=crashed(1), ready=False)

        assert len(found.evidence[0]) == EVIDENCE_CHARACTERS
