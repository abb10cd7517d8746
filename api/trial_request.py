"""A configuration that somebody wants tried: flags over the baseline's, checked as a document's."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field

from api.problem import ApiError
from api.services import Services
from tuner.domain.document_flags import flag_faults
from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.domain.flag_values import typed_value
from tuner.domain.rules import violations
from tuner.domain.study_spec import StudySpec
from tuner.errors import Fault
from tuner.store.records import StudyRecord
from tuner.study.stored_study import base_dir_of, stored_spec
from tuner.study.target import baseline_config, target_of


class TrialRequest(BaseModel):
    """Flags over the baseline's, vLLM's long names without dashes."""

    model_config = ConfigDict(extra="forbid")

    flags: dict[str, bool | int | float | str] = Field(
        min_length=1, max_length=100, examples=[{"max-num-seqs": 64}]
    )


def trial_config(study: StudyRecord, wanted: TrialRequest, services: Services) -> EngineConfig:
    """The whole configuration; ApiError 422 with every fault of the flags."""
    spec = stored_spec(study)
    faults = tuple(_faults(spec, wanted, services))
    if faults:
        raise ApiError(422, "the configuration has faults: see errors", errors=faults)
    target = target_of(spec, base_dir_of(services.artifacts, study))
    flags = {name: typed_value(name, value) for name, value in wanted.flags.items()}
    config = baseline_config(spec, target).with_flags(flags)
    broken = tuple(
        Fault(f"flags.{violation.flags[0]}", violation.message)
        for violation in violations(target.effective(config), target.max_model_len)
    )
    if broken:
        raise ApiError(422, "vLLM would refuse the configuration: see errors", errors=broken)
    return config


def _faults(spec: StudySpec, wanted: TrialRequest, services: Services) -> Iterator[Fault]:
    flags: dict[str, FlagValue] = dict(wanted.flags)
    yield from flag_faults("flags", flags, None)
    yield from flag_faults("flags", flags, None, guarded_only=True)
    allowed = services.settings.operator.allowed_flags
    for name in flags:
        if allowed is not None and name not in allowed:
            yield Fault(f"flags.{name}", "is not among the flags allowed here")
        elif name in spec.engine.flags:
            yield Fault(f"flags.{name}", "is fixed by the study", "delete it")
