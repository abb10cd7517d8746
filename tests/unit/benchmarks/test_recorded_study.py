"""The page that shows a study on a real vLLM."""

from __future__ import annotations

from benchmarks.real_vllm.recorded_study import MODEL, machine_class, page

OUTPUT = f"""
study tiny-llama-cpu@1: complete
vllm serve {MODEL.resolve()} \\
  --max-num-seqs 31
"""


def test_the_page_says_what_was_measured_on_what() -> None:
    text = page(
        OUTPUT, machine="2 cores (x86_64), 16 GiB of memory", date="2030-01-31", minutes=9, load=3
    )
    assert "on 2 cores (x86_64), 16 GiB of memory, 2030-01-31,\n9 minutes" in text
    assert "mean load 3 at the end" in text
    assert "**its weights are\nrandom**" in text
    assert "study tiny-llama-cpu@1: complete" in text


def test_no_path_of_the_machine_is_in_it() -> None:
    text = page(OUTPUT, machine="any", date="2030-01-31", minutes=9, load=3)
    assert "vllm serve .venv-vllm/model-tiny \\" in text
    assert str(MODEL.resolve()) not in text
    assert str(MODEL) not in text


def test_a_machine_is_its_cores_and_memory() -> None:
    assert machine_class(2, 24 << 30, "x86_64") == "2 cores (x86_64), 24 GiB of memory"
