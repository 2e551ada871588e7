"""Asks a certificate how long it is good for: a handshake in memory, since only that way the standard library tells."""

import ssl
import time
from typing import Final

from stepd.doctor.findings import Finding, ok, warning, wrong

SOON_SECONDS: Final = 14 * 86_400
RENEW: Final = "Renew it, and start the daemon again."


def examine_certificate(certificate: str, key: str) -> Finding:
    """Whether clients will take the certificate's dates; the two files can be loaded."""
    try:
        ends_at = _ends_at(certificate, key)
    except ssl.SSLCertVerificationError as fault:
        return wrong("tls", f"clients would refuse {certificate}: {fault.verify_message}", RENEW)
    except ssl.SSLError as fault:
        return warning("tls", f"no handshake with {certificate}: {fault.reason or fault}", "Try it with a client.")
    until = time.strftime("%Y-%m-%d", time.gmtime(ends_at))
    if ends_at - time.time() < SOON_SECONDS:
        return warning("tls", f"{certificate} is good until {until} only", RENEW)
    return ok("tls", f"{certificate} with {key}, good until {until}")


def _ends_at(certificate: str, key: str) -> float:
    """When the certificate ends, in seconds since the epoch. Raises SSLError."""
    for_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for_server.load_cert_chain(certificate, key)
    for_client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for_client.check_hostname = False
    # The certificate vouches for itself here: whom clients trust isn't known, its dates are.
    for_client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    for_client.load_verify_locations(certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = for_server.wrap_bio(to_server, to_client, server_side=True)
    client = for_client.wrap_bio(to_client, to_server)
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            pass
    found = client.getpeercert() or {}
    return ssl.cert_time_to_seconds(str(found["notAfter"]))
