"""The daemon over TLS, and certificates that can't be used."""

import json
import shutil
import ssl
import subprocess
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from tests.daemon.test_starting import refusal
from tests.support.daemon import Daemon
from tests.support.wait import eventually

OPENSSL = shutil.which("openssl")
needs_openssl = pytest.mark.skipif(OPENSSL is None, reason="needs openssl to make a certificate")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for localhost and its key."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = (
        f"{OPENSSL} req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    subprocess.run([*command.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True, timeout=60)
    return certificate, key


@needs_openssl
def test_calls_go_over_tls(tmp_path: Path, files: tuple[Path, Path]) -> None:
    certificate, key = files
    daemon = Daemon(tmp_path / "stepd.db", "--tls-certificate", str(certificate), "--tls-key", str(key))
    try:
        daemon.launch()
        eventually(lambda: "listens on https://" in daemon.output(), seconds=30)
        link = HTTPSConnection(
            "localhost", daemon.port, context=ssl.create_default_context(cafile=str(certificate)), timeout=10
        )
        for _ in range(2):
            link.request("GET", "/v1/service")
            assert json.load(link.getresponse())["name"] == "stepd"
        link.close()
        assert daemon.stop(5) == 0
        assert "Traceback" not in daemon.output()
    finally:
        daemon.close()


@needs_openssl
def test_files_that_do_not_go_together_are_refused(tmp_path: Path, files: tuple[Path, Path]) -> None:
    certificate, key = files
    for bad in (("no-such-file.pem", str(key)), (str(key), str(certificate))):
        told = refusal("serve", "--bind", "127.0.0.1:0", "--tls-certificate", bad[0], "--tls-key", bad[1])
        assert "both must be PEM files" in told
