"""Messages on a byte stream: four bytes of length, big-endian, then the message."""

LIMIT = 256 * 1024 * 1024
"""A longer message is damage, not data."""


def frame(message: bytes) -> bytes:
    """Put the length in front."""
    return len(message).to_bytes(4, "big") + message


class Unframer:
    """Cut a byte stream, fed in any split, into its messages; raises ValueError where a length cannot be."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take what has arrived and return the messages that are complete."""
        self._buffer += data
        messages, at = [], 0
        while len(self._buffer) - at >= 4:
            length = int.from_bytes(self._buffer[at : at + 4], "big")
            if length > LIMIT:
                raise ValueError(f"a message of {length} bytes was announced; at most {LIMIT} are allowed")
            if len(self._buffer) - at - 4 < length:
                break
            messages.append(bytes(self._buffer[at + 4 : at + 4 + length]))
            at += 4 + length
        del self._buffer[:at]
        return messages

    @property
    def rest(self) -> int:
        """Count the bytes that are still waiting for the rest of their message."""
        return len(self._buffer)
