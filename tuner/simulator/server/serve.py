"""`serve`: from the command line to a running server, or to vLLM's way of not starting."""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence

from tuner.errors import InvalidCommandError, InvalidInputError
from tuner.simulator.gpus import gpu_preset
from tuner.simulator.server import startup_log, tracebacks
from tuner.simulator.server.arguments import USAGE, ServeArguments, UsageError, read_arguments
from tuner.simulator.server.engine_log import EngineLog
from tuner.simulator.server.help_text import (
    general_help,
    serve_help,
    version_text,
    wants_help,
)

EXIT_USAGE = 2
EXIT_FAILED = 1


def main(args: Sequence[str]) -> int:
    """Run `tuner.simulator`'s command line; returns the exit code."""
    asked = _asked_for_text(tuple(args))
    if asked is not None:
        sys.stdout.write(asked)
        return 0
    try:
        if not args or args[0] != "serve":
            raise UsageError("argument subparser: invalid choice (choose from 'serve')")
        arguments = read_arguments(args[1:])
        gpu_preset(arguments.options.gpu)
    except UsageError as error:
        return _usage(error.message)
    except InvalidCommandError as error:
        trace = tracebacks.traceback_text(tracebacks.API_SERVER, f"ValueError: {error.message}")
        sys.stderr.write(trace + "\n")
        return EXIT_FAILED
    except InvalidInputError as error:
        return _usage(f"argument --sim-gpu: {error.message}")
    return _start(arguments, EngineLog(os.getpid()))


def _asked_for_text(args: tuple[str, ...]) -> str | None:
    """The help or version that was asked for, None when a server is to be started."""
    if args[:1] in (("-v",), ("--version",)):
        return version_text()
    if args[:1] == ("serve",):
        return serve_help() if wants_help(args[1:]) else None
    return general_help() if wants_help(args) else None


def _usage(message: str) -> int:
    sys.stderr.write(f"{USAGE}vllm: error: {message}\n")
    return EXIT_USAGE


def _start(arguments: ServeArguments, log: EngineLog) -> int:
    """Go through vLLM's start in its order: banner, socket, model, configuration, engine."""
    if arguments.options.faults.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    startup_log.write_banner(log, arguments)
    try:
        listener = _bind(arguments.host, arguments.port)
    except OSError as error:
        reason = f"[Errno {error.errno}] {os.strerror(error.errno or errno.EADDRINUSE)}"
        log.plain(tracebacks.traceback_text(tracebacks.SOCKET, f"OSError: {reason}"))
        return EXIT_FAILED
    with listener:
        return _start_engine(arguments, log, listener)


def _bind(host: str | None, port: int) -> socket.socket:
    """A bound socket that does not listen yet, as vLLM reserves its port before the long start."""
    family = socket.AF_INET6 if host is not None and ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host or "", port))
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def _start_engine(arguments: ServeArguments, log: EngineLog, listener: socket.socket) -> int:
    # numpy and the engine model are not needed to refuse a command line.
    from tuner.simulator.server import launch as launching
    from tuner.simulator.server.config_check import first_fault
    from tuner.simulator.server.injected_failure import with_injected_failure

    try:
        dtype = arguments.config.get("dtype")
        model, architecture = launching.resolve_model(arguments.model, dtype)
    except launching.ModelUnavailableError as error:
        log.plain(tracebacks.traceback_text(tracebacks.MODEL_PATH, error.message))
        return EXIT_FAILED
    config = launching.effective_config(arguments, model)
    fault = first_fault(config, arguments.options.gpu_count, model)
    if fault is not None:
        startup_log.write_config_fault(log, fault, config, architecture)
        return EXIT_FAILED
    launch = with_injected_failure(launching.plan_launch(arguments, model, architecture))
    startup_log.write_config(log, launch)
    time.sleep(arguments.options.faults.startup_delay_s)
    startup_log.EngineStart(log, launch).write()
    if launch.failure is not None:
        return EXIT_FAILED

    from tuner.simulator.server.running import run_server

    return run_server(launch, log, listener)
