"""usage: idle.py HOST:PORT PID COUNT LIMIT IDLE MANIFEST [CA]

COUNT connections on which nothing happens, half of them after a request. Meanwhile the manifest at
that path is there quickly, the memory of the server is bounded, and no more than LIMIT connections
are taken. After IDLE seconds all are closed."""

import concurrent.futures
import ssl
import sys
import time

from server import SOURCES, Server, check, everything, parsed, request, until

# KiB of the server for each. Without TLS about 15, with TLS about 21.
EACH = 32
# Opened at once: handshakes take both sides some time.
THREADS = 4


def opened(server, n):
    one = server.connect(SOURCES[n % len(SOURCES)])
    if n % 2:
        one.sendall(request("HEAD", "/v2/"))
        check(one.recv(4096).startswith(b"HTTP/1.1 200"), "a request is answered")
    return one


def beyond(server):
    """One more connection: it is taken and given back, or refused as it should be."""
    try:
        one = server.connect()
        one.sendall(request("HEAD", "/v2/"))
        first = one.recv(4096)
    except (ssl.SSLError, ConnectionError):
        first = b""
    if first.startswith(b"HTTP/1.1 200"):
        return one
    if server.ca:
        check(first == b"", "with TLS it is closed")
        return None
    answer = parsed(first + everything(one))
    check(answer.status == 503 and b"TOOMANYREQUESTS" in answer.body, f"it is told so: {answer}")
    check("Retry-After" in answer.headers, "and when to come again")
    return None


def main(at, pid, count, limit, idle, manifest, ca=None):
    count, limit, idle = int(count), int(limit), float(idle)
    server = Server(at, pid, ca)
    before = server.memory()
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
        held = list(threads.map(lambda n: opened(server, n), range(count)))
    took = time.monotonic() - began
    memory = server.memory()
    check(server.established() >= count, f"{count} are open, not {server.established()}")
    print(f"{count} connections in {took:.1f} s: {before} KiB became {memory}, {(memory - before) / count:.1f} each")
    check(memory - before <= EACH * count, f"at most {EACH} KiB each")

    answers = [server.ask("HEAD", manifest) for _ in range(100)]
    check(all(answer.status == 200 for answer in answers), "the manifest is there")
    seconds = sorted(answer.seconds for answer in answers)
    print(f"a manifest meanwhile: {seconds[50] * 1000:.1f} ms, at most {seconds[-1] * 1000:.1f}")
    check(seconds[50] < 0.1, "a manifest is there quickly")

    more = []
    while len(more) <= limit - count and (one := beyond(server)):
        more.append(one)
    check(1 <= len(more) <= limit - count, f"{count} and {len(more)} more are taken, of {limit}")
    check(not any(beyond(server) for _ in range(100)), "all others are refused")

    until("none is left", idle + 5, lambda: server.established() == 0)
    gone = time.monotonic() - began
    check(gone >= idle, f"none is closed before its time: {gone:.1f} s")
    print(f"all were closed after {gone:.1f} s")
    check(server.ask("HEAD", manifest).status == 200, "and others are taken again")
    del held, more


main(*sys.argv[1:])
