"""Hypothesis strategies for engine configurations, launch commands and provenance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import strategies as st

from tuner.domain.engine_config import EngineConfig, FlagValue, LaunchCommand
from tuner.domain.flag_catalogue import FlagInfo, FlagType, catalogue
from tuner.domain.flag_values import join_words
from tuner.export.provenance import Gain, Provenance

ODD_TEXT = st.text(
    alphabet=st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), max_size=25
) | st.sampled_from(
    [
        "--max-num-seqs",
        "-1",
        "=",
        "a b",
        "'",
        '"',
        "\\",
        "$HOME",
        "`id`",
        "#x",
        "\n",
        ";",
        "{'a': 1}",
    ]
)
UNKNOWN_NAMES = st.from_regex(r"x-[a-z0-9]{1,6}(-[a-z0-9]{1,6})?(\.[a-z_]{1,6})?", fullmatch=True)


def values_of(info: FlagInfo) -> st.SearchStrategy[FlagValue]:
    """Every value of the flag's type, in the canonical type, whether vLLM would like it or not."""
    strategy: st.SearchStrategy[FlagValue]
    match info.type:
        case FlagType.BOOLEAN:
            strategy = st.booleans() if info.negatable else st.just(True)
        case FlagType.INTEGER | FlagType.SIZE:
            strategy = st.integers(-(10**15), 10**15)
        case FlagType.NUMBER:
            strategy = st.floats(allow_nan=False, allow_infinity=False)
        case FlagType.TEXT | FlagType.JSON:
            strategy = ODD_TEXT
        case FlagType.WORDS:
            several = st.lists(ODD_TEXT.filter(lambda t: not t.startswith("-")), min_size=2)
            strategy = (several | st.lists(ODD_TEXT, min_size=1, max_size=1)).map(join_words)
    return strategy | st.sampled_from(info.words) if info.words else strategy


@st.composite
def engine_configs(
    draw: st.DrawFn, *, without: frozenset[str] = frozenset(), secrets: bool = True
) -> EngineConfig:
    """Canonical configurations: known flags with values of their type, unknown ones with text."""
    known = [
        info
        for name, info in sorted(catalogue().flags.items())
        if name not in without and (secrets or not info.secret)
    ]
    chosen = draw(st.lists(st.sampled_from(known), max_size=8, unique_by=lambda i: i.name))
    flags = {info.name: draw(values_of(info)) for info in chosen}
    unknown = draw(st.dictionaries(UNKNOWN_NAMES, st.booleans() | ODD_TEXT, max_size=3))
    return EngineConfig.of({**flags, **unknown})


@st.composite
def launch_commands(draw: st.DrawFn) -> LaunchCommand:
    """Commands that can be exported and say nothing secret."""
    model = draw(ODD_TEXT.filter(lambda t: t != "" and not t.startswith("-")))
    names = st.sampled_from(sorted(catalogue().environment))
    env = draw(st.dictionaries(names, ODD_TEXT, max_size=4))
    config = draw(engine_configs(without=frozenset({"model"}), secrets=False))
    return LaunchCommand(model=model, config=config, env=tuple(env.items()))


def provenances() -> st.SearchStrategy[Provenance]:
    """Provenance with every text as odd as it comes."""
    numbers = st.floats(-1e6, 1e6)
    return st.builds(
        Provenance,
        study=ODD_TEXT,
        trial=st.none() | st.integers(0, 1000),
        at=st.datetimes(
            min_value=datetime(1970, 1, 2),  # noqa: DTZ001 - hypothesis adds the time zone
            max_value=datetime(9000, 1, 1),  # noqa: DTZ001
            timezones=st.sampled_from([UTC, timezone(timedelta(hours=5.5))]),
        ),
        servetune_version=ODD_TEXT,
        simulated=st.booleans(),
        verdict=ODD_TEXT,
        vllm_version=st.none() | ODD_TEXT,
        gpu=st.none() | ODD_TEXT,
        gpu_count=st.none() | st.integers(1, 8),
        workload_digest=st.none() | ODD_TEXT,
        gain=st.none() | st.builds(Gain, metric=ODD_TEXT, percent=numbers, low_percent=numbers),
        model_revision=st.none() | ODD_TEXT,
        image=st.none() | st.just("registry.example/vllm@sha256:0123"),
        notes=st.lists(ODD_TEXT, max_size=2).map(tuple),
    )


PLAIN_PROVENANCE = Provenance(
    study="chat",
    trial=7,
    at=datetime(2030, 1, 31, 18, 0, tzinfo=UTC),
    servetune_version="0.1.0",
    simulated=False,
    verdict="better than the baseline",
    vllm_version="0.33.0",
    gpu="NVIDIA H100 80GB HBM3",
    gpu_count=1,
    workload_digest="d1d2d3d4",
    gain=Gain("score", 21.4, 12.0, 30.5),
)
