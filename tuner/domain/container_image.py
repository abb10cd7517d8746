"""Images with vLLM as data: entrypoints, names and caches; the table is `vllm_images.toml`."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import resources

_RELEASE = re.compile(r"\d+\.\d+\.\d+(?:\.post\d+)?", re.ASCII)
_REFERENCE = re.compile(r"[A-Za-z0-9][\w.:/@-]*", re.ASCII)


class EntrypointTreatment(Enum):
    """What becomes of an image's own entrypoint."""

    REPLACE = "replace"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class KnownEntrypoint:
    """An entrypoint of some images; `generation` names them for people."""

    words: tuple[str, ...]
    treatment: EntrypointTreatment
    generation: str


@dataclass(frozen=True, slots=True)
class CacheDirectory:
    """A directory that outlives containers; `host` is relative to the home directory."""

    variable: str
    host: str
    container: str


@dataclass(frozen=True, slots=True)
class ImageKnowledge:
    """The whole table."""

    repository: str
    tag_prefix: str
    latest_tag: str
    program: str
    user_id: int
    home: str
    entrypoints: tuple[KnownEntrypoint, ...]
    caches: Mapping[str, CacheDirectory]


@dataclass(frozen=True, slots=True)
class ContainerCommand:
    """What a container is given: `entrypoint` None leaves the image's own."""

    entrypoint: tuple[str, ...] | None
    arguments: tuple[str, ...]


@functools.cache
def image_knowledge() -> ImageKnowledge:
    """The table, read from the package on first use and kept."""
    text = resources.files("tuner.domain").joinpath("vllm_images.toml").read_text("utf-8")
    table = tomllib.loads(text)
    return ImageKnowledge(
        repository=table["repository"],
        tag_prefix=table["tag_prefix"],
        latest_tag=table["latest_tag"],
        program=table["program"],
        user_id=table["user_id"],
        home=table["home"],
        entrypoints=tuple(
            KnownEntrypoint(
                tuple(row["words"]), EntrypointTreatment(row["treatment"]), row["generation"]
            )
            for row in table["entrypoint"]
        ),
        caches={name: CacheDirectory(**row) for name, row in table["cache"].items()},
    )


def known_entrypoint(words: Sequence[str]) -> KnownEntrypoint | None:
    """What is known of an image's entrypoint, None for one that was never seen."""
    for known in image_knowledge().entrypoints:
        if known.words == tuple(words):
            return known
    return None


def container_command(
    argv: Sequence[str],
    image_entrypoint: Sequence[str],
    treatment: EntrypointTreatment | None = None,
) -> ContainerCommand | None:
    """How a container of this image runs exactly `argv`, whatever its entrypoint is.

    Without `treatment` the table decides; None when it does not know the entrypoint.
    """
    if treatment is None and image_entrypoint:
        known = known_entrypoint(image_entrypoint)
        if known is None:
            return None
        treatment = known.treatment
    if treatment is EntrypointTreatment.KEEP and image_entrypoint:
        return ContainerCommand(None, tuple(argv))
    return ContainerCommand((argv[0],), tuple(argv[1:]))


def release_image(version: str | None) -> str:
    """The image of a released version; the newest one where no release is named."""
    known = image_knowledge()
    number = (version or "").removeprefix("v")
    released = _RELEASE.fullmatch(number) is not None
    return f"{known.repository}:{known.tag_prefix + number if released else known.latest_tag}"


def is_image_reference(text: str) -> bool:
    """Whether the text can name an image, by tag or digest."""
    return _REFERENCE.fullmatch(text) is not None
