"""HTTP/2 over TLS, as the handshake agrees on it; keys that are not the certificate's; the program over TLS."""

import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import pytest

from tests.cli.program import Program
from tests.daemon.test_starting import refusal
from tests.support.daemon import Daemon
from tests.support.wait import eventually

OPENSSL = shutil.which("openssl")
pytestmark = pytest.mark.skipif(OPENSSL is None, reason="needs openssl to make certificates")


class Files:
    """A certificate for localhost, its key, another key, and its key under a password."""

    def __init__(self, folder: Path) -> None:
        self.certificate, self.key = folder / "cert.pem", folder / "key.pem"
        self.other, self.locked = folder / "other.pem", folder / "locked.pem"
        _openssl(
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost",
            "-keyout",
            self.key,
            "-out",
            self.certificate,
        )
        _openssl("genpkey -algorithm RSA", "-out", self.other)
        _openssl("pkcs8 -topk8 -passout pass:hush", "-in", self.key, "-out", self.locked)

    def flags(self, key: Path | None = None) -> tuple[str, ...]:
        return "--tls-certificate", str(self.certificate), "--tls-key", str(key or self.key)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, files: Files) -> Iterator[Daemon]:
    """A daemon that speaks TLS."""
    daemon = Daemon(tmp_path_factory.mktemp("db") / "stepd.db", *files.flags())
    try:
        daemon.launch()
        eventually(lambda: "listens on https://" in daemon.output(), seconds=30)
        yield daemon
    finally:
        daemon.close()


def handshake(daemon: Daemon, files: Files, *protocols: str) -> ssl.SSLSocket:
    """A connection whose client offers these protocols."""
    context = ssl.create_default_context(cafile=str(files.certificate))
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context.wrap_socket(socket.create_connection(("127.0.0.1", daemon.port), 10), server_hostname="localhost")


def ask_by_http2(link: ssl.SSLSocket, path: str) -> tuple[str, bytes]:
    """One GET; status and body."""
    connection = h2.connection.H2Connection(h2.config.H2Configuration())
    connection.initiate_connection()
    asked = [(":method", "GET"), (":path", path), (":scheme", "https"), (":authority", "localhost")]
    connection.send_headers(connection.get_next_available_stream_id(), asked, end_stream=True)
    status, body = "", b""
    while True:
        link.sendall(connection.data_to_send())
        data = link.recv(65536)
        assert data, "the connection ended before the answer did"
        for event in connection.receive_data(data):
            match event:
                case h2.events.ResponseReceived(headers=headers):
                    status = dict(headers)[b":status"].decode()
                case h2.events.DataReceived(data=piece):
                    body += piece
                case h2.events.StreamEnded():
                    return status, body


def test_the_handshake_chooses_http2_where_the_client_can(daemon: Daemon, files: Files) -> None:
    with handshake(daemon, files, "h2", "http/1.1") as link:
        assert link.selected_alpn_protocol() == "h2"
        assert link.version() in ("TLSv1.2", "TLSv1.3")
        assert ask_by_http2(link, "/healthz") == ("200", b'{"alive":true}')
        assert ask_by_http2_again(daemon, files) == "404"


def ask_by_http2_again(daemon: Daemon, files: Files) -> str:
    """The status of a path that is not there, on a second connection beside the first."""
    with handshake(daemon, files, "h2") as link:
        return ask_by_http2(link, "/v1/nowhere")[0]


@pytest.mark.parametrize("offered", [("http/1.1",), ()])
def test_the_handshake_leaves_other_clients_with_http1(daemon: Daemon, files: Files, offered: tuple[str, ...]) -> None:
    with handshake(daemon, files, *offered) as link:
        assert link.selected_alpn_protocol() in ("http/1.1", None)
        link.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: link.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b'{"alive":true}')


def test_clients_without_tls_or_with_an_old_one_get_nothing_and_harm_nobody(daemon: Daemon, files: Files) -> None:
    with socket.create_connection(("127.0.0.1", daemon.port), 10) as plain:
        plain.sendall(b"GET /v1/service HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200" not in plain.recv(65536)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.load_verify_locations(files.certificate)
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", daemon.port), 10) as link, pytest.raises((ssl.SSLError, OSError)):
        old.wrap_socket(link, server_hostname="localhost")
    with handshake(daemon, files, "h2") as link:
        assert ask_by_http2(link, "/readyz")[0] == "200"
    assert "Traceback" not in daemon.output()


def test_the_program_talks_tls_to_a_certificate_that_it_is_told_to_trust(daemon: Daemon, files: Files) -> None:
    program = Program(f"https://localhost:{daemon.port}")
    trusting = {"SSL_CERT_FILE": str(files.certificate)}
    program("ls", env=trusting).expect(0)
    program("ls").expect(69)
    found = program("doctor", "--database", f"sqlite:///{daemon.file}", env=trusting).expect(0)
    assert f"at https://localhost:{daemon.port}" in found.out
    found = program("doctor", "--database", f"sqlite:///{daemon.file}").expect(0)
    assert "no TLS with https://localhost" in found.out


def test_a_key_that_is_not_the_certificates_is_refused(files: Files) -> None:
    told = refusal("serve", "--bind", "127.0.0.1:0", *files.flags(files.other))
    assert f"--tls-certificate {files.certificate} with --tls-key {files.other}: " in told
    assert "mismatch" in told
    assert "the key without a password and the certificate's own" in told


def test_a_key_under_a_password_is_refused_and_not_asked_for(files: Files) -> None:
    assert "the key has a password" in refusal("serve", "--bind", "127.0.0.1:0", *files.flags(files.locked))


def test_one_of_the_two_files_is_not_enough(files: Files) -> None:
    for flag in ("--tls-certificate", "--tls-key"):
        assert "give both, or neither" in refusal("serve", "--bind", "127.0.0.1:0", flag, str(files.key))


def _openssl(command: str, *arguments: str | Path) -> None:
    subprocess.run([str(OPENSSL), *command.split(), *arguments], check=True, capture_output=True, timeout=60)
