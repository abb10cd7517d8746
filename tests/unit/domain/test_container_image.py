from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.domain.container_image import (
    EntrypointTreatment,
    container_command,
    image_knowledge,
    is_image_reference,
    known_entrypoint,
    release_image,
)

ARGV = ("vllm", "serve", "m", "--port", "8000")
NEWER = ("vllm", "serve")
OLDER = ("python3", "-m", "vllm.entrypoints.openai.api_server")
WRAPPER = ("/opt/nvidia/nvidia_entrypoint.sh",)


@pytest.mark.parametrize("entrypoint", [NEWER, OLDER, ()])
def test_every_generation_of_images_runs_the_same_words(entrypoint: tuple[str, ...]) -> None:
    found = container_command(ARGV, entrypoint)
    assert found is not None
    assert found.entrypoint == ("vllm",)
    assert found.arguments == ("serve", "m", "--port", "8000")


def test_a_wrapper_is_kept_and_runs_the_whole_command() -> None:
    found = container_command(ARGV, WRAPPER)
    assert found is not None
    assert found.entrypoint is None
    assert found.arguments == ARGV


def test_an_entrypoint_that_was_never_seen_is_not_guessed_about() -> None:
    assert container_command(ARGV, ("/app/start.sh",)) is None


def test_the_user_decides_about_an_unknown_entrypoint() -> None:
    kept = container_command(ARGV, ("/app/start.sh",), EntrypointTreatment.KEEP)
    replaced = container_command(ARGV, ("/app/start.sh",), EntrypointTreatment.REPLACE)
    assert kept is not None
    assert replaced is not None
    assert (kept.entrypoint, kept.arguments) == (None, ARGV)
    assert (replaced.entrypoint, replaced.arguments) == (("vllm",), ARGV[1:])


def test_there_is_nothing_to_keep_in_an_image_without_entrypoint() -> None:
    found = container_command(ARGV, (), EntrypointTreatment.KEEP)
    assert found is not None
    assert found.entrypoint == ("vllm",)


@given(
    argv=st.lists(st.text(min_size=1), min_size=1),
    entrypoint=st.sampled_from([known.words for known in image_knowledge().entrypoints]),
)
def test_a_known_image_runs_exactly_the_words_it_is_given(
    argv: list[str], entrypoint: tuple[str, ...]
) -> None:
    found = container_command(argv, entrypoint)
    assert found is not None
    run = (*(found.entrypoint or ()), *found.arguments)
    assert list(run) == argv
    known = known_entrypoint(entrypoint)
    assert known is not None
    assert (found.entrypoint is None) == (known.treatment is EntrypointTreatment.KEEP)


@pytest.mark.parametrize(
    ("version", "image"),
    [
        ("0.28.0", "vllm/vllm-openai:v0.28.0"),
        ("v0.10.1.post1", "vllm/vllm-openai:v0.10.1.post1"),
        ("0.29.0rc1", "vllm/vllm-openai:latest"),
        (None, "vllm/vllm-openai:latest"),
    ],
)
def test_a_release_has_an_image_of_its_own(version: str | None, image: str) -> None:
    assert release_image(version) == image


def test_a_reference_is_a_tag_or_a_digest_and_no_option() -> None:
    assert is_image_reference("registry.example:5000/vllm/vllm-openai@sha256:" + "a" * 64)
    assert not is_image_reference("--privileged")
    assert not is_image_reference("a b")
