from __future__ import annotations

import dataclasses
import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.engine_configs import PLAIN_PROVENANCE, launch_commands, provenances
from tests.support.unhurried import UNHURRIED
from tuner.domain.argv import to_argv
from tuner.domain.engine_config import EngineConfig, FlagValue, LaunchCommand
from tuner.domain.flag_values import split_words
from tuner.errors import InvalidCommandError
from tuner.export.forms import FORMS, parse, parse_with_notes, render
from tuner.export.provenance import Provenance

TUNED = LaunchCommand(
    model="Qwen/Qwen2.5-7B-Instruct",
    config=EngineConfig.of(
        {
            "max-num-seqs": 96,
            "max-num-batched-tokens": 8192,
            "enable-chunked-prefill": False,
            "gpu-memory-utilization": 0.91,
            "max-model-len": 8192,
        }
    ),
    env=(("HF_HUB_OFFLINE", "1"),),
)


def command_of(text: str) -> str:
    """The text without its comments."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("#")) + "\n"


def test_the_form_of_vllm_serve() -> None:
    assert command_of(render("vllm", TUNED, PLAIN_PROVENANCE)) == (
        "HF_HUB_OFFLINE=1 \\\n"
        "  vllm serve Qwen/Qwen2.5-7B-Instruct \\\n"
        "  --no-enable-chunked-prefill \\\n"
        "  --gpu-memory-utilization 0.91 \\\n"
        "  --max-model-len 8192 \\\n"
        "  --max-num-batched-tokens 8192 \\\n"
        "  --max-num-seqs 96\n"
    )


def test_the_form_of_the_python_module() -> None:
    text = command_of(render("python-module", TUNED, PLAIN_PROVENANCE))
    assert text.startswith(
        "HF_HUB_OFFLINE=1 \\\n"
        "  python -m vllm.entrypoints.openai.api_server \\\n"
        "  --model Qwen/Qwen2.5-7B-Instruct \\\n"
        "  --no-enable-chunked-prefill \\\n"
    )


def test_the_form_of_docker_names_its_entrypoint() -> None:
    assert command_of(render("docker", TUNED, PLAIN_PROVENANCE)) == (
        "docker run --rm --runtime nvidia --gpus all \\\n"
        "  -v ~/.cache/huggingface:/root/.cache/huggingface \\\n"
        "  --ipc=host \\\n"
        "  -p 8000:8000 \\\n"
        "  --env HF_TOKEN \\\n"
        "  --env HF_HUB_OFFLINE=1 \\\n"
        "  --entrypoint vllm \\\n"
        "  vllm/vllm-openai:v0.33.0 \\\n"
        "  serve Qwen/Qwen2.5-7B-Instruct \\\n"
        "  --no-enable-chunked-prefill \\\n"
        "  --gpu-memory-utilization 0.91 \\\n"
        "  --max-model-len 8192 \\\n"
        "  --max-num-batched-tokens 8192 \\\n"
        "  --max-num-seqs 96\n"
    )


COMMENTED = [form for form in FORMS if form != "json"]


@pytest.mark.parametrize("form", COMMENTED)
def test_comments_come_first_and_a_newline_last(form: str) -> None:
    lines = render(form, TUNED, PLAIN_PROVENANCE).split("\n")
    assert lines[0] == "# study: chat"
    assert lines[-1] == ""
    first_command_line = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    assert not any(line.startswith("#") for line in lines[first_command_line:])


def cannot_carry(form: str, command: LaunchCommand, provenance: Provenance) -> bool:
    """The known reasons for which a form refuses a command, told here in other words."""
    config, is_path = command.config.as_dict(), command.model.startswith("/")
    port = config.get("port", 8000)
    bad_port = not (isinstance(port, int) and 0 < port < 65536)
    texts = [command.model, *map(str, config.values()), *(v for _, v in command.env)]
    match form:
        case "docker":
            return is_path and any(c in command.model for c in "\n\r")
        case "compose":
            return bad_port
        case "kubernetes":
            return bad_port or (is_path and (":" in command.model or ".." in command.model))
        case "systemd":
            noncharacters = re.compile("[\ufdd0-\ufdef]|[^\x00-\U0010ffff]|[\ufffe\uffff]")
            last_two = any(ord(c) & 0xFFFE == 0xFFFE for text in texts for c in text)
            return bad_port or last_two or any(map(noncharacters.search, texts))
        case "config-yaml":
            values = [str(value) for value in config.values()]
            dashed = any(w.startswith("-") for v in values for w in [v, *split_words(v)])
            too_old = (provenance.vllm_version or "9")[:1].isdigit()
            unprintable = not all(value.isprintable() for _, value in command.env)
            return dashed or unprintable or too_old
    return False


@pytest.mark.parametrize("form", FORMS)
@UNHURRIED
@given(command=launch_commands(), provenance=provenances())
def test_what_is_written_is_read_back_exactly(
    form: str, command: LaunchCommand, provenance: Provenance
) -> None:
    try:
        text = render(form, command, provenance)
    except InvalidCommandError:
        assert cannot_carry(form, command, provenance)
        return
    parsed = parse_with_notes(text)
    assert parsed.command == command
    assert parsed.command.config.digest == command.config.digest
    assert parsed.form == form


NASTY = LaunchCommand(
    model='/models/it\'s "$HOME" `id` $(id) \\ ; & | # *\nnew line',
    config=EngineConfig.of(
        {
            "served-model-name": "a 'b c' $HOME",
            "compilation-config": '{"a": "it\'s", "b": [1, 2]}',
            "revision": "--no-such-flag; touch pwned",
            "quantization": "",
            "x-plug-in": "`touch pwned`",
        }
    ),
    env=(("HF_HOME", "a b; touch pwned\n'x' \"y\" $PATH"),),
)


@pytest.mark.parametrize("form", ["vllm", "python-module"])
def test_a_real_shell_starts_exactly_what_was_meant(form: str, tmp_path: Path) -> None:
    witness = tmp_path / "vllm"
    witness.write_text('#!/bin/sh\nprintf "%s\\0" "$HF_HOME" "$@"\n')
    witness.chmod(0o700)
    (tmp_path / "python").symlink_to(witness)
    evil = dataclasses.replace(PLAIN_PROVENANCE, study="x\ntouch pwned", verdict="$(touch pwned)")
    done = subprocess.run(
        ["/bin/sh", "-c", render(form, NASTY, evil)],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin"},
        capture_output=True,
        check=True,
    )
    seen = done.stdout.decode().split("\0")[:-1]
    head = {
        "vllm": ["serve", NASTY.model],
        "python-module": ["-m", "vllm.entrypoints.openai.api_server", "--model", NASTY.model],
    }[form]
    assert seen == [NASTY.env[0][1], *head, *to_argv(NASTY.config)]
    assert not (tmp_path / "pwned").exists()


def test_numbers_are_plain() -> None:
    config = EngineConfig.of({"max-num-batched-tokens": "8K", "kv-cache-memory-bytes": 10**12})
    text = render("vllm", dataclasses.replace(TUNED, config=config), PLAIN_PROVENANCE)
    assert "--max-num-batched-tokens 8192" in text
    assert "--kv-cache-memory-bytes 1000000000000" in text


@pytest.mark.parametrize("form", FORMS)
def test_secrets_are_named_and_never_written(form: str) -> None:
    command = LaunchCommand(
        model="m",
        config=EngineConfig.of({"api-key": "sk-flag", "hf-token": "hf-flag", "seed": 1}),
        env=(("HF_TOKEN", "hf-env"), ("HF_HUB_OFFLINE", "1"), ("MY_PASSWORD", "pw")),
    )
    text = render(form, command, PLAIN_PROVENANCE)
    for secret in ("sk-flag", "hf-flag", "hf-env", "pw\n", "=pw", '"pw"'):
        assert secret not in text
    told = {
        "kubernetes": "# needs the key {} in the Secret vllm-secrets",
        "systemd": "# needs {} in /etc/vllm/vllm.env",
        "json": '    "{}"',
    }.get(form, "# needs {} in the environment")
    for name in ("HF_TOKEN", "MY_PASSWORD", "VLLM_API_KEY"):
        assert told.format(name) in text
        assert f"{name}=" not in text
        assert (f"--env {name} " in text) == (form == "docker")
    parsed = parse(text)
    assert parsed.config.as_dict() == {"seed": 1}
    assert parsed.env == (("HF_HUB_OFFLINE", "1"),)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "command",
    [
        dataclasses.replace(TUNED, model=""),
        dataclasses.replace(TUNED, model="-x"),
        dataclasses.replace(TUNED, model="a\x00b"),
        dataclasses.replace(TUNED, config=EngineConfig.of({"model": "other"})),
        dataclasses.replace(TUNED, config=EngineConfig.of({"revision": "a\x00"})),
        dataclasses.replace(TUNED, config=EngineConfig.of({"a b": "x"})),
        dataclasses.replace(TUNED, config=EngineConfig.of({"max-num-seqs": "x"})),
        dataclasses.replace(TUNED, env=(("A B", "x"),)),
        dataclasses.replace(TUNED, env=(("A=B", "x"),)),
        dataclasses.replace(TUNED, env=(("HF_HOME", "\x00"),)),
    ],
)
def test_what_no_command_line_can_carry_is_refused(form: str, command: LaunchCommand) -> None:
    with pytest.raises(InvalidCommandError):
        render(form, command, PLAIN_PROVENANCE)


def test_an_unknown_form_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidCommandError) as caught:
        render("helm", TUNED, PLAIN_PROVENANCE)
    assert caught.value.hint == f"one of {', '.join(FORMS)}"


@pytest.mark.parametrize(
    ("image", "version", "expected"),
    [
        ("registry.example/vllm@sha256:ab", "0.33.0", "registry.example/vllm@sha256:ab"),
        (None, "0.33.0", "vllm/vllm-openai:v0.33.0"),
        (None, "v0.32.1", "vllm/vllm-openai:v0.32.1"),
        (None, "0.32.0+cpu", "vllm/vllm-openai:latest"),
        (None, "0.34.0rc1", "vllm/vllm-openai:latest"),
        (None, "0.33.0; rm -rf /", "vllm/vllm-openai:latest"),
        (None, None, "vllm/vllm-openai:latest"),
    ],
)
def test_the_image_is_the_one_given_or_the_release(
    image: str | None, version: str | None, expected: str
) -> None:
    provenance = dataclasses.replace(PLAIN_PROVENANCE, image=image, vllm_version=version)
    text = render("docker", TUNED, provenance)
    assert f"  {expected} \\\n" in text
    assert ("pin the one you run by its digest" in text) == (image is None)


@pytest.mark.parametrize("image", ["", "-v /:/host x", "a b", "a;b"])
def test_an_image_that_is_none_is_refused(image: str) -> None:
    with pytest.raises(InvalidCommandError, match="is not an image reference"):
        render("docker", TUNED, dataclasses.replace(PLAIN_PROVENANCE, image=image))


def test_a_local_model_is_mounted_where_it_lies() -> None:
    command = dataclasses.replace(TUNED, model="/models/a,b c")
    text = render("docker", command, PLAIN_PROVENANCE)
    mount = '\'type=bind,"source=/models/a,b c","target=/models/a,b c",readonly\''
    assert f"--mount {mount} \\\n" in text
    assert "huggingface" not in text
    assert "HF_TOKEN" not in text
    assert parse(text) == command


def test_a_local_model_that_cannot_be_mounted_is_refused() -> None:
    with pytest.raises(InvalidCommandError, match="cannot be mounted"):
        render("docker", dataclasses.replace(TUNED, model="/a\nb"), PLAIN_PROVENANCE)


def test_the_port_of_the_configuration_is_published() -> None:
    config = TUNED.config.with_flags({"port": 9000})
    text = render("docker", dataclasses.replace(TUNED, config=config), PLAIN_PROVENANCE)
    assert "-p 9000:9000" in text


@pytest.mark.parametrize("form", COMMENTED)
def test_simulated_results_say_so_on_the_first_line(form: str) -> None:
    simulated = dataclasses.replace(PLAIN_PROVENANCE, simulated=True)
    assert render(form, TUNED, simulated).startswith("# SIMULATED: ")
    assert "SIMULATED" not in render(form, TUNED, PLAIN_PROVENANCE)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_tells_where_the_command_comes_from(form: str) -> None:
    text = render(form, TUNED, PLAIN_PROVENANCE)
    for fact in ("2030-01-31T18:00:00Z", "NVIDIA H100 80GB HBM3", "d1d2d3d4", "21.4", "0.33.0"):
        assert fact in text
    assert "better than the baseline" in text


@pytest.mark.parametrize("form", FORMS)
def test_numbers_are_plain_integers_in_every_form(form: str) -> None:
    config = EngineConfig.of({"max-num-batched-tokens": "8K", "kv-cache-memory-bytes": 10**12})
    text = render(form, dataclasses.replace(TUNED, config=config), PLAIN_PROVENANCE)
    assert "8192" in text
    assert "1000000000000" in text
    assert "8K" not in text


# Commands as they are found in the wild

WILD: list[tuple[str, str, str, dict[str, FlagValue]]] = [
    ("vllm serve m", "vllm", "m", {}),
    ("/opt/vllm/bin/vllm serve m --seed 1", "vllm", "m", {"seed": 1}),
    ("$ vllm serve m", "vllm", "m", {}),
    ("vllm serve --seed 1 m", "vllm", "m", {"seed": 1}),
    ("vllm serve --model m", "vllm", "m", {}),
    ("sudo -E vllm serve m", "vllm", "m", {}),
    ("sudo -u model vllm serve m", "vllm", "m", {}),
    ("sudo -n vllm serve m", "vllm", "m", {}),
    ("nohup vllm serve m > vllm.log 2>&1 &", "vllm", "m", {}),
    ("exec vllm serve m", "vllm", "m", {}),
    ("time nice -n 5 vllm serve m", "vllm", "m", {}),
    ("numactl --cpunodebind=0 -m 0 vllm serve m", "vllm", "m", {}),
    ("uv run vllm serve m", "vllm", "m", {}),
    ("uv run --with vllm --python 3.12 vllm serve m", "vllm", "m", {}),
    ("uv run python -m vllm.entrypoints.openai.api_server --model m", "python-module", "m", {}),
    ("cd /srv && source venv/bin/activate && vllm serve m", "vllm", "m", {}),
    ("bash -c 'vllm serve m --seed 1'", "vllm", "m", {"seed": 1}),
    ("/bin/sh -lc \"vllm serve 'm'\"", "vllm", "m", {}),
    ("python -m vllm.entrypoints.openai.api_server --model m", "python-module", "m", {}),
    ("python3.12 -u -m vllm.entrypoints.openai.api_server --model=m", "python-module", "m", {}),
    ("python -X dev -m vllm.entrypoints.openai.api_server --model m", "python-module", "m", {}),
    ("python -m vllm.entrypoints.cli.main serve m", "vllm", "m", {}),
    ("docker run --gpus all vllm/vllm-openai:latest --model m", "docker", "m", {}),
    ("sudo docker run --gpus all vllm/vllm-openai m --seed 1", "docker", "m", {"seed": 1}),
    ("docker container run img --model m", "docker", "m", {}),
    ("podman run --device nvidia.com/gpu=all img --model m", "docker", "m", {}),
    ("docker run --entrypoint vllm img serve m", "docker", "m", {}),
    ("docker run --entrypoint /usr/bin/vllm img serve m", "docker", "m", {}),
    (
        "docker run --entrypoint python3 img -m vllm.entrypoints.openai.api_server --model m",
        "docker",
        "m",
        {},
    ),
    ("docker run --entrypoint bash img -c 'vllm serve m'", "docker", "m", {}),
    ("docker run img vllm serve m", "docker", "m", {}),
    ("docker run img serve m", "docker", "m", {}),
    (
        "vllm serve m \\\n  --enable-chunked-prefill=false \\\n  --max-model-len 8k\n",
        "vllm",
        "m",
        {"enable-chunked-prefill": False, "max-model-len": 8000},
    ),
    (
        "vllm serve m --max_num_batched_tokens 8K -tp 2 --foo bar",
        "vllm",
        "m",
        {"max-num-batched-tokens": 8192, "tensor-parallel-size": 2, "foo": "bar"},
    ),
    (
        """vllm serve m --speculative-config '{"model": "d", "n": 3}'""",
        "vllm",
        "m",
        {"speculative-config": '{"model": "d", "n": 3}'},
    ),
]


@pytest.mark.parametrize(("text", "form", "model", "flags"), WILD)
def test_commands_from_the_wild_are_understood(
    text: str, form: str, model: str, flags: dict[str, FlagValue]
) -> None:
    parsed = parse_with_notes(text)
    assert parsed.form == form
    assert parsed.command.model == model
    assert parsed.command.config.as_dict() == flags


def test_a_command_from_a_field_report_is_understood_and_warned_about() -> None:
    parsed = parse_with_notes(
        "sudo docker run --runtime nvidia --gpus all \\\n"
        "  -v ~/.cache/huggingface:/root/.cache/huggingface \\\n"
        '  --env "HF_TOKEN=hf_abc" -p 8000:8000 --ipc=host \\\n'
        "  vllm/vllm-openai:v0.9.1@sha256:0a1b \\\n"
        "  --model Qwen/Qwen2.5-72B-Instruct-AWQ --max-num-batched-tokens 4096 \\\n"
        "  --max-model-len 102400 --enable-chunked-prefill=false --swap-space 4\n"
    )
    assert parsed.image == "vllm/vllm-openai:v0.9.1@sha256:0a1b"
    assert parsed.secrets == ("HF_TOKEN",)
    assert parsed.command.env == ()
    notes = "\n".join(parsed.notes)
    assert "hf_abc" not in notes
    assert "the value of HF_TOKEN is a secret and was not kept" in notes
    assert "write --no-enable-chunked-prefill" in notes
    assert "max_num_batched_tokens (4096) is smaller than max_model_len (102400)" in notes
    assert "--swap-space was removed in vLLM 0.18" in notes


@pytest.mark.parametrize(
    ("text", "env"),
    [
        ("HF_HUB_OFFLINE=1 vllm serve m", {"HF_HUB_OFFLINE": "1"}),
        (
            "HF_HUB_OFFLINE='a b' NCCL_DEBUG= vllm serve m",
            {"HF_HUB_OFFLINE": "a b", "NCCL_DEBUG": ""},
        ),
        ("env HF_HUB_OFFLINE=1 vllm serve m", {"HF_HUB_OFFLINE": "1"}),
        ("sudo HF_HUB_OFFLINE=1 vllm serve m", {"HF_HUB_OFFLINE": "1"}),
        ("export HF_HUB_OFFLINE=1\nvllm serve m", {"HF_HUB_OFFLINE": "1"}),
        ("HF_HUB_OFFLINE=0\nHF_HUB_OFFLINE=1 vllm serve m", {"HF_HUB_OFFLINE": "1"}),
        ("vllm serve m\nexport HF_HUB_OFFLINE=1", {}),
        ("docker run -e HF_HUB_OFFLINE=1 img --model m", {"HF_HUB_OFFLINE": "1"}),
        ("HF_HUB_OFFLINE=1 docker run img --model m", {}),
        ("export HF_HUB_OFFLINE=1; docker run img --model m", {}),
        (
            "docker run --entrypoint bash img -c 'NCCL_DEBUG=INFO vllm serve m'",
            {"NCCL_DEBUG": "INFO"},
        ),
        ("LD_PRELOAD=/x.so vllm serve m", {}),
    ],
)
def test_variables_that_reach_the_engine_are_kept(text: str, env: dict[str, str]) -> None:
    assert dict(parse(text).env) == env


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("vllm serve --model m", "takes the model without --model"),
        ("python -m vllm.entrypoints.openai.api_server m", "ignores a model that is not given by"),
        ("docker run img m", "images with the older entrypoint ignore a model"),
        ("docker run img vllm serve m", "newer images start `vllm serve` themselves"),
        ("docker run img serve m", "`serve` without --entrypoint vllm fails"),
        ("docker run --env-file .env img --model m", "the variables in .env were not read"),
        (
            "HF_HUB_OFFLINE=1 docker run img --model m",
            "HF_HUB_OFFLINE does not reach the container",
        ),
        ("docker run -e NCCL_DEBUG img --model m", "NCCL_DEBUG is passed on from the caller's"),
        ("podman run img --model m", "podman is read as docker"),
        ("LD_PRELOAD=/x vllm serve m", "LD_PRELOAD is not allowed and was left out"),
        ("vllm serve m --api-key sk-1", "the value of --api-key is a secret and was not kept"),
        ("vllm serve m --port 8000", "--port is not for a study to set: ServeTune chooses"),
        ("vllm serve m --config x.yaml", "--config is not for a study to set"),
        ("vllm serve m --foo 1", "--foo is not a flag that ServeTune knows"),
        ("vllm serve m --disable-log-requests", "--disable-log-requests was removed in vLLM 0.17"),
        ("vllm serve m --download-dir $CACHE", "$CACHE is kept as text, not replaced"),
        ("vllm serve m --max-num-seqs 64 --max-num-batched-tokens 32", "vLLM refuses this"),
        ("vllm serve m --seed 1 --seed 2", "given more than once"),
        ("vllm serve m \\ \n --seed 1", "a space follows the backslash"),
        ("cd /srv; vllm serve m", "'cd' and what follows is ignored"),
    ],
)
def test_what_is_not_taken_over_as_it_stands_is_remarked(text: str, note: str) -> None:
    assert any(note in remark for remark in parse_with_notes(text).notes)


def test_a_plain_command_needs_no_remark() -> None:
    parsed = parse_with_notes("vllm serve m --max-num-seqs 64 --no-enable-prefix-caching")
    assert parsed.notes == ()
    assert parsed.secrets == ()
    assert parsed.image is None


def test_no_secret_is_repeated() -> None:
    for text in (
        "HF_TOKEN=s3cr3t vllm serve m --api-key s3cr3t --hf-token s3cr3t",
        "docker run -e HF_TOKEN=s3cr3t -e VLLM_API_KEY=s3cr3t img --model m",
        "export AWS_SECRET_ACCESS_KEY=s3cr3t; vllm serve m",
    ):
        assert "s3cr3t" not in repr(parse_with_notes(text))


def test_a_tunable_configuration_leaves_out_what_servetune_sets() -> None:
    parsed = parse_with_notes("vllm serve m --host 0.0.0.0 --port 80 --max-num-seqs 4")
    assert parsed.tunable_config.as_dict() == {"max-num-seqs": 4}
    assert parsed.command.config.get("port") == 80


@pytest.mark.parametrize(
    ("text", "message", "where"),
    [
        ("", "there is no command", None),
        ("# vllm serve m", "there is no command", None),
        ("ls -l", "'ls' does not start vLLM", "line 1, column 1"),
        ("sudo reboot", "does not start vLLM", "line 1, column 1"),
        ("python train.py", "does not start vLLM", "line 1, column 1"),
        ("python -m http.server", "does not start vLLM", "line 1, column 1"),
        ("docker ps", "does not start vLLM", "line 1, column 1"),
        ("bash serve.sh", "does not start vLLM", "line 1, column 1"),
        ("vllm", "vllm alone starts no server", "line 1, column 1"),
        ("vllm bench serve m", "vllm bench starts no server", "line 1, column 1"),
        ("vllm serve", "the command names no model", None),
        ("vllm serve --seed 1", "the command names no model", "line 1, column 12"),
        ("docker run img", "the command names no model", None),
        ("docker run --gpus all", "docker run without an image", "line 1, column 19"),
        ("docker run --entrypoint sleep img 10", "does not start vLLM", "line 1, column 31"),
        (
            "python -m vllm.entrypoints.api_server --model m",
            "is not vLLM's OpenAI",
            "line 1, column 11",
        ),
        ("vllm serve m extra", "'extra' belongs to no flag", "line 1, column 14"),
        ("vllm serve m \\\n  --max-num-seqs many", "'many' is not an integer", "line 2, column 18"),
        ("vllm serve m --max-num-seqs", "expects a value", "line 1, column 14"),
        ("vllm serve m -Z", "-Z is not an option", "line 1, column 14"),
        ("vllm serve $MODEL", "the model is the shell variable $MODEL", "line 1, column 12"),
        ("vllm serve --model=${MODEL}", "the shell variable $MODEL", "line 1, column 12"),
        ("vllm serve $(cat model)", "a command substitution", "line 1, column 12"),
        ("vllm serve 'm", "a single quote is never closed", "line 1, column 12"),
        ("vllm serve a && vllm serve b", "more than one launch command", "line 1, column 17"),
    ],
)
def test_other_text_is_refused_with_what_and_where(
    text: str, message: str, where: str | None
) -> None:
    with pytest.raises(InvalidCommandError) as caught:
        parse(text)
    assert message in caught.value.message
    assert caught.value.where == where


PIECES = st.sampled_from(
    [
        *("vllm", "serve", "m", "docker", "run", "img", "--model", "python", "-m", "sudo", "env"),
        *("--seed", "1", "-tp", "-e", "A=1", "HF_TOKEN=x", "\\\n", "\n", ";", "&&", "'", '"', "$X"),
        *("--entrypoint", "bash", "-c", "vllm.entrypoints.openai.api_server", "--", "-O3", "uv"),
    ]
)


@UNHURRIED
@given(st.text(max_size=60) | st.lists(PIECES, max_size=12).map(" ".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parsed = parse(text)
    except InvalidCommandError:
        return
    assert parsed.model
