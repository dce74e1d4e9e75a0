"""usage: unread.py HOST:PORT PID PROTOCOL COUNT IDLE DIGEST [CA]

COUNT clients that ask for a large blob and read nothing of it; those of HTTP/2 (h2) ask 32 times each.
The memory of the server is bounded, others are served, and after IDLE seconds they are ended."""

import hashlib
import sys
import time

import frames
from server import SOURCES, Server, check, request, until

# KiB of the server for each client. HTTP/1.1 hands files to the socket, or with TLS holds what is
# encrypted already and what follows; HTTP/2 has two small buffers for each request.
EACH = {"plain": 64, "tls": 512, "h2": 2048}
STREAMS = 32


def main(at, pid, protocol, count, idle, digest, ca=None):
    count, idle = int(count), float(idle)
    server = Server(at, pid, ca)
    path = f"/v2/large/file/blobs/{digest}"
    held = []
    before = server.memory()
    began = time.monotonic()
    for n in range(count):
        # what is not read waits for the most part in the server's buffers
        one = server.connect(SOURCES[n % len(SOURCES)], receive=4096, protocol=protocol)
        if protocol == "h2":
            asked = (frames.head(2 * n + 1, "GET", path) for n in range(STREAMS))
            one.sendall(frames.begin() + b"".join(asked))
        else:
            one.sendall(request("GET", path))
        held.append(one)
    # nothing moves any more
    last = [0]

    def settled():
        time.sleep(0.2)
        last.append(server.memory())
        return last[-1] == last[-2] and server.files("/blobs/") > 0

    until("their answers have begun, and wait", idle, settled)
    memory = server.memory()
    print(f"{count} clients: {before} KiB became {memory}, {(memory - before) / count:.1f} each")
    each = EACH["h2" if protocol == "h2" else "tls" if ca else "plain"]
    check(memory - before <= each * count, f"at most {each} KiB each")

    other = server.ask("GET", path)
    check(f"sha256:{hashlib.sha256(other.body).hexdigest()}" == digest, "another gets the blob")
    print(f"another got {len(other.body) / 1e6:.0f} MB meanwhile, in {other.seconds:.1f} s")

    until("all are ended", idle + 5, lambda: server.established() == 0)
    gone = time.monotonic() - began
    check(gone >= idle, f"none is ended before its time: {gone:.1f} s")
    until("their files are closed", 5, lambda: server.files("/blobs/") == 0)
    print(f"all were ended after {gone:.1f} s")
    del held


main(*sys.argv[1:])
