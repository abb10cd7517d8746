from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from tests.support.ledger import out_of_memory
from tuner.domain.diagnosis import Consequence, Diagnosis, Phase, Remedy
from tuner.store.encoding import diagnosis_from_dict, diagnosis_to_dict

texts = st.text(max_size=20)
finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers() | finite | texts
remedies = st.builds(Remedy, texts, texts, scalars)
diagnoses = st.builds(
    Diagnosis,
    failure_class=texts,
    phase=st.sampled_from(Phase),
    consequence=st.sampled_from(Consequence),
    summary=texts,
    evidence=st.lists(texts, max_size=3).map(tuple),
    remedies=st.lists(remedies, max_size=3).map(tuple),
    returncode=st.none() | st.integers(-64, 255),
    severity=st.none() | finite,
    tunable=st.booleans(),
    facts=st.dictionaries(texts, scalars | st.lists(texts, max_size=2).map(tuple), max_size=3),
)


@given(diagnoses)
def test_a_diagnosis_survives_json(diagnosis: Diagnosis) -> None:
    document = json.loads(json.dumps(diagnosis_to_dict(diagnosis)))

    assert diagnosis_from_dict(document) == diagnosis


def test_every_field_of_a_diagnosis_is_stored() -> None:
    document = diagnosis_to_dict(out_of_memory())

    assert document is not None
    assert set(document) == set(Diagnosis.__dataclass_fields__)
    assert set(document["remedies"][0]) == set(Remedy.__dataclass_fields__)


def test_no_diagnosis_stays_none() -> None:
    assert diagnosis_to_dict(None) is None
    assert diagnosis_from_dict(None) is None
