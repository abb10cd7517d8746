"""Every signature, in the order in which they are tried on a line."""

from __future__ import annotations

from tuner.engine.compatibility_signatures import COMPATIBILITY
from tuner.engine.configuration_signatures import BAD_FLAG, CONFIG_REJECTED
from tuner.engine.memory_signatures import MEMORY
from tuner.engine.model_signatures import MODEL
from tuner.engine.surroundings_signatures import SURROUNDINGS

SIGNATURES = (
    *BAD_FLAG,
    *COMPATIBILITY,
    *CONFIG_REJECTED,
    *MODEL,
    *MEMORY,
    *SURROUNDINGS,
)
