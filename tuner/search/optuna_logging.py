from __future__ import annotations

import logging


def quiet_optuna() -> None:
    """Take Optuna's own handler off stderr and leave its warnings to the application's handlers.

    Called once by each composition root (and by tests), never at import: importing Optuna installs
    that handler. Without any handler of the application nothing is written at all.
    """
    import optuna

    optuna.logging.disable_default_handler()
    optuna.logging.enable_propagation()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    logger = logging.getLogger("optuna")
    if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
        # Without a handler of its own, logging's handler of last resort would write to stderr.
        logger.addHandler(logging.NullHandler())
