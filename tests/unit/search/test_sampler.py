from __future__ import annotations

import importlib.util
from typing import Literal

import pytest

from tuner.domain.study_spec import SamplerSpec
from tuner.errors import InvalidInputError
from tuner.search.sampler import build_sampler, check_sampler, derived_seed


def test_no_two_trials_share_a_seed() -> None:
    seeds = {derived_seed(study, ordinal) for study in range(20) for ordinal in range(100)}
    assert len(seeds) == 2000
    assert all(0 <= seed < 2**32 for seed in seeds)


def test_seeds_repeat_across_processes() -> None:
    assert derived_seed(7, 3) == 1823439803


@pytest.mark.parametrize(
    ("kind", "name"),
    [("tpe", "TPESampler"), ("random", "RandomSampler"), ("qmc", "QMCSampler")],
)
def test_the_document_names_the_sampler(kind: Literal["tpe", "random", "qmc"], name: str) -> None:
    sampler = build_sampler(SamplerSpec(type=kind), ordinal=0, objectives=1)
    assert type(sampler).__name__ == name


def test_nsga2_is_for_fronts_only() -> None:
    spec = SamplerSpec(type="nsga2")
    assert type(build_sampler(spec, ordinal=0, objectives=2)).__name__ == "NSGAIISampler"
    with pytest.raises(InvalidInputError, match="several objectives") as raised:
        build_sampler(spec, ordinal=0, objectives=1)
    assert raised.value.where == "sampler.type"


def test_the_gaussian_process_without_torch_is_refused_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(InvalidInputError, match="PyTorch") as raised:
        check_sampler(SamplerSpec(type="gp"), objectives=1)
    assert raised.value.hint is not None
    assert "torch" in raised.value.hint
    check_sampler(SamplerSpec(type="tpe"), objectives=1)
