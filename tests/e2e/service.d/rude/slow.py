"""usage: slow.py HOST:PORT PID HEAD IDLE [CA]

Clients that send a byte now and then. Those that draw out what they ask for are ended after HEAD
seconds, whether of a handshake or a request, and on HTTP/2 after IDLE. Who draws out a body has a slow
line and is waited for as long as it moves; others are served meanwhile."""

import hashlib
import random
import sys
import time

import frames
from server import SOURCES, Server, check, everything, is_over, parsed, request

# Of each kind.
COUNT = 40
# Seconds between two bytes.
PACE = 0.1


class Slow:
    """Clients that all send the same, byte by byte, for ever if it is not `ends`."""

    def __init__(self, what, ones, text, ends=False):
        self.what, self.ones, self.text, self.ends = what, list(ones), text, ends
        self.began, self.sent, self.over = time.monotonic(), 0, None

    def step(self):
        """The next byte of each that was not ended."""
        if self.over or (self.ends and self.sent == len(self.text)):
            return
        byte = self.text[self.sent % len(self.text)].to_bytes()
        self.sent += 1
        left = []
        for one in self.ones:
            try:
                one.settimeout(10)
                one.sendall(byte)
                if not self.ends and is_over(one):
                    continue
            except OSError:
                continue
            left.append(one)
        check(not self.ends or len(left) == len(self.ones), f"{self.what}: none is ended")
        self.ones = left
        if not left:
            self.over = time.monotonic() - self.began


def main(at, pid, head, idle, ca=None):
    head, idle = float(head), float(idle)
    server = Server(at, pid, ca)

    def many(make):
        return [make(SOURCES[n % len(SOURCES)]) for n in range(COUNT)]

    def asked_once(source):
        one = server.connect(source, protocol="h2")
        one.sendall(frames.begin() + frames.head(1, "GET", "/v2/"))
        check(one.recv(1 << 16), "it is answered")
        return one

    # long enough to be drawn out for longer than anything is idle
    content = random.randbytes(int(1.5 * idle / PACE))
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"

    def pushing(source):
        one = server.connect(source)
        path = f"/v2/slow/upload/blobs/uploads/?digest={digest}"
        one.sendall(request("POST", path, f"Connection: close\r\nContent-Length: {len(content)}\r\n"))
        return one

    drawn_out = b"GET /v2/ HTTP/1.1\r\nHost: mirror\r\n" + b"X-A: b\r\n" * 100
    limits = {}
    slow = [Slow("heads", many(server.connect), drawn_out)]
    limits[slow[0]] = head
    if ca:
        # the first of a handshake (RFC 8446, 5.1): it would have 16 KiB
        slow.append(Slow("handshakes", many(server.raw), b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc" + b"\x03" * 1000))
        limits[slow[1]] = head
    first = frames.head(3, "GET", "/v2/" + "a" * 200)
    slow.append(Slow("heads of HTTP/2", many(asked_once), first[:9] + first[9:] * 10))
    limits[slow[-1]] = idle
    bodies = Slow("bodies", many(pushing), content, ends=True)

    worst = 0
    while bodies.sent < len(content) or not all(one.over for one in slow):
        for one in [*slow, bodies]:
            one.step()
        answer = server.ask("GET", "/v2/")
        check(answer.status == 200, f"others are served: {answer}")
        worst = max(worst, answer.seconds)
        time.sleep(PACE)
        check(time.monotonic() - bodies.began < 60, f"{[one.what for one in slow if not one.over]} are never ended")
    for one in slow:
        print(f"{COUNT} {one.what} byte by byte: ended after {one.over:.1f} s")
        check(one.over >= limits[one], f"not before {limits[one]} s")
        check(one.over <= limits[one] + 5, f"not later than {limits[one]} s")
    took = time.monotonic() - bodies.began
    check(took > idle, f"bodies took longer than anything may be idle: {took:.1f} s")
    for one in bodies.ones:
        answer = parsed(everything(one))
        check(answer.status == 201, f"a slow push ends well: {answer}")
    check(server.ask("GET", f"/v2/slow/upload/blobs/{digest}").body == content, "with all its bytes")
    print(f"{COUNT} bodies byte by byte: whole after {took:.1f} s; others waited {worst * 1000:.0f} ms at most")


main(*sys.argv[1:])
