from __future__ import annotations

import dataclasses
import itertools
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.engine_configs import ODD_TEXT, PLAIN_PROVENANCE
from tests.support.unhurried import UNHURRIED
from tuner.domain.engine_config import EngineConfig, LaunchCommand
from tuner.errors import InvalidCommandError
from tuner.export.forms import parse, parse_with_notes, render
from tuner.export.systemd_words import (
    quote,
    split_words,
    without_specifiers,
    without_variables,
)

COMMAND = LaunchCommand(
    "Qwen/Qwen2.5-7B-Instruct", EngineConfig.of({"max-num-seqs": 96}), (("HF_HUB_OFFLINE", "1"),)
)
NASTY = LaunchCommand(
    model='/m/it\'s "$HOME" ${HOME} %h %% `id` \\n ; # \x07\x85\u2028\U0001f600\nnew',
    config=EngineConfig.of(
        {"served-model-name": "a ';' '$HOME'", "quantization": "", "revision": "--x; %n"}
    ),
    env=(("HF_HOME", "a b\n$PATH %h \\ \"q\" 'p'"),),
)
KNOWN_LINES = re.compile(r"\[(Unit|Service|Install)\]|[A-Z][A-Za-z]+=.*|  .*|#.*|")


def setting(text: str, name: str) -> str:
    (value,) = [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{name}=")]
    return value


def complaints(text: str, folder: Path) -> list[str]:
    """What is wrong with a unit: our own checks always, systemd's where it is installed."""
    found = [line for line in text.split("\n") if KNOWN_LINES.fullmatch(line) is None]
    lines = text.split("\n")
    found += [
        f"{after!r} continues nothing"
        for before, after in itertools.pairwise(lines)
        if after.startswith("  ") != before.endswith("\\")
    ]
    tool = shutil.which("systemd-analyze")
    if tool is not None:
        unit = folder / "vllm.service"
        # systemd insists that the executable exists on this machine.
        unit.write_text(text.replace("ExecStart=vllm ", "ExecStart=/bin/true "), "utf-8")
        done = subprocess.run(
            [tool, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
        )
        found += [line for line in done.stderr.splitlines() if "vllm.service" in line]
        found += [f"exit {done.returncode}"] if done.returncode else []
    return found


@pytest.mark.parametrize("command", [COMMAND, NASTY], ids=["plain", "nasty"])
@pytest.mark.parametrize("simulated", [True, False])
def test_a_unit_has_nothing_to_complain_about(
    command: LaunchCommand, simulated: bool, tmp_path: Path
) -> None:
    provenance = dataclasses.replace(PLAIN_PROVENANCE, simulated=simulated)
    assert complaints(render("systemd", command, provenance), tmp_path) == []


def test_the_checks_find_a_broken_unit(tmp_path: Path) -> None:
    assert complaints("[Service]\nExecStart=vllm a\nno assignment\n", tmp_path)


def test_the_form_of_a_unit() -> None:
    text = render("systemd", COMMAND, PLAIN_PROVENANCE)
    assert ("ExecStart=vllm serve Qwen/Qwen2.5-7B-Instruct \\\n  --max-num-seqs 96\n") in text
    assert setting(text, "Description") == (
        "vLLM serving Qwen/Qwen2.5-7B-Instruct (tuned by ServeTune)"
    )
    assert setting(text, "KillMode") == "mixed"
    assert int(setting(text, "TimeoutStartSec")) >= 900
    assert setting(text, "DynamicUser") == "yes"
    assert setting(text, "NoNewPrivileges") == "yes"
    assert setting(text, "EnvironmentFile") == "-/etc/vllm/vllm.env"
    for closes_the_gpu in ("PrivateDevices", "ProtectClock", "MemoryDenyWriteExecute"):
        assert f"{closes_the_gpu}=" not in text


def test_simulated_results_say_so_in_the_description() -> None:
    simulated = dataclasses.replace(PLAIN_PROVENANCE, simulated=True)
    assert "SIMULATED" in setting(render("systemd", COMMAND, simulated), "Description")


def test_needed_secrets_must_be_in_the_environment_file() -> None:
    command = dataclasses.replace(COMMAND, env=(("HF_TOKEN", "hf-secret"),))
    text = render("systemd", command, PLAIN_PROVENANCE)
    assert "hf-secret" not in text
    assert setting(text, "EnvironmentFile") == "/etc/vllm/vllm.env"


def test_waiting_for_readiness_follows_the_port_and_the_engine(tmp_path: Path) -> None:
    config = EngineConfig.of({"port": 9000})
    text = render("systemd", dataclasses.replace(COMMAND, config=config), PLAIN_PROVENANCE)
    shell, option, script = split_words(setting(text, "ExecStartPost"))
    script = script.replace("$$", "$")
    assert (shell, option) == ("/bin/sh", "-c")
    assert "http://127.0.0.1:9000/health" in script
    curl = tmp_path / "curl"
    curl.write_text("#!/bin/sh\nexit 7\n")
    curl.chmod(0o700)
    ended = subprocess.Popen(["true"])
    ended.wait()
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "MAINPID": str(ended.pid)}
    refused = subprocess.run([shell, option, script], env=environment, check=False)
    assert refused.returncode == 1, "the engine has died"
    curl.write_text("#!/bin/sh\nexit 0\n")
    answered = subprocess.run([shell, option, script], env=environment, check=False)
    assert answered.returncode == 0
    without_curl = subprocess.run([shell, option, script], env={"PATH": "/nowhere"}, check=False)
    assert without_curl.returncode == 0


# Quoting


@pytest.mark.parametrize(
    ("text", "in_command", "in_environment"),
    [
        ("plain-1.0/x:y@z,+", "plain-1.0/x:y@z,+", "plain-1.0/x:y@z,+"),
        ("", '""', '""'),
        ("a b", '"a b"', '"a b"'),
        ("%h", '"%%h"', '"%%h"'),
        ("$HOME", '"$$HOME"', '"$HOME"'),
        ("${A}", '"$${A}"', '"${A}"'),
        ('"', '"\\""', '"\\""'),
        ("'", '"\'"', '"\'"'),
        ("\\n", '"\\\\n"', '"\\\\n"'),
        ("\n\t\r", '"\\n\\t\\r"', '"\\n\\t\\r"'),
        (";", '";"', '";"'),
        ("#", '"#"', '"#"'),
        ("\x07", '"\\x07"', '"\\x07"'),
        ("\x85", '"\\u0085"', '"\\u0085"'),
        ("\u2028", '"\\u2028"', '"\\u2028"'),
        ("é", '"é"', '"é"'),
        ("\U000e0001", '"\\U000e0001"', '"\\U000e0001"'),
    ],
)
def test_quoting(text: str, in_command: str, in_environment: str) -> None:
    assert quote(text, in_command=True) == in_command
    assert quote(text, in_command=False) == in_environment


@pytest.mark.parametrize("text", ["\ufffe", "\uffff", "\ufdd0", "\U0010ffff"])
def test_characters_that_systemd_refuses_are_refused(text: str) -> None:
    with pytest.raises(InvalidCommandError, match="systemd takes no character"):
        quote(text, in_command=True)


@UNHURRIED
@given(st.lists(ODD_TEXT, max_size=4), st.booleans())
def test_what_is_quoted_is_split_into_the_same_words(words: list[str], in_command: bool) -> None:
    try:
        line = " ".join(quote(word, in_command=in_command) for word in words)
    except InvalidCommandError:
        return
    assert "\n" not in line
    back = [without_specifiers(word)[0] for word in split_words(line)]
    assert [without_variables(w)[0] if in_command else w for w in back] == words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a  b\tc", ["a", "b", "c"]),
        ("'a b' \"c d\"", ["a b", "c d"]),
        ('a"b c"d', ["ab cd"]),
        (r"a\x20b \101 \u00e9 \U0001f600 a\sb", ["a b", "A", "é", "\U0001f600", "a b"]),
        (r"\xc3\xa9", ["é"]),
        (r"\q \xzz", ["\\q", "\\xzz"]),
        ("a\u00a0b", ["a\u00a0b"]),
    ],
)
def test_splitting_follows_systemd(line: str, words: list[str]) -> None:
    assert split_words(line) == words


# Units as people write them

WILD = """\
; my unit
[Unit]
Description=LLM
[Service]
User=llm
Environment="HF_HOME=/data/100%% x" NCCL_DEBUG=INFO
Environment=HF_TOKEN=hf_abc
Environment=VLLM_CACHE_ROOT=%h/cache
EnvironmentFile=-/etc/default/llm
ExecStartPre=/usr/bin/sleep 1
ExecStart=-/opt/venv/bin/vllm serve Qwen/Qwen3-8B \\
  # a comment in between
  --max-num-seqs 64 \\
  --download-dir ${CACHE} --port $PORT0 --served-model-name "a b"
[Install]
WantedBy=multi-user.target
"""


def test_a_unit_from_the_wild_is_understood_and_remarked() -> None:
    parsed = parse_with_notes(WILD.replace("--port $PORT0", "--port 80"))
    assert parsed.form == "systemd"
    assert parsed.executable == "/opt/venv/bin/vllm"
    assert parsed.command.model == "Qwen/Qwen3-8B"
    assert parsed.tunable_config.as_dict() == {
        "download-dir": "${CACHE}",
        "max-num-seqs": 64,
        "served-model-name": "'a b'",
    }
    assert dict(parsed.command.env) == {
        "HF_HOME": "/data/100% x",
        "NCCL_DEBUG": "INFO",
        "VLLM_CACHE_ROOT": "%h/cache",
    }
    assert "hf_abc" not in repr(parsed)
    notes = "\n".join(parsed.notes)
    assert "the value of HF_TOKEN is a secret" in notes
    assert "%h is kept as text" in notes
    assert "${CACHE} is kept as text" in notes
    assert "the variables in -/etc/default/llm were not read" in notes


@pytest.mark.parametrize(
    "line",
    [
        "ExecStart=vllm serve m",
        "ExecStart=@/usr/bin/vllm llm serve m",
        "ExecStart=:/usr/bin/vllm serve m",
        "ExecStart=/bin/sh -c 'exec vllm serve m'",
        "ExecStart=/usr/bin/docker run --gpus all img --model m",
        "ExecStart=/usr/bin/python3 -m vllm.entrypoints.openai.api_server --model m",
        "ExecStart=/usr/bin/env HF_HUB_OFFLINE=1 vllm serve m",
    ],
)
def test_units_start_vllm_in_many_ways(line: str) -> None:
    assert parse(f"[Service]\n{line}\n").model == "m"


def test_variables_of_the_unit_do_not_reach_a_container() -> None:
    text = "[Service]\nEnvironment=NCCL_DEBUG=INFO\nExecStart=docker run img --model m\n"
    assert parse(text).env == ()


def test_an_empty_assignment_forgets_the_variables_before_it() -> None:
    text = "[Service]\nEnvironment=NCCL_DEBUG=INFO\nEnvironment=\nExecStart=vllm serve m\n"
    assert parse(text).env == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[Service]\nExecStart=/bin/true\n", "no ExecStart= of this unit starts vLLM"),
        ("[Unit]\nExecStart=vllm serve m\n", "no ExecStart= of this unit starts vLLM"),
        ("[Service]\nExecStart=vllm serve 'm\n", "is never closed"),
        ("[Service]\nExecStart=vllm serve $MODEL\n", "the model is the shell variable"),
        (
            "[Service]\nExecStart=vllm serve m\nExecStart=vllm serve n\n",
            "more than one launch command",
        ),
    ],
)
def test_other_units_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidCommandError) as caught:
        parse(text)
    assert message in caught.value.message
