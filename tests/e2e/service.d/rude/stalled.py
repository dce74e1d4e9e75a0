"""usage: stalled.py HOST:PORT PID PROTOCOL IDLE [CA]

Uploads that stop in the middle of PATCH, PUT and a stream without length: after IDLE seconds the
connection ends, and the upload goes on where it was."""

import hashlib
import random
import sys
import time

import frames
from server import Server, check, is_over, parsed, request, until

REPOSITORY = "/v2/stalled/upload/blobs"


def main(at, pid, protocol, idle, ca=None):
    idle = float(idle)
    server = Server(at, pid, ca)
    # less than the first window of HTTP/2
    part = 60_000 if protocol == "h2" else 3_000_000
    content = random.randbytes(2 * part)
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"

    def begun():
        answer = server.ask("POST", f"{REPOSITORY}/uploads/")
        check(answer.status == 202, f"an upload begins: {answer}")
        return answer.headers["location"]

    def stops(method, upload, length):
        one = server.connect(protocol=protocol)
        path = upload if method == "PATCH" else f"{upload}?digest={digest}"
        if protocol == "h2":
            one.sendall(frames.begin() + frames.head(1, method, path, ends=False))
            one.sendall(frames.body(1, content[:part]))
        elif length:
            one.sendall(request(method, path, f"Content-Length: {len(content)}\r\n") + content[:part])
        else:
            one.sendall(request(method, path, "Transfer-Encoding: chunked\r\n"))
            one.sendall(f"{part:x}\r\n".encode() + content[:part] + b"\r\n")
        return one

    stopped = []
    began = time.monotonic()
    for method, length in [("PATCH", True), ("PUT", True), ("PATCH", False)]:
        upload = begun()
        stopped.append((method, upload, stops(method, upload, length)))
    open_ones = [one for _, _, one in stopped]
    over = set()

    def all_over():
        over.update(one for one in open_ones if one not in over and is_over(one))
        return len(over) == len(open_ones)

    until("all are ended", idle + 5, all_over)
    gone = time.monotonic() - began
    check(gone >= idle, f"none is ended before its time: {gone:.1f} s")

    for method, upload, _ in stopped:
        state = server.ask("GET", upload)
        check(state.status == 204, f"the upload of {method} is there: {state}")
        have = int(state.headers["range"].removeprefix("0-")) + 1
        check(have == part, f"with all that was sent: {have} of {part}")
        rest = f"Content-Range: {have}-{len(content) - 1}\r\n"
        more = server.ask("PATCH", upload, rest, content[have:])
        check(more.status == 202, f"it goes on: {more}")
        whole = server.ask("PUT", f"{upload}?digest={digest}")
        check(whole.status == 201, f"and becomes whole: {whole}")
    got = server.ask("GET", f"{REPOSITORY}/{digest}")
    check(got.body == content, "it is what was sent")
    print(f"ended after {gone:.1f} s, went on at {part}")


main(*sys.argv[1:])
