"""Content codings, undone as the bytes come (RFC 9110, 8.4.1)."""

import zlib
from collections.abc import Callable

from r1perf.errors import TransportError

_GZIP, _ZLIB, _RAW = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS


class Inflater:
    """One gzip or deflate stream. "deflate" is zlib's format by the standard and raw deflate in some servers; both are read."""

    def __init__(self, gzip: bool) -> None:
        self._gzip = gzip
        self._begin = b""
        self._inflate = zlib.decompressobj(_GZIP) if gzip else None

    def feed(self, data: bytes) -> bytes:
        """Return what these bytes bring to light, perhaps nothing; raises TransportError where they are damaged."""
        if self._inflate is None:
            self._begin += data
            if len(self._begin) < 2:
                return b""
            data, self._begin = self._begin, b""
            zlib_header = data[0] & 15 == 8 and (data[0] << 8 | data[1]) % 31 == 0  # RFC 1950, 2.2
            self._inflate = zlib.decompressobj(_ZLIB if zlib_header else _RAW)
        try:
            out = self._inflate.decompress(data)
            while self._gzip and self._inflate.eof and self._inflate.unused_data:  # members may follow each other (RFC 1952, 2.2)
                rest = self._inflate.unused_data
                self._inflate = zlib.decompressobj(_GZIP)
                out += self._inflate.decompress(rest)
        except zlib.error as error:
            raise TransportError("stream_broken", "protocol", f"the response's compressed body is damaged: {error}") from error
        return out

    @property
    def whole(self) -> bool:
        """Tell whether the stream had its end, or never began."""
        return not self._begin if self._inflate is None else self._inflate.eof


def inflater(content_encoding: str) -> Inflater | None:
    """Return what undoes a Content-Encoding, None where nothing is to undo; raises TransportError for one we did not ask for."""
    make: dict[str, Callable[[], Inflater | None]] = {
        "": lambda: None,
        "identity": lambda: None,
        "gzip": lambda: Inflater(gzip=True),
        "x-gzip": lambda: Inflater(gzip=True),
        "deflate": lambda: Inflater(gzip=False),
    }
    coding = content_encoding.strip().lower()
    if coding not in make:
        raise TransportError(
            "stream_broken", "protocol", f'the response has the Content-Encoding "{coding}", which was not asked for'
        )
    return make[coding]()
