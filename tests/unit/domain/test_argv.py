from __future__ import annotations

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.engine_configs import ODD_TEXT, engine_configs
from tests.support.unhurried import UNHURRIED
from tuner.domain.argv import from_argv, read_argv, to_argv, to_options
from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.domain.flag_catalogue import FlagType, catalogue
from tuner.domain.flag_values import canonical, join_words
from tuner.errors import InvalidCommandError


def config(**flags: FlagValue) -> EngineConfig:
    return EngineConfig.of({name.replace("_", "-"): value for name, value in flags.items()})


@pytest.mark.parametrize(
    ("flags", "arguments"),
    [
        ({}, ()),
        ({"max-num-seqs": 64}, ("--max-num-seqs", "64")),
        ({"enable-chunked-prefill": True}, ("--enable-chunked-prefill",)),
        ({"enable-chunked-prefill": False}, ("--no-enable-chunked-prefill",)),
        ({"gpu-memory-utilization": 0.9}, ("--gpu-memory-utilization", "0.9")),
        ({"max-model-len": -1}, ("--max-model-len=-1",)),
        ({"max-model-len": "auto"}, ("--max-model-len", "auto")),
        ({"max-num-batched-tokens": "8K"}, ("--max-num-batched-tokens", "8192")),
        ({"served-model-name": "a b"}, ("--served-model-name", "a", "b")),
        ({"served-model-name": "'a b'"}, ("--served-model-name", "a b")),
        ({"served-model-name": "-a"}, ("--served-model-name=-a",)),
        ({"cudagraph-capture-sizes": "1 2 4"}, ("--cudagraph-capture-sizes", "1", "2", "4")),
        ({"compilation-config": '{"mode": 3}'}, ("--compilation-config", '{"mode": 3}')),
        ({"quantization": ""}, ("--quantization", "")),
        ({"revision": "--x=1 y"}, ("--revision=--x=1 y",)),
        ({"x-new": "v"}, ("--x-new", "v")),
        ({"x-new": False}, ("--no-x-new",)),
        ({"disable-log-stats": False}, ()),
    ],
)
def test_flags_become_the_arguments_vllm_understands(
    flags: dict[str, FlagValue], arguments: tuple[str, ...]
) -> None:
    assert to_argv(EngineConfig.of(flags)) == arguments


def test_flags_stand_in_the_order_of_their_names() -> None:
    assert to_argv(config(seed=1, dtype="half", block_size=16)) == (
        "--block-size",
        "16",
        "--dtype",
        "half",
        "--seed",
        "1",
    )


def test_options_keep_the_arguments_of_a_flag_together() -> None:
    options = to_options(config(served_model_name="a b", seed=1))
    assert options == (("--seed", "1"), ("--served-model-name", "a", "b"))


@pytest.mark.parametrize(
    "flags",
    [
        {"": "x"},
        {"a b": "x"},
        {"a=b": "x"},
        {"-x y": "z"},
        {"ä": "x"},
        {"a\nb": True},
        {"max-num-seqs": "x"},
        {"x-new": "a\x00"},
        {"served-model-name": "a -b"},
    ],
)
def test_what_cannot_be_an_argument_is_refused(flags: dict[str, FlagValue]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        to_argv(EngineConfig.of(flags))


@UNHURRIED
@given(engine_configs())
def test_every_configuration_survives_the_command_line(configuration: EngineConfig) -> None:
    back = from_argv(to_argv(configuration))
    assert back == configuration
    assert back.digest == configuration.digest


@UNHURRIED
@given(
    st.dictionaries(
        ODD_TEXT | st.sampled_from(sorted(catalogue().names)),
        st.booleans() | st.integers() | st.floats() | ODD_TEXT,
        max_size=5,
    )
)
def test_any_configuration_is_refused_or_survives_in_canonical_form(
    flags: dict[str, FlagValue],
) -> None:
    configuration = EngineConfig.of(flags)
    try:
        arguments = to_argv(configuration)
    except ValueError:
        return
    assert from_argv(arguments) == canonical(configuration)


def argparse_like_vllm() -> argparse.ArgumentParser:
    """Python's own parser set up as vLLM sets it up, as an independent judge."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for info in catalogue().flags.values():
        option = f"--{info.name}"
        match info.type:
            case FlagType.BOOLEAN if info.negatable:
                parser.add_argument(option, action=argparse.BooleanOptionalAction)
            case FlagType.BOOLEAN:
                parser.add_argument(option, action="store_true", default=None)
            case FlagType.INTEGER | FlagType.SIZE if not info.words:
                parser.add_argument(option, type=int)
            case FlagType.NUMBER:
                parser.add_argument(option, type=float)
            case FlagType.WORDS:
                parser.add_argument(option, nargs="+")
            case _:
                parser.add_argument(option)
    return parser


ARGPARSE = argparse_like_vllm()


@UNHURRIED
@given(engine_configs())
def test_pythons_own_parser_reads_the_same_values(configuration: EngineConfig) -> None:
    known = {n: v for n, v in configuration.flags if n in catalogue().flags}
    parsed = vars(ARGPARSE.parse_args(list(to_argv(EngineConfig.of(known)))))
    seen = {n.replace("_", "-"): v for n, v in parsed.items() if v is not None}
    assert seen.keys() == known.keys()
    for name, value in known.items():
        got = join_words(seen[name]) if isinstance(seen[name], list) else seen[name]
        expected = str(value) if isinstance(got, str) else value
        assert got == expected


@pytest.mark.parametrize(
    ("line", "flags"),
    [
        ("--max-num-seqs 64", {"max-num-seqs": 64}),
        ("--max-num-seqs=64", {"max-num-seqs": 64}),
        ("--max_num_seqs 64", {"max-num-seqs": 64}),
        ("--max_num_seqs=64", {"max-num-seqs": 64}),
        ("--max-num-seqs 1 --max-num-seqs 2", {"max-num-seqs": 2}),
        ("--max-model-len 8k", {"max-model-len": 8000}),
        ("--max-num-batched-tokens 8K", {"max-num-batched-tokens": 8192}),
        ("--max-model-len -1", {"max-model-len": -1}),
        ("--max-model-len auto", {"max-model-len": "auto"}),
        ("--gpu-memory-utilization .9", {"gpu-memory-utilization": 0.9}),
        ("--device-memory-utilization 0.8", {"gpu-memory-utilization": 0.8}),
        ("--kv-cache-memory=1G", {"kv-cache-memory-bytes": 2**30}),
        ("--enable-chunked-prefill", {"enable-chunked-prefill": True}),
        ("--no-enable-chunked-prefill", {"enable-chunked-prefill": False}),
        ("--no_enable_chunked_prefill", {"enable-chunked-prefill": False}),
        ("--disable-chunked-prefill", {"enable-chunked-prefill": False}),
        ("--enable-chunked-prefill=False", {"enable-chunked-prefill": False}),
        ("--enable-chunked-prefill true", {"enable-chunked-prefill": True}),
        ("-tp 2 -pp=3", {"tensor-parallel-size": 2, "pipeline-parallel-size": 3}),
        ("-ep", {"enable-expert-parallel": True}),
        ("-q awq", {"quantization": "awq"}),
        ("-O3", {"optimization-level": 3}),
        ("-O 0", {"optimization-level": 0}),
        ("-O.mode=3", {"compilation-config.mode": "3"}),
        ("-cc.cudagraph_mode FULL", {"compilation-config.cudagraph_mode": "FULL"}),
        ("--compilation_config.cudagraph_mode=FULL", {"compilation-config.cudagraph_mode": "FULL"}),
        ("--served-model-name a b --seed 1", {"served-model-name": "a b", "seed": 1}),
        ("--served-model-name=a", {"served-model-name": "a"}),
        ("--cudagraph-capture-sizes 1 2 4", {"cudagraph-capture-sizes": "1 2 4"}),
        ("--seed -3", {"seed": -3}),
        ("--x-new 8k", {"x-new": "8k"}),
        ("--x-new", {"x-new": True}),
        ("--x-new --seed 1", {"x-new": True, "seed": 1}),
        ("--no-x-new", {"x-new": False}),
        ("--x-new=", {"x-new": ""}),
        ("--quantization=", {"quantization": ""}),
        ("--revision=--x", {"revision": "--x"}),
        ("--8bit x", {"8bit": "x"}),
    ],
)
def test_arguments_are_read_as_vllm_reads_them(line: str, flags: dict[str, FlagValue]) -> None:
    assert from_argv(line.split(" ")).as_dict() == flags


def test_json_and_values_with_spaces_are_kept() -> None:
    read = from_argv(["--compilation-config", '{"mode": 3}', "--revision", "- a b"])
    assert read.as_dict() == {"compilation-config": '{"mode": 3}', "revision": "- a b"}


def test_the_level_of_old_versions_may_be_json() -> None:
    assert from_argv(["-O", '{"level": 3}']).as_dict() == {"compilation-config": '{"level": 3}'}


@pytest.mark.parametrize(
    ("line", "message", "place"),
    [
        ("--seed 1 --max-num-seqs x", "--max-num-seqs: 'x' is not an integer", "argument 4"),
        ("--max-num-seqs 8k", "'8k' is not an integer", "argument 2"),
        ("--max-num-seqs", "--max-num-seqs expects a value", "argument 1"),
        ("--max-num-seqs --seed 1", "--max-num-seqs expects a value", "argument 1"),
        ("--served-model-name", "--served-model-name expects a value", "argument 1"),
        ("--gpu-memory-utilization nan", "not a finite number", "argument 2"),
        ("--enable-chunked-prefill=maybe", "neither true nor false", "argument 1"),
        ("--no-enable-chunked-prefill=true", "takes no value", "argument 1"),
        ("--no-max-num-seqs 3", "belongs to no flag", None),
        ("-Z", "-Z is not an option of vLLM", "argument 1"),
        ("-O", "-O expects a value", "argument 1"),
        ("model-name", "'model-name' belongs to no flag", None),
    ],
)
def test_what_vllm_would_refuse_is_refused_with_its_place(
    line: str, message: str, place: str | None
) -> None:
    with pytest.raises(InvalidCommandError) as caught:
        from_argv(line.split(" "))
    assert message in caught.value.message
    assert caught.value.where == place


def test_positionals_and_the_rest_after_two_dashes_are_returned() -> None:
    reading = read_argv(["model", "--seed", "1", "--", "--not-a-flag"])
    assert reading.positionals == ("model", "--not-a-flag")
    assert reading.config == config(seed=1)


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("--enable-chunked-prefill=false", "write --no-enable-chunked-prefill"),
        ("--enable-chunked-prefill True", "write --enable-chunked-prefill"),
        ("--max-model-len 8k", "--max-model-len 8k is read as 8000"),
        ("--seed 1 --seed 2", "--seed is given more than once; the last one counts"),
        ("--no-disable-log-stats", "does not exist in vLLM"),
    ],
)
def test_what_is_read_otherwise_than_written_is_remarked(line: str, note: str) -> None:
    notes = read_argv(line.split(" ")).notes
    assert any(note in text for text in notes)


def test_plain_arguments_need_no_remark() -> None:
    assert read_argv(["--max-num-seqs", "64", "--no-enable-chunked-prefill"]).notes == ()


def test_places_of_the_caller_are_named() -> None:
    with pytest.raises(InvalidCommandError) as caught:
        read_argv(["--seed", "x"], ["line 3", "line 4"])
    assert caught.value.where == "line 4"


@UNHURRIED
@given(st.lists(ODD_TEXT | st.sampled_from(["--seed", "-tp", "--no-x", "-O", "--", "1"])))
def test_any_arguments_are_read_or_refused(arguments: list[str]) -> None:
    try:
        configuration = from_argv(arguments)
    except InvalidCommandError:
        return
    assert isinstance(configuration, EngineConfig)
