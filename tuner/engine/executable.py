"""Finding the engine's executable before anything is started."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from tuner.errors import ExecutableNotFoundError

_HINT = "give the full path of the engine's executable, e.g. /opt/vllm/bin/vllm"


def find_executable(name: str, env: Mapping[str, str]) -> str:
    """The path that `name` means for an engine with this environment.

    Raises ExecutableNotFoundError when it does not exist, is a directory or may not be executed.
    """
    search_path = env.get("PATH", os.defpath)
    found = shutil.which(name, path=search_path)
    if found is not None:
        return str(Path(found).absolute())
    if os.sep not in name:
        raise ExecutableNotFoundError(f"no executable {name!r} in {search_path}", hint=_HINT)
    if not Path(name).exists():
        raise ExecutableNotFoundError(f"{name} does not exist", hint=_HINT)
    if Path(name).is_dir():
        raise ExecutableNotFoundError(f"{name} is a directory", hint=_HINT)
    raise ExecutableNotFoundError(f"{name} is not executable", hint=f"chmod +x {name}")


def cannot_run(path: str, number: int | None, message: str) -> ExecutableNotFoundError | None:
    """What the kernel's refusal to start `path` means; None when it is not about the executable."""
    if number == errno.ENOENT:
        return ExecutableNotFoundError(
            f"{path} cannot be run: the interpreter it names (first line, or ELF loader) is missing"
        )
    if number == errno.ENOEXEC:
        return ExecutableNotFoundError(
            f"{path} cannot be run: not a program for this machine, or a script without #! line"
        )
    if number in (errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ELOOP):
        return ExecutableNotFoundError(f"{path} cannot be run: {message}")
    return None
