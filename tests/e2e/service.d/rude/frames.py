"""As much of HTTP/2 as a client needs that asks and does not read (RFC 9113)."""

import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, SETTINGS, WINDOW_UPDATE = 0, 1, 4, 8
END_STREAM, END_HEADERS = 1, 4

# Bytes of a frame at most, and of all that are sent before a window was given.
FRAME, WINDOW = 16384, 65535
INITIAL_WINDOW_SIZE = 4
LARGEST_WINDOW = 2**31 - 1


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def begin():
    """No window of this client holds back what the server sends."""
    settings = struct.pack(">HI", INITIAL_WINDOW_SIZE, LARGEST_WINDOW)
    more = struct.pack(">I", LARGEST_WINDOW - WINDOW)
    return PREFACE + frame(SETTINGS, 0, 0, settings) + frame(WINDOW_UPDATE, 0, 0, more)


def _text(text):
    length = len(text)
    # seven bits, and what is more in a second byte (RFC 7541, 5.1)
    assert length < 127 + 128
    return (bytes([length]) if length < 127 else bytes([127, length - 127])) + text.encode()


def head(stream, method, path, ends=True):
    """A request; names and values stand as they are (RFC 7541, 6.2.2)."""
    fields = [(":method", method), (":scheme", "https"), (":path", path), (":authority", "mirror")]
    block = b"".join(b"\0" + _text(name) + _text(value) for name, value in fields)
    return frame(HEADERS, END_HEADERS | (END_STREAM if ends else 0), stream, block)


def body(stream, bytes_):
    """Part of a body, after which more would come."""
    assert len(bytes_) <= WINDOW
    parts = (bytes_[at : at + FRAME] for at in range(0, len(bytes_), FRAME))
    return b"".join(frame(DATA, 0, stream, part) for part in parts)
