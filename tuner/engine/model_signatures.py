"""Signatures of a model that cannot be had, read or run: nothing a launch parameter changes."""

from __future__ import annotations

import re
from collections.abc import Callable

from tuner.domain.diagnosis import Consequence, Phase
from tuner.engine.signature import CONSEQUENCE, EXPLICIT, Hit, Reading, Signature

_re = re.compile
_RETRY, _STOP = Consequence.RETRY, Consequence.STOP_STUDY


def _reason(reason: str) -> Callable[[Hit], Reading]:
    return lambda _hit: Reading(facts={"reason": reason})


def _unavailable(
    pattern: str,
    reason: str,
    summary: str,
    *,
    phase: Phase = Phase.CONFIG,
    retry: bool = False,
    precedence: int = EXPLICIT,
) -> Signature:
    consequence = _RETRY if retry else _STOP
    return Signature(
        "model_unavailable",
        _re(pattern),
        phase,
        consequence,
        summary,
        read=_reason(reason),
        precedence=precedence,
    )


def _unsupported(pattern: str, summary: str, phase: Phase = Phase.CONFIG) -> Signature:
    return Signature("model_unsupported", _re(pattern), phase, _STOP, summary)


MODEL = (
    _unsupported(
        r"Model architectures \[.*\] (?:are not supported|failed to be inspected|were supported)"
        r"|has no vLLM implementation and the Transformers implementation is not compatible",
        "this engine does not support the model's architecture",
    ),
    _unsupported(
        r"but Transformers does not recognize this architecture"
        r"|Unrecognized model in \S+.*\bmodel_type\b|Unrecognized configuration class",
        "the engine's Transformers library does not know this kind of model",
    ),
    _unsupported(
        r"There is no module or parameter named '\S+' in \w+",
        "the weights do not belong to the architecture that the model's configuration names",
        Phase.LOAD,
    ),
    _unavailable(
        r"GatedRepoError|Cannot access gated repo|\bgated repo|access to (?:it|this repo) is "
        r"restricted",
        "gated",
        "the model is gated: accept its licence and give the engine an HF_TOKEN",
    ),
    _unavailable(
        r"Invalid user token|Invalid username or password|token seems invalid"
        r"|401 Client Error: Unauthorized",
        "token",
        "the hub refuses the token that the engine was given",
        precedence=CONSEQUENCE,
    ),
    _unavailable(
        r"Can't load tokenizer for|Failed to load the tokenizer|Couldn't instantiate the backend "
        r"tokenizer|Tokenizer class \S+ does not exist|untagged enum (?:ModelWrapper|PyPreTokeniz)"
        r"|Can't load (?:the )?(?:image|feature|pre)processor for",
        "tokenizer",
        "the model's tokenizer or processor cannot be read",
    ),
    _unavailable(
        r"outgoing traffic has been disabled",
        "offline",
        "the model is not in the local cache and the engine is told to stay offline",
    ),
    _unavailable(
        r"LocalEntryNotFoundError|couldn't connect to '?https?://"
        r"|Cannot find an appropriate cached snapshot folder",
        "network_or_cache",
        "the model is not in the local cache and the hub cannot be reached",
        retry=True,
    ),
    _unavailable(
        r"Max retries exceeded with url|NameResolutionError|\bConnectTimeout\b|ReadTimeoutError"
        r"|(?:429|50[0234]) (?:Client|Server) Error|Temporary failure in name resolution",
        "network_or_cache",
        "the hub could not be reached",
        retry=True,
        precedence=CONSEQUENCE,
    ),
    _unavailable(
        r"Invalid repository ID or local directory specified|HFValidationError: Repo id must be"
        r"|RepositoryNotFoundError|Repository Not Found|RevisionNotFoundError|Revision Not Found"
        r"|is not a local folder and is not a valid model identifier|No supported config format"
        r"|does not appear to have a file named|No adapter found for|adapter_config\.json' at",
        "not_found",
        "there is no such model on the hub or on this host",
    ),
    _unavailable(
        r"Cannot find any model weights with|No model weights found in",
        "no_weights",
        "the model's directory holds no weights",
        phase=Phase.LOAD,
    ),
    _unavailable(
        r"SafetensorError|Error while deserializing header|UnpicklingError"
        r"|PytorchStreamReader failed|Following weights were not initialized from checkpoint",
        "broken_weights",
        "the model's weights are incomplete or broken: fetch them again",
        phase=Phase.LOAD,
    ),
)
