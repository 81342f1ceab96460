#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The test internet itself: what the tests of the network rest on."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Tap, plain_identities  # noqa: E402
from nettest import Internet, why_not  # noqa: E402

tap = Tap()
ASK = """
import socket, sys, urllib.request
print(urllib.request.urlopen("https://api.example.test/x", timeout=20).read().decode().strip())
print(urllib.request.urlopen("http://www.example.test/", timeout=20).read().decode().strip())
print(sorted({a[4][0] for a in socket.getaddrinfo("both.example.test", 1)}))
s = socket.create_connection(("echo.example.test", 7), 20); s.sendall(b"ping"); print(s.recv(4).decode())
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(20); s.sendto(b"pong", ("5.5.5.9", 9)); print(s.recv(4).decode())
try: socket.getaddrinfo("none.example.test", 1)
except socket.gaierror as e: print("gaierror")
try: urllib.request.urlopen("https://bad.example.test/", timeout=20)
except OSError as e: print("CERTIFICATE_VERIFY_FAILED" in str(e))
try: urllib.request.urlopen("https://old.example.test/", timeout=20)
except OSError as e: print("expired" in str(e))
print(socket.create_connection(("2a05:5::1", 80), 20).getpeername()[0])
print(socket.create_connection(("169.254.169.254", 80), 20).getpeername()[0])
"""


def main():
    reason = why_not()
    if reason:
        tap.skip("the test internet", reason)
        tap.done()
    with Internet() as net:
        web = net.https("api.example.test", lambda q: (200, {"X-A": "b"}, f"hello {q.path}"))
        net.http("www.example.test", lambda q: (200, {}, iter(["a", "b"])))
        net.dns["both.example.test"] = ["5.5.5.7", "2a05:5::7"]
        net.dns["echo.example.test"] = "CNAME real.example.test"
        net.tcp("real.example.test", 7)
        echo = net.udp(None, 9, address="5.5.5.9")
        net.https("bad.example.test", cert=net.cert("bad.example.test", self_signed=True))
        net.https("old.example.test", cert=net.cert("old.example.test", expired=True))
        net.http(None, address="2a05:5::1")
        net.http(None, address="169.254.169.254")
        for who in plain_identities(tap):
            r = net.run_as(who, ["python3", "-c", ASK], env={"PATH": "/usr/bin:/bin"})
            tap.eq(r.stdout.splitlines(), ["hello /x", "ab", "['2a05:5::7', '5.5.5.7']", "ping", "pong", "gaierror", "True",
                                           "True", "2a05:5::1", "169.254.169.254"], f"{who}: reaches every server of the test internet", r.stderr)
            with net.coffer(who) as c:
                r = c("run", "--net", "none", "--", "true")
                tap.eq(r.code, 0, f"{who}: coffer runs in the test internet", r)
                c.check_clean(tap)
        tap.ok(("api.example.test", "A") in net.queries and ("none.example.test", "A") in net.queries,
               "the test internet records DNS queries", net.queries)
        tap.ok(web.requests and web.requests[0].path == "/x" and web.requests[0].peer == "5.5.4.1", "the test internet records requests with their peer",
               web.requests)
        tap.ok(echo.requests, "the test internet records datagrams")
    tap.done()


main()
