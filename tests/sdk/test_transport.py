"""What a call that got no answer says of why: the name, and the way out."""

import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from stepd_worker import Client, Unreachable
from tests.support.daemon import free_port

OPENSSL = shutil.which("openssl")


@pytest.fixture
def tls_url(tmp_path: Path) -> Iterator[str]:
    """A server with a certificate that nobody trusts."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = (
        f"{OPENSSL} req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run([*command.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign] # the client goes away, as it should
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"https://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.skipif(OPENSSL is None, reason="needs openssl to make a certificate")
def test_a_certificate_that_is_not_trusted_is_named_with_the_way_out(tls_url: str) -> None:
    with Client(tls_url, retry_seconds=0) as client, pytest.raises(Unreachable) as fault:
        client.service()
    told = str(fault.value)
    assert f"The certificate of {tls_url} is not trusted: self-signed certificate" in told
    assert "SSL_CERT_FILE" in told


def test_a_port_where_nothing_listens_is_named() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with Client(url, retry_seconds=0) as client, pytest.raises(Unreachable, match=f"Nothing answers at {url}"):
        client.service()
