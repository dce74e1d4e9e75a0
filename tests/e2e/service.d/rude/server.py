"""A mirror as its clients see it, and what its process costs."""

import collections
import os
import socket
import ssl
import time

# Addresses to come from: one alone has no ports for that many connections.
SOURCES = [f"127.0.0.{n}" for n in range(2, 12)]

Answer = collections.namedtuple("Answer", "status headers body seconds")


class Server:
    """A mirror at an address, in the process `pid`; with a CA it speaks TLS."""

    def __init__(self, at, pid, ca=None):
        host, port = at.rsplit(":", 1)
        self.address = (host, int(port))
        self.pid = int(pid)
        self.ca = ca
        self.contexts = {}

    def raw(self, source=SOURCES[0], receive=None):
        """A connection of which nothing is agreed on. `receive`: size of the buffer for what comes."""
        one = socket.socket()
        one.settimeout(30)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        one.bind((source, 0))
        one.connect(self.address)
        return one

    def connect(self, source=SOURCES[0], receive=None, protocol="http/1.1"):
        """A connection on which that protocol can be spoken."""
        one = self.raw(source, receive)
        if not self.ca:
            return one
        if protocol not in self.contexts:
            self.contexts[protocol] = ssl.create_default_context(cafile=self.ca)
            self.contexts[protocol].set_alpn_protocols([protocol])
        return self.contexts[protocol].wrap_socket(one, server_hostname=self.address[0])

    def ask(self, method, path, lines="", body=b""):
        """One request on a connection of its own."""
        began = time.monotonic()
        with self.connect() as one:
            length = f"Content-Length: {len(body)}\r\n" if body or method != "GET" else ""
            one.sendall(request(method, path, f"Connection: close\r\n{length}{lines}") + body)
            answer = parsed(everything(one))
        return answer._replace(seconds=time.monotonic() - began)

    def memory(self):
        """What it has in memory, KiB."""
        with open(f"/proc/{self.pid}/status") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))

    def files(self, within):
        """How many files it has open whose path has that in it."""
        folder = f"/proc/{self.pid}/fd"
        found = 0
        for name in os.listdir(folder):
            try:
                found += within in os.readlink(f"{folder}/{name}")
            except FileNotFoundError:
                pass  # closed meanwhile
        return found

    def established(self):
        """Connections to it, as the system counts them."""
        port = f":{self.address[1]:04X}"
        with open("/proc/net/tcp") as lines:
            split = (line.split() for line in lines)
            return sum(1 for line in split if line[1].endswith(port) and line[3] == "01")


def request(method, path, lines=""):
    return f"{method} {path} HTTP/1.1\r\nHost: mirror\r\n{lines}\r\n".encode()


def everything(one):
    """All that comes until the other side ends."""
    pieces = []
    while piece := one.recv(1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def parsed(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return Answer(int(first.split()[1]), headers, body, 0)


def is_over(one):
    """Whether the server has ended a connection on which it says nothing else."""
    one.settimeout(0)
    try:
        return one.recv(1 << 16) == b""
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True


def until(what, seconds, holds):
    """Waits until something holds; how long that took."""
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > seconds:
            raise SystemExit(f"after {seconds} s still not so: {what}")
        time.sleep(0.05)
    return time.monotonic() - began


def check(holds, what):
    if not holds:
        raise SystemExit(f"not so: {what}")
