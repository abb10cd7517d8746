from __future__ import annotations

from pathlib import Path

import pytest

from tuner.domain.study_spec import StudySpec
from tuner.errors import DatabaseError, SchemaNotCurrentError
from tuner.settings import Settings, load_settings
from tuner.store.schema import upgrade
from tuner.study.stored_study import default_name
from tuner.worker.composition import load_history
from tuner.worker.locations import (
    database_status,
    prepare,
    require_database,
    resolve_locations,
)


def test_the_state_directory_holds_database_and_artefacts(tmp_path: Path) -> None:
    found = resolve_locations(Settings(state_dir=tmp_path))
    assert found.database.sqlite_path == tmp_path / "servetune.db"
    assert found.artifacts.is_relative_to(tmp_path)


def test_without_a_setting_it_is_the_xdg_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert resolve_locations(Settings()).state_dir == tmp_path / "servetune"


def test_a_database_elsewhere_leaves_the_artefacts_here(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'other.db'}"
    found = resolve_locations(Settings(state_dir=tmp_path / "state", database_url=url))
    assert found.database.sqlite_path == tmp_path / "other.db"
    assert found.artifacts.is_relative_to(tmp_path / "state")


def test_the_first_study_makes_the_database(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path / "state")
    assert database_status(settings).usable
    assert not (tmp_path / "state").exists()
    prepare(resolve_locations(settings))
    assert database_status(settings).description.endswith("is current")


def test_an_existing_database_is_never_changed_by_a_study(tmp_path: Path) -> None:
    locations = resolve_locations(Settings(state_dir=tmp_path))
    (tmp_path / "servetune.db").touch()
    with pytest.raises(SchemaNotCurrentError):
        prepare(locations)
    assert (tmp_path / "servetune.db").stat().st_size == 0
    status = database_status(Settings(state_dir=tmp_path))
    assert not status.usable
    assert status.hint is not None


def test_reading_does_not_make_a_database(tmp_path: Path) -> None:
    locations = resolve_locations(Settings(state_dir=tmp_path))
    with pytest.raises(SchemaNotCurrentError):
        load_history("chat", locations)
    assert list(tmp_path.iterdir()) == []
    upgrade(locations.database)
    require_database(locations)


@pytest.mark.parametrize(
    ("model", "engine", "expected"),
    [
        ({"id": "Qwen/Qwen2.5-7B-Instruct"}, {"kind": "simulated", "gpu": "H100"}, None),
        ({"path": "/models/my model/"}, {"kind": "vllm"}, "my-model-vllm"),
        ({"path": "/models/..."}, {"kind": "vllm"}, "vllm"),
    ],
)
def test_a_nameless_study_is_called_after_model_and_machine(
    model: dict[str, str], engine: dict[str, str], expected: str | None
) -> None:
    name = default_name(StudySpec.model_validate({"model": model, "engine": engine}))
    assert name == (expected or "qwen2.5-7b-instruct-h100")
    StudySpec.model_validate({"model": model, "engine": engine, "name": name})


def test_settings_are_read_where_the_user_has_no_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    for name in ("SERVETUNE_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert load_settings(state_dir=tmp_path).state_dir == tmp_path
    with pytest.raises(DatabaseError, match="no home"):
        resolve_locations(load_settings())
