"""TLS without sockets: `ssl.SSLObject` between two memory buffers, so that no handshake or read ever blocks the loop."""

import contextlib
import os
import ssl

import certifi

from r1perf.errors import TransportError

# OpenSSL's verify codes (x509_vfy.h): what a certificate was refused for
_VERIFY = {
    9: ("tls_not_yet_valid", "its certificate is not valid yet"),
    10: ("tls_expired", "its certificate has expired"),
    18: ("tls_self_signed", "its certificate is self-signed"),
    19: ("tls_self_signed", "its certificate chain ends in a self-signed certificate that is not trusted here"),
    20: ("tls_untrusted", "its certificate's issuer is not trusted here"),
    21: ("tls_untrusted", "its certificate's issuer is not trusted here"),
    62: ("tls_hostname", "its certificate is for another host"),
    64: ("tls_hostname", "its certificate is for another address"),
}


def authority_fault(path: str) -> str | None:
    """Say why a file of certificates cannot be used; None where it can."""
    try:
        ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        return "holds no certificate in PEM"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return None


def context(verify: bool = True) -> ssl.SSLContext:
    """Make the one context of a transport (it costs about 30 ms and 0.8 MB).

    Trusted is what the platform trusts (SSL_CERT_FILE and SSL_CERT_DIR included); where the platform's store is empty, as in slim
    containers and in python.org's builds, certifi's.
    """
    made = ssl.create_default_context()
    if not verify:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    elif not made.cert_store_stats()["x509_ca"] and not _has_files(ssl.get_default_verify_paths().capath):
        made.load_verify_locations(certifi.where())
    made.set_alpn_protocols(["http/1.1"])
    return made


class Tls:
    """One TLS connection; who owns the socket moves the bytes."""

    __slots__ = ("_in", "_object", "_out", "closed")

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._in, self._out, server_hostname=host)
        self.closed = False  # the peer said that it will send no more

    def handshake(self, data: bytes = b"") -> bool:
        """Go on with the handshake, given what was received; return whether it is done.

        Send `outgoing()` after each call, an error's included: it holds the alert. Raises ssl.SSLError.
        """
        if data:
            self._in.write(data)
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def outgoing(self) -> bytes:
        """Take what is to be sent."""
        return self._out.read()

    def encrypt(self, data: bytes) -> bytes:
        """Turn plain bytes into bytes to send."""
        view = memoryview(data)
        while view:
            view = view[self._object.write(view) :]
        return self._out.read()

    def decrypt(self, data: bytes) -> bytes:
        """Turn received bytes into plain ones, perhaps none; b"" received is the connection's end. Raises ssl.SSLError."""
        if data:
            self._in.write(data)
        else:
            self._in.write_eof()
        plain: list[bytes] = []
        while True:
            try:
                part = self._object.read(65536)
            except ssl.SSLWantReadError:
                break
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):  # with close_notify, or without it as many servers do
                part = b""
            if not part:
                self.closed = True
                break
            plain.append(part)
        return plain[0] if len(plain) == 1 else b"".join(plain)

    def close(self) -> bytes:
        """Say goodbye; return the close_notify to send, if one can be."""
        with contextlib.suppress(ssl.SSLError):
            self._object.unwrap()
        return self._out.read()


def refusal(error: ssl.SSLError, where: str) -> TransportError:
    """Say why a TLS handshake failed, with a reason word of its own for each cause that people meet."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason, says = _VERIFY.get(error.verify_code, ("tls", f"its certificate was refused: {error.verify_message}"))
    elif error.reason in {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}:
        reason, says = "tls", "it does not speak TLS there; is the target's URL http://?"
    elif isinstance(error, ssl.SSLEOFError):
        reason, says = "tls", "it closed the connection during the handshake"
    else:
        reason, says = "tls", (error.reason or str(error)).lower().replace("_", " ")
    return TransportError("connect_error", reason, f"no TLS connection to {where}: {says}")


def _has_files(folder: str | None) -> bool:
    try:
        return bool(folder and os.listdir(folder))
    except OSError:
        return False
