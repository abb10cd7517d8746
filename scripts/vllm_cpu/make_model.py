"""Write a tiny Llama with random weights, and a tokenizer trained on invented text, to a directory.

    make_model.py DIRECTORY

No hub and no network: four layers of 256, 4096 tokens of vocabulary, 2 KiB of KV cache per token.
It speaks nonsense; what it is for is how an engine schedules and serves it. Runs in vLLM's own
environment (torch, transformers, tokenizers). The same seed gives the same files.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SEED = 0
VOCABULARY = 4096
LONGEST_TOKENS = 4096
SPECIAL = ("<pad>", "<s>", "</s>")
CHAT_TEMPLATE = (
    "{% for message in messages %}[{{ message['role'] }}] {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


def invented_sentences(count: int, rng: random.Random) -> Iterator[str]:
    """Sentences of made-up words, enough variety for byte-pair merges."""
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(5000)]
    for _ in range(count):
        yield " ".join(rng.choices(words, k=rng.randint(5, 40))).capitalize() + ".\n"


def trained_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE, so that any text can be encoded."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(invented_sentences(4000, random.Random(SEED)), trainer)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=SPECIAL[0],
        bos_token=SPECIAL[1],
        eos_token=SPECIAL[2],
        model_max_length=LONGEST_TOKENS,
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped


def random_llama(vocabulary: int) -> LlamaForCausalLM:
    """A Llama of about five million random weights."""
    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=LONGEST_TOKENS,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        tie_word_embeddings=True,
        dtype="bfloat16",
    )
    return LlamaForCausalLM(config).to(torch.bfloat16)


def main(directory: Path) -> None:
    """Tokenizer, configuration and weights, as the hub would have laid them out."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = trained_tokenizer()
    tokenizer.save_pretrained(directory)
    random_llama(len(tokenizer)).save_pretrained(directory)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
