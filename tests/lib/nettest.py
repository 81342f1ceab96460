# SPDX-License-Identifier: Apache-2.0
"""A small internet for tests: two network namespaces, a resolver, a certificate authority, and servers.

    from nettest import Internet, why_not

    with Internet() as net:
        net.dns["api.example.test"] = "5.5.5.10"              # only DNS; see Zone for what else may stand there
        web = net.https("api.example.test")                   # a server, its certificate, and its name in the zone
        with net.coffer(who) as c:                            # a coffertest.Coffer that lives in the namespace "gw"
            r = c("run", "--net", "enforce", "--allow", "api.example.test:443", "--", "curl", "-s", web.url)
        web.requests                                          # [Request]: method, path, headers, body, peer
        net.queries                                           # [("api.example.test", "A"), …] as the resolver was asked
        net.run_as(who, ["curl", …])                          # any program in "gw" as root, user or userns

`gw` is where coffer runs; `inet` has every server. A veth pair joins them; nothing else is in either, so nothing
reaches the machine's own network, and whatever address a test uses is the test's own. 5.5.5.0/24 and 6.6.6.0/24 are
"the internet"; 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10 and 169.254.169.254 exist in `inet` too (the
LAN, metadata), so that a test can show that something is there and is not reached. IPv6: 2a05:5::/32, fd00::/8.
/etc/resolv.conf names our resolver (5.5.5.53) for whatever runs in `gw`, SSL_CERT_FILE our CA.

The namespaces are held by descriptors of the test process, the servers are threads of it: all goes when it ends,
however it ends. Every program is started by a program of our own (enter.c), with no code between fork and exec, so
threads do no harm. Needs root; why_not() says what is missing, for a loud skip.

Servers: https(), http(), tcp(), udp(); `net.inet_socket()` makes a socket in `inet` for anything else, and
`net.popen_inet([...])` starts a program there (nginx, say). A handler of http() and https() gets a Request and gives back
bytes or str, or (status, headers, body); or it is a generator function that yields pieces, which are sent as chunks.
Nothing here waits for time to pass: poll with wait_for().
"""

import contextlib
import ctypes
import http.server
import ipaddress
import os
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time

import coffertest
from coffertest import BUILD, TEST_UID, Coffer

CLONE_NEWNET = 0x40000000
RESOLVER = "5.5.5.53"
GW4, INET4 = "5.5.4.1", "5.5.4.2"
GW6, INET6 = "2a05:4::1", "2a05:4::2"
LOCAL4 = ("5.5.5.0/24", "6.6.6.0/24", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10",
          "169.254.169.254/32")
LOCAL6 = ("2a05:5::/32", "fd00::/8")
QTYPES = {1: "A", 5: "CNAME", 28: "AAAA", 64: "SVCB", 65: "HTTPS", 15: "MX", 16: "TXT", 2: "NS", 6: "SOA", 12: "PTR",
          255: "ANY"}
ENTER = os.path.join(BUILD, "tests/enter")
_libc = ctypes.CDLL(None, use_errno=True)


def why_not():
    """None where an Internet can be made, else the reason."""
    if os.getuid() != 0:
        return "namespaces for a test internet need root"
    for tool in ("ip", "nsenter", "openssl"):
        if not shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
            return f"{tool} is not installed"
    return None


def wait_for(condition, seconds=90):
    """Polls until condition() is true; what it was in the end."""
    end = time.monotonic() + seconds * coffertest.slow_build()
    while True:
        got = condition()
        if got or time.monotonic() > end:
            return got
        time.sleep(0.02)


def _must(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def _in_thread(work):
    """Runs work() in a thread of its own, whose namespaces are nobody else's."""
    box = {}

    def body():
        try:
            box["value"] = work()
        except BaseException as e:  # noqa: B902 - handed on below
            box["error"] = e
    t = threading.Thread(target=body)
    t.start()
    t.join()
    if "error" in box:
        raise box["error"]
    return box.get("value")


class Namespace:
    """A network namespace, held by a descriptor."""

    def __init__(self):
        def make():
            _must(_libc.unshare(CLONE_NEWNET), "a network namespace")
            return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self.fd = _in_thread(make)
        self.path = f"/proc/{os.getpid()}/fd/{self.fd}"

    def do(self, work):
        """work() inside: for what a socket or a child is born with."""
        def body():
            _must(_libc.setns(self.fd, CLONE_NEWNET), "entering a network namespace")
            return work()
        return _in_thread(body)

    def batch(self, text):
        r = self.do(lambda: subprocess.run(["ip", "-batch", "-"], input=text, text=True, capture_output=True, check=False,
                                           env={"PATH": "/usr/sbin:/sbin:/usr/bin:/bin"}))
        if r.returncode:
            raise RuntimeError(f"ip: {r.stderr}")

    def close(self):
        os.close(self.fd)


class Request:
    def __init__(self, method, path, headers, body, peer, version):
        self.method, self.path, self.headers, self.body, self.peer = method, path, headers, body, peer
        self.version = version

    def __repr__(self):
        return f"<{self.method} {self.path} {dict(self.headers)} {self.body[:200]!r}>"


class Zone(dict):
    """name -> an address, a list of addresses (A and AAAA), "CNAME other.name", an int (that rcode; 3 is NXDOMAIN),
    None (never answers), or a function (name, type) -> one of these. "*.example.test" matches any depth below. Names
    that are not there do not exist. TTLs are `ttl`."""

    ttl = 60

    def find(self, name, qtype):
        value = self.get(name, KeyError)
        labels = name.split(".")
        for i in range(1, len(labels)):
            if value is KeyError:
                value = self.get("*." + ".".join(labels[i:]), KeyError)
        if callable(value) and value is not KeyError:
            value = value(name, qtype)
        return 3 if value is KeyError else value


def _labels(name):
    return b"".join(bytes([len(p)]) + p.encode("latin-1") for p in name.split(".") if p) + b"\0"


def _question(data):
    """(name, type, end) of the first question."""
    at, parts = 12, []
    while data[at]:
        n = data[at]
        parts.append(data[at + 1:at + 1 + n].decode("latin-1"))
        at += 1 + n
    return ".".join(parts).lower(), struct.unpack(">H", data[at + 1:at + 3])[0], at + 5


def _record(name, qtype, ttl, rdata):
    return _labels(name) + struct.pack(">HHIH", qtype, 1, ttl, len(rdata)) + rdata


class Server:
    """A listener: an address, a port, and what came."""

    def __init__(self, name, address, port, scheme):
        self.name, self.address, self.port, self.requests, self.connections = name, address, port, [], []
        default = {"http": 80, "https": 443}.get(scheme)
        self.url = f"{scheme}://{name or address}{'' if port == default else f':{port}'}/"
        self.sockets = []

    def close(self):
        for s in self.sockets:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def read_body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            body = b""
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                piece = self.rfile.read(size)
                self.rfile.readline()
                if not size:
                    return body
                body += piece
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self):
        req = Request(self.command, self.path, self.headers, self.read_body(), self.client_address[0],
                      self.request_version)
        self.server.owner.requests.append(req)
        got = self.server.respond(req)
        status, headers, body = got if isinstance(got, tuple) else (200, {}, got)
        self.send_response(status)
        for key, value in dict(headers).items():
            self.send_header(key, value)
        if hasattr(body, "__next__"):
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in body:
                piece = piece.encode() if isinstance(piece, str) else piece
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
            return
        body = body.encode() if isinstance(body, str) else body
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = answer  # noqa: N815


class _HttpServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, owner, listener, respond, context):
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.owner, self.respond, self.context = listener, owner, respond, context

    def finish_request(self, request, client_address):
        """In the connection's own thread: a slow handshake holds nobody else up."""
        self.owner.connections.append(client_address[0])
        if self.context:
            request = self.context.wrap_socket(request, server_side=True)
        try:
            super().finish_request(request, client_address)
        finally:
            if self.context:
                with contextlib.suppress(OSError, ValueError):
                    request.unwrap()
                request.close()

    def handle_error(self, request, client_address):
        pass


class NetCoffer(Coffer):
    """coffer in the namespace `gw`."""

    def __init__(self, net, who, **kw):
        super().__init__(who, **kw)
        self.net = net

    def env(self, extra=None, leaks=False):
        return super().env({"SSL_CERT_FILE": self.net.ca, **(extra or {})}, leaks)

    def prefix(self):
        etc = os.path.join(self.dir, "etc") if self.sub_ids else None
        return self.net.prefix(self.who, (self.uid, self.gid), etc)

    def popen(self, *args, env=None, cwd=None, program=None, **kw):
        argv = self.prefix() + (program or [self.exe] + [os.fspath(a) for a in args])
        for name in ("stdin", "stdout", "stderr"):
            kw.setdefault(name, subprocess.DEVNULL if name == "stdin" else subprocess.PIPE)
        return subprocess.Popen(argv, env=self.env(env), cwd=cwd or self.work, start_new_session=True, **kw)


class Internet:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="coffertest-net-")
        os.chmod(self.dir, 0o755)
        self.dns, self.queries, self.servers, self.children = Zone(), [], [], []
        self.gw, self.inet = Namespace(), Namespace()
        self._next, self._certs, self._lock = 10, {}, threading.Lock()
        try:
            self._wire()
            self._make_ca()
            self.resolv = os.path.join(self.dir, "resolv.conf")
            with open(self.resolv, "w", encoding="ascii") as f:
                f.write(f"nameserver {RESOLVER}\noptions timeout:5 attempts:2\n")
            self._serve_dns()
        except BaseException:
            self.close()
            raise

    # Making it

    def _wire(self):
        self.inet.batch("link set lo up\n" + "".join(f"route add local {n} dev lo\n" for n in LOCAL4) +
                        "".join(f"route add local {n} dev lo\n" for n in LOCAL6))
        self.gw.batch(f"link set lo up\nlink add gw0 type veth peer name inet0 netns {self.inet.path}\n"
                      f"addr add {GW4}/30 dev gw0\naddr add {GW6}/64 dev gw0 nodad\nlink set gw0 up\n")
        self.inet.batch(f"addr add {INET4}/30 dev inet0\naddr add {INET6}/64 dev inet0 nodad\nlink set inet0 up\n")
        self.gw.batch(f"route add default via {INET4}\nroute add default via {INET6}\n")

    def _openssl(self, *args):
        r = subprocess.run(["openssl", *args], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if r.returncode:
            raise RuntimeError(f"openssl: {r.stderr}")

    def _make_ca(self):
        self.ca, self.ca_key = os.path.join(self.dir, "ca.pem"), os.path.join(self.dir, "ca.key")
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                      self.ca_key, "-out", self.ca, "-days", "30", "-subj", "/CN=Test Internet CA", "-addext",
                      "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        os.chmod(self.ca, 0o644)

    def cert(self, *names, self_signed=False, expired=False):
        """(certificate, key) files for these names or addresses, signed by our CA."""
        key = (names, self_signed, expired)
        with self._lock:
            if key in self._certs:
                return self._certs[key]
            base = os.path.join(self.dir, f"cert-{len(self._certs)}")
            pem, pkey, csr, ext = (f"{base}.{e}" for e in ("pem", "key", "csr", "ext"))
            alt = ",".join(("IP:" if _is_address(n) else "DNS:") + n for n in names)
            new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", pkey, "-subj",
                   f"/CN={names[0][:60]}"]
            if expired:
                with open(ext, "w", encoding="ascii") as f:
                    f.write(f"subjectAltName={alt}\n")
                self._openssl("req", "-new", *new, "-out", csr)
                # a negative number of days ends before now
                self._openssl("x509", "-req", "-in", csr, "-CA", self.ca, "-CAkey", self.ca_key, "-set_serial", "7",
                              "-days", "-1", "-extfile", ext, "-out", pem)
            else:
                signer = [] if self_signed else ["-CA", self.ca, "-CAkey", self.ca_key]
                self._openssl("req", "-x509", *new, *signer, "-days", "30", "-addext", f"subjectAltName={alt}", "-addext",
                              "basicConstraints=CA:FALSE", "-out", pem)
            self._certs[key] = pem, pkey
            return pem, pkey

    def address(self):
        """A fresh public address in `inet`."""
        with self._lock:
            self._next += 1
            n = self._next
        return f"5.5.5.{n}" if n < 50 else f"6.6.6.{n - 40}"

    # Sockets and servers

    def inet_socket(self, family=socket.AF_INET, kind=socket.SOCK_STREAM):
        """A new socket in `inet`."""
        return self.inet.do(lambda: socket.socket(family, kind))

    def gw_socket(self, family=socket.AF_INET, kind=socket.SOCK_STREAM):
        """A new socket in `gw`."""
        return self.gw.do(lambda: socket.socket(family, kind))

    def listen(self, address, port, kind=socket.SOCK_STREAM, where=None):
        """In `inet`, or where=net.gw."""
        make = self.gw_socket if where is self.gw else self.inet_socket
        s = make(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if s.family == socket.AF_INET6:
            s.setsockopt(socket.IPPROTO_IPV6, 78, 1)  # IPV6_FREEBIND: the address is a route's, not an interface's
        s.bind((address, port))
        if kind == socket.SOCK_STREAM:
            s.listen(1024)
        return s

    def _server(self, name, port, scheme, address):
        known = self.dns.get(name) if name else None
        if address is None:
            address = known if isinstance(known, str) and _is_address(known) else self.address()
        if name and known is None:
            self.dns[name] = address
        server = Server(name, address, port, scheme)
        self.servers.append(server)
        return server

    def _listen_for(self, server, kind=socket.SOCK_STREAM, where=None):
        """Port 0 is any that is free."""
        s = self.listen(server.address, server.port, kind, where)
        server.port = s.getsockname()[1]
        server.sockets.append(s)
        return s

    def http(self, name, handler=None, port=80, address=None, context=None, scheme="http"):
        """A web server; without a handler it answers with what it was asked."""
        server = self._server(name, port, scheme, address)
        listener = self.listen(server.address, port)
        respond = handler or (lambda q: f"{name} {q.method} {q.path}\n")
        web = _HttpServer(server, listener, respond, context)
        server.sockets.append(listener)
        threading.Thread(target=_until_closed, args=(web.serve_forever, 0.05), daemon=True).start()
        return server

    def https(self, name, handler=None, port=443, address=None, cert=None, **kw):
        """The same over TLS; cert: what cert() gave, else one for the name."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*(cert or self.cert(name)))
        return self.http(name, handler, port, address, context, "https", **kw)

    def tcp(self, name, port, handler=None, address=None, where=None):
        """handler(connection, server) for each, in a thread of its own; without one it sends back what it gets."""
        server = self._server(name, port, "tcp", address)
        listener = self._listen_for(server, where=where)

        def echo(conn, _server):
            while data := conn.recv(65536):
                conn.sendall(data)

        def serve(conn):
            with conn, contextlib.suppress(OSError):
                (handler or echo)(conn, server)

        def loop():
            while True:
                conn, peer = listener.accept()
                server.connections.append(peer[0])
                threading.Thread(target=serve, args=(conn,), daemon=True).start()
        threading.Thread(target=_until_closed, args=(loop,), daemon=True).start()
        return server

    def udp(self, name, port, address=None, where=None):
        """Counts datagrams in .requests and sends each back."""
        server = self._server(name, port, "udp", address)
        s = self._listen_for(server, socket.SOCK_DGRAM, where)

        def loop():
            while True:
                data, peer = s.recvfrom(65536)
                if not peer:
                    return
                server.requests.append(data)
                s.sendto(data, peer)
        threading.Thread(target=_until_closed, args=(loop,), daemon=True).start()
        return server

    # The resolver

    def resolver(self, address, port=53):
        """One more, with the same zone; .requests has what it was asked, (name, type) each."""
        return self._serve_dns(address, port)

    def _serve_dns(self, address=RESOLVER, port=53):
        udp = self.listen(address, port, socket.SOCK_DGRAM)

        def loop():
            while True:
                data, peer = udp.recvfrom(65536)
                if not peer:
                    return
                reply = self._reply(data, server)
                if reply:
                    udp.sendto(reply, peer)

        def stream(conn, _server):
            f = conn.makefile("rb")
            while size := f.read(2):
                reply = self._reply(f.read(struct.unpack(">H", size)[0]), server)
                if reply:
                    conn.sendall(struct.pack(">H", len(reply)) + reply)
        server = self.tcp(None, port, stream, address)
        server.sockets.append(udp)
        threading.Thread(target=_until_closed, args=(loop,), daemon=True).start()
        return server

    def _reply(self, data, server):
        try:
            name, number, end = _question(data)
        except (IndexError, struct.error):
            return None
        qtype = QTYPES.get(number, str(number))
        self.queries.append((name, qtype))
        server.requests.append((name, qtype))
        value = self.dns.find(name, qtype)
        if value is None:
            return None
        rcode, records, owner = 0, [], name
        for _ in range(8):
            if isinstance(value, str) and value.startswith("CNAME "):
                target = value.split()[1].rstrip(".").lower()
                records.append(_record(owner, 5, Zone.ttl, _labels(target)))
                owner, value = target, self.dns.find(target, qtype)
            else:
                break
        if isinstance(value, int):
            rcode = value
        elif value is not None:
            for a in [value] if isinstance(value, str) else value:
                ip = ipaddress.ip_address(a)
                if qtype == ("A" if ip.version == 4 else "AAAA"):
                    records.append(_record(owner, number, Zone.ttl, ip.packed))
        flags = 0x8180 | rcode
        return data[:2] + struct.pack(">HHHHH", flags, 1, len(records), 0, 0) + data[12:end] + b"".join(records)

    # Programs

    def prefix(self, who="root", user=(TEST_UID, TEST_UID), etc=None):
        """The arguments that make the next program one of an identity in `gw`. `etc`: see coffertest.write_sub_ids()."""
        if who == "root":
            user = (0, 0)
        over = [f"{self.resolv}:/etc/resolv.conf"]
        if etc:
            over += [f"{etc}/{n}:/etc/{n}" for n in ("passwd", "subuid", "subgid")]
        chain = [ENTER, self.gw.path, f"{user[0]}:{user[1]}", *over, "--"]
        if who == "userns":
            chain += ["unshare", "--user", "--map-root-user", "--"]
        return chain

    def coffer(self, who, **kw):
        """A Coffer (coffertest) as that identity, in `gw`."""
        return NetCoffer(self, who, **kw)

    def run_as(self, who, argv, timeout=60, env=None, **kw):
        """Runs a program in `gw` to its end; a subprocess.CompletedProcess with text."""
        e = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/", "SSL_CERT_FILE": self.ca, **(env or {})}
        kw.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(self.prefix(who) + argv, env=e, text=True, capture_output=True, check=False,
                              timeout=timeout * coffertest.slow_build(), **kw)

    def popen_inet(self, argv, **kw):
        """A program in `inet` as root; it is killed when the Internet ends."""
        p = subprocess.Popen(["nsenter", f"--net={self.inet.path}", *argv], **kw)
        self.children.append(p)
        return p

    def close(self):
        for s in self.servers:
            s.close()
        for p in self.children:
            if p.poll() is None:
                p.kill()
            p.wait()
        for ns in (self.gw, self.inet):
            ns.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def _is_address(text):
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(text)
        return True
    return False


def _until_closed(loop, *args):
    """A server's thread ends with its socket."""
    with contextlib.suppress(OSError, ValueError):
        loop(*args)
