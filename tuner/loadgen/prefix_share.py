"""How much of the prompts a prefix cache could find."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tuner.loadgen.trace import IntArray, PromptBlocks

Blocks = Sequence[tuple[int, int]]


def prefix_share(prompt_tokens: IntArray, blocks: PromptBlocks | None) -> float:
    """Share of all prompt tokens that an earlier prompt begins with: an endless cache's hits."""
    if blocks is None:
        return 0.0
    found = shared_tokens(blocks.of_request(row) for row in range(prompt_tokens.size))
    return sum(found) / float(prompt_tokens.sum())


def shared_tokens(requests: Iterable[Blocks]) -> list[int]:
    """Of each request, the leading tokens that a request before it has too."""
    longest: dict[int, int] = {}
    whole: set[int] = set()
    found = []
    for blocks in requests:
        chain, tokens, is_shared = 0, 0, True
        for identifier, count in blocks:
            place = hash((chain, identifier))
            known = longest.get(place, 0)
            tokens += min(count, known) if is_shared else 0
            longest[place] = max(known, count)
            chain = hash((chain, identifier, count))
            is_shared = is_shared and chain in whole
            whole.add(chain)
        found.append(tokens)
    return found
