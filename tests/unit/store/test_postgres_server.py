from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support import postgres


def test_without_postgresql_the_tests_fail_naming_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_INSTALLED", tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: None)

    with pytest.raises(pytest.fail.Exception, match="apt-get install postgresql"):
        postgres._binaries()


def test_the_newest_installed_version_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("9.6", "15", "7"):
        (tmp_path / version / "bin").mkdir(parents=True)
        (tmp_path / version / "bin" / "initdb").touch()
    monkeypatch.setattr(postgres, "_INSTALLED", tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: None)

    assert postgres._binaries() == tmp_path / "15" / "bin"
