"""usage: full.py HOST:PORT PID LIMIT DIGEST [CA]

As many connections as there may be. When all are in use, one more is refused as it should be; those on
which nothing is asked make way."""

import concurrent.futures
import ssl
import sys
import time

from server import SOURCES, Server, check, everything, is_over, parsed, request, until

# Clients that come when there is no room: more than wait for it at once.
MORE = 100
# Seconds a client waits for room, and a connection is quiet before it makes way.
PATIENCE, QUIET = 1, 5


def one_more(server):
    """Whether another client is served; else it is told as it should be."""
    try:
        with server.connect() as one:
            one.sendall(request("HEAD", "/v2/", "Connection: close\r\n"))
            answer = everything(one)
    except (ssl.SSLError, ConnectionError):
        answer = b""
    if answer.startswith(b"HTTP/1.1 200"):
        return True
    if server.ca:
        check(answer == b"", "with TLS it is closed")
    elif answer:
        answer = parsed(answer)
        told = answer.status == 503 and b"TOOMANYREQUESTS" in answer.body and "Retry-After" in answer.headers
        check(told, f"it is told to come again: {answer}")
    return False


def many_more(server):
    with concurrent.futures.ThreadPoolExecutor(MORE) as threads:
        return sum(threads.map(lambda _: one_more(server), range(MORE)))


def main(at, pid, limit, digest, ca=None):
    limit = int(limit)
    server = Server(at, pid, ca)
    busy = [server.connect(SOURCES[n % len(SOURCES)], receive=4096) for n in range(limit)]
    for one in busy:
        one.sendall(request("GET", f"/v2/large/file/blobs/{digest}"))
    until("all are being answered", 30, lambda: server.files("/blobs/") >= limit)
    time.sleep(QUIET)  # it is nothing that makes those in use give way
    began = time.monotonic()
    check(many_more(server) == 0, "all others are refused")
    print(f"{MORE} more than {limit} in use were refused in {time.monotonic() - began:.1f} s")
    check(not any(is_over(one) for one in busy), "who is being answered keeps its place")
    for one in busy:
        one.close()

    until("there is room again", 30, lambda: one_more(server))
    until("nobody is left", 30, lambda: server.established() == 0)
    quiet = [server.connect(SOURCES[n % len(SOURCES)]) for n in range(limit)]
    for one in quiet[::2]:
        one.sendall(request("HEAD", "/v2/"))
    time.sleep(QUIET + 1)  # the last of them as well
    began = time.monotonic()
    until("they make way", 3 * PATIENCE, lambda: one_more(server))
    took = time.monotonic() - began
    print(f"one more than {limit} quiet ones was served after {took:.2f} s")
    until("all have made way", 5, lambda: server.established() == 0)


main(*sys.argv[1:])
