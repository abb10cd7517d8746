from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tuner.errors import InvalidTraceError
from tuner.loadgen.mooncake_trace import parse_mooncake
from tuner.loadgen.prefix_share import prefix_share
from tuner.loadgen.trace import Trace

DATA = Path(__file__).parents[2] / "support" / "data" / "traces"


def line(stamp: object = 0, prompt: int = 600, output: int = 5, ids: object = (1, 2)) -> str:
    listed = list(ids) if isinstance(ids, tuple) else ids
    values = {"timestamp": stamp, "input_length": prompt, "output_length": output}
    return json.dumps({**values, "hash_ids": listed})


def parse(*lines: str, seed: int = 0) -> Trace:
    text = "\n".join(lines)
    return parse_mooncake(text, source="m.jsonl", rng=np.random.default_rng(seed))


def test_a_block_is_512_tokens_and_the_last_one_the_rest() -> None:
    trace = parse(
        line(), line(1500, 512, 7, (1,)), line(2000, 530, 7, (1, 3)), line(2000, 530, 7, (1, 3))
    )
    assert trace.blocks is not None
    assert trace.blocks.of_request(0) == [(1, 512)]  # nobody shares the block 2
    assert trace.blocks.of_request(1) == [(1, 512)]
    assert trace.blocks.of_request(2) == trace.blocks.of_request(3) == [(1, 512), (3, 18)]
    assert trace.gaps_s is not None
    assert trace.gaps_s[1] == 1.5


def test_three_second_stamps_are_spread_within_their_step_and_the_bursts_are_gone() -> None:
    text = (DATA / "mooncake_conversation.jsonl").read_text()
    rows = [json.loads(row) for row in text.splitlines()]
    recorded = np.array([row["timestamp"] for row in rows]) / 1000
    literal = np.diff(recorded)
    assert literal.std() / literal.mean() > 2.5
    trace, again = parse(text), parse(text)
    assert trace.gaps_s is not None
    assert again.gaps_s is not None
    assert trace.gaps_s.tolist() == again.gaps_s.tolist()
    spread = trace.gaps_s[1:]
    assert spread.std() / spread.mean() < 1.3
    moments = np.cumsum(np.concatenate(([0.0], spread)))
    assert np.abs(moments - recorded).max() <= 6.0
    assert trace.notes == ("stamps in steps of 3 s are spread within their step",)
    assert trace.prompt_tokens.tolist() == [row["input_length"] for row in rows]


def test_fine_stamps_are_left_as_they_are() -> None:
    text = (DATA / "mooncake_synthetic.jsonl").read_text()
    trace = parse(text)
    stamps = [json.loads(row)["timestamp"] / 1000 for row in text.splitlines()]
    assert trace.gaps_s is not None
    assert trace.gaps_s[1:] == pytest.approx(np.diff(stamps))
    assert trace.notes == ()


def test_the_share_of_equal_prefixes_is_that_of_the_hashes() -> None:
    trace = parse(line(0, 600, 1, (1, 2)), line(1, 700, 1, (1, 3)), line(2, 600, 1, (1, 2)))
    assert prefix_share(trace.prompt_tokens, trace.blocks) == pytest.approx((512 + 600) / 1900)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("", "the line is empty"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a JSON object"),
        (line("soon"), "timestamp must be seconds"),
        (line(-1), "timestamp must be seconds"),
        (line(True), "timestamp must be seconds"),
        (line(5), "lies before"),
        (line(20, 0, 5, ()), "input_length must be"),
        (line(20, 600, -1), "output_length must be"),
        (line(20, 600, 5, (1,)), "1 hash_ids, but 600 tokens are 2 blocks"),
        (line(20, 600, 5, (1, -2)), "hash_ids must be"),
        (line(20, 600, 5, (1, "x")), "hash_ids must be"),
        (line(20, 600, 5, None), "hash_ids must be"),
        ('{"timestamp": 20, "input_length": NaN}', "input_length must be"),
    ],
)
def test_a_malformed_line_is_named_and_never_dropped(broken: str, message: str) -> None:
    with pytest.raises(InvalidTraceError, match=message) as caught:
        parse(line(10), broken, line(30))
    assert caught.value.where == "m.jsonl, line 2"
