"""Certificates for servers of tests, made with the openssl command."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path


def self_signed(directory: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    cert, key = directory / "cert.pem", directory / "key.pem"
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    words += " -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    command = [*words.split(), "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    return cert, key


def server_side(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    """What a server needs of it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context
