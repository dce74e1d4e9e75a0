"""usage: idle.py HOST:PORT PID COUNT IDLE MANIFEST [CA]

COUNT connections on which nothing happens, half of them after a request. Meanwhile the manifest at
that path is there quickly, and the memory of the server is bounded. After IDLE seconds all are
closed."""

import concurrent.futures
import sys
import time

from server import SOURCES, Server, check, request, until

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


def main(at, pid, count, idle, manifest, ca=None):
    count, idle = int(count), float(idle)
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

    until("none is left", idle + 5, lambda: server.established() == 0)
    gone = time.monotonic() - began
    check(gone >= idle, f"none is closed before its time: {gone:.1f} s")
    print(f"all were closed after {gone:.1f} s")
    check(server.ask("HEAD", manifest).status == 200, "and others are taken again")
    del held


main(*sys.argv[1:])
