# SPDX-License-Identifier: Apache-2.0
"""Servers for tests of inspection: certificates of the test's own, an origin that tells exactly what reached it, nginx, a
node server that speaks HTTP/2 with trailers, and git-http-backend. All on 127.0.0.1, each on a port that was free."""

import hashlib
import base64
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading

from coffertest import free_port
from egressrig import wait_for


def openssl(*args, **kw):
    subprocess.run(["openssl", *args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **kw)


class Authority:
    """A CA and certificates for servers."""

    def __init__(self, path):
        self.dir = path
        self.pem = os.path.join(path, "ca.pem")
        self.key = os.path.join(path, "ca.key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.key, "-out",
                self.pem, "-subj", "/CN=test authority", "-days", "30")

    def cert(self, stem, *names, days=30):
        """(certificate, key) for these names; days < 0: expired."""
        crt, key, csr, ext = (os.path.join(self.dir, f"{stem}.{x}") for x in ("pem", "key", "csr", "ext"))
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", csr, "-subj",
                f"/CN={names[0]}")
        with open(ext, "w", encoding="ascii") as f:
            f.write("subjectAltName=" + ",".join(f"DNS:{n}" for n in names))
        # The expired one was valid until yesterday: x509 -days takes what is below zero.
        openssl("x509", "-req", "-in", csr, "-CA", self.pem, "-CAkey", self.key, "-CAcreateserial", "-out", crt, "-extfile", ext,
                "-days", str(days))
        return crt, key


class Request:
    """As it reached the origin, to the byte."""

    def __init__(self, head, body, trailers):
        self.head, self.body, self.trailers = head, body, trailers
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, self.version = lines[0].split(" ")
        self.fields = [tuple(line.split(": ", 1)) for line in lines[1:] if line]

    def get(self, name):
        got = [v for k, v in self.fields if k.lower() == name.lower()]
        return got[0] if got else None


class Origin(threading.Thread):
    """HTTP/1.1, with TLS or without. handlers: path (without query) -> function(connection, request)."""

    def __init__(self, cert=None, handlers=None, listener=None):
        super().__init__(daemon=True)
        self.ctx = None
        if cert:
            self.ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.ctx.load_cert_chain(*cert)
        self.s = listener or socket.create_server(("127.0.0.1", 0), backlog=256)
        self.addr = self.s.getsockname()
        self.handlers = handlers or {}
        self.requests, self.accepted, self.go = [], 0, threading.Event()
        self.start()

    def run(self):
        while True:
            try:
                c, _ = self.s.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self.serve, args=(c,), daemon=True).start()

    def serve(self, c):
        try:
            if self.ctx:
                c = self.ctx.wrap_socket(c, server_side=True)
            with c.makefile("rb") as f:
                while self.one(c, f):
                    pass
        except (OSError, ValueError):
            pass
        finally:
            c.close()

    def one(self, c, f):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = f.readline(70000)
            if not line:
                return False
            head += line
        r = Request(head[:-4], b"", [])
        handler = self.handlers.get(r.target.split("?")[0], echo)
        if r.get("expect") and handler is not no_continue:
            c.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if handler is no_continue:
            self.requests.append(r)
            return handler(c, r, f)
        self.body(r, f)
        self.requests.append(r)
        r.origin, r.f = self, f
        return handler(c, r) is not False

    @staticmethod
    def body(r, f):
        if r.get("content-length"):
            r.body = f.read(int(r.get("content-length")))
        elif r.get("transfer-encoding"):
            while True:
                n = int(f.readline(), 16)
                if n == 0:
                    break
                r.body += f.read(n)
                f.readline()
            while True:
                line = f.readline()
                if line in (b"\r\n", b""):
                    break
                r.trailers.append(line)

    def last(self, target):
        got = [r for r in self.requests if r.target == target]
        return got[-1] if got else None


def reply(c, body=b"", status="200 OK", fields=(), length=True):
    head = [f"HTTP/1.1 {status}"] + [f"{k}: {v}" for k, v in fields]
    if length:
        head.append(f"Content-Length: {len(body)}")
    c.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)


def echo(c, r):
    text = json.dumps({"method": r.method, "target": r.target, "fields": r.fields, "length": len(r.body),
                       "sha256": hashlib.sha256(r.body).hexdigest()}).encode()
    reply(c, b"" if r.method == "HEAD" else text, fields=[("Content-Type", "application/json")],
          length=r.method != "HEAD")


def no_continue(c, r, _f):
    """The final answer without reading the body."""
    reply(c, b"no", "417 Expectation Failed", [("Connection", "close")])
    return False


def raw(data, last=True):
    """Exactly these bytes, then the end."""
    def handler(c, _r):
        c.sendall(data)
        return not last
    return handler


def sse(c, r):
    """An event now, another when the test says go."""
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    c.sendall(b"c\r\ndata: one\n\n\r\n".replace(b"c\r\n", b"b\r\n"))
    r.origin.go.wait(60)
    c.sendall(b"b\r\ndata: two\n\n\r\n0\r\n\r\n")


def websocket(c, r):
    """Takes the upgrade and echoes frames; text "bye" ends it."""
    key = (r.get("sec-websocket-key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()
    accept = base64.b64encode(hashlib.sha1(key).digest()).decode()
    c.sendall(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode())
    while True:
        text = ws_read(r.f)
        if text is None:
            return False
        c.sendall(ws_frame(text.encode(), mask=False))
        if text == "bye":
            return False


def ws_frame(data, mask=True):
    head = bytes([0x81, (0x80 if mask else 0) | (len(data) if len(data) < 126 else 126)])
    if len(data) >= 126:
        head += len(data).to_bytes(2, "big")
    if not mask:
        return head + data
    return head + b"abcd" + bytes(b ^ b"abcd"[i % 4] for i, b in enumerate(data))


def ws_read(f):
    head = f.read(2)
    if len(head) < 2:
        return None
    n = head[1] & 0x7f
    if n == 126:
        n = int.from_bytes(f.read(2), "big")
    key = f.read(4) if head[1] & 0x80 else None
    data = f.read(n)
    return (bytes(b ^ key[i % 4] for i, b in enumerate(data)) if key else data).decode()


def here(work):
    return work()


class Process:
    """A server of another program; `do` runs what starts and reaches it where it is to be."""

    def __init__(self, args, addr, do=here):
        self.p = do(lambda: subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        self.addr, self.do = addr, do
        wait_for(args[0], lambda: do(self.is_up))

    def is_up(self):
        assert self.p.poll() is None, "the server has ended"
        try:
            socket.create_connection(self.addr, 1).close()
            return True
        except OSError:
            return False

    def close(self):
        self.p.terminate()
        self.p.wait()


def nginx(path, cert, root, addr=None, do=here, more=""):
    """HTTP/1.1 and HTTP/2 over TLS, files from `root`; without a certificate HTTP/1.1 in the clear. `more`: for its `server` block."""
    tls = f"ssl_certificate {cert[0]}; ssl_certificate_key {cert[1]};" if cert else ""
    addr, base = addr or ("127.0.0.1", free_port()), os.path.join(path, "nginx")
    os.mkdir(base)
    conf = os.path.join(base, "nginx.conf")
    temp = "".join(f"{x}_temp_path {base}/{x};" for x in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    with open(conf, "w", encoding="ascii") as f:
        f.write(f"""user root root; daemon off; master_process off; pid {base}/pid; error_log {base}/err;
            events {{ worker_connections 512; }}
            http {{ access_log off; {temp} server {{ listen {addr[0]}:{addr[1]} {"ssl http2" if cert else ""}; {tls}
                root {root}; keepalive_requests 1000000; client_max_body_size 100m; {more} }} }}""")
    return Process([shutil.which("nginx") or "/usr/sbin/nginx", "-p", base, "-c", conf], addr, do)


# A server for h2 alone: a client without h2 gets a TLS alert. One that http2 of Node.js 18 makes answers it in HTTP/1.1 instead.
NODE_H2_ONLY = """
const h2_only = (opts, server) => require('tls').createServer(
  { ...opts, ALPNCallback: ({ protocols }) => protocols.includes('h2') ? 'h2' : undefined }, c => server.emit('connection', c));
"""

NODE = NODE_H2_ONLY + r"""
const http2 = require('http2'), fs = require('fs');
const [cert, key, host, port] = process.argv.slice(1);
const s = http2.createServer();
s.on('stream', (st, h) => {
  st.on('error', () => {});
  const path = h[':path'];
  if (path === '/pkg.Service/Call') {                 // as gRPC answers: headers, a message for each, trailers
    st.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    st.on('wantTrailers', () => st.sendTrailers({ 'grpc-status': '0', 'grpc-message': 'fine', 'x-te': h.te || 'none' }));
    st.on('data', d => st.write(d)); st.on('end', () => st.end());
  } else if (path === '/goaway') {
    st.respond({ ':status': 200 }); st.end('last'); st.session.goaway();
  } else if (path === '/reset') {
    st.respond({ ':status': 200 }); st.write('some', () => st.destroy(new Error('x')));
  } else {
    let n = 0; st.on('data', d => { n += d.length; });
    st.on('end', () => { st.respond({ ':status': 200, 'content-type': 'application/json' });
      st.end(JSON.stringify({ headers: h, length: n })); });
  }
});
h2_only({ cert: fs.readFileSync(cert), key: fs.readFileSync(key) }, s).listen(+port, host);
"""


def node_h2(cert, addr=None, do=here):
    addr = addr or ("127.0.0.1", free_port())
    return Process(["node", "-e", NODE, cert[0], cert[1], addr[0], str(addr[1])], addr, do)


GIT = r"""
import base64, http.server, os, ssl, subprocess, sys
root, crt, key, host, port, auth = sys.argv[1:]
auth = auth and "Basic " + base64.b64encode(auth.encode()).decode()
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *a): pass
    def go(self):
        path, _, query = self.path.partition("?")
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while (n := int(self.rfile.readline(), 16)):
                body += self.rfile.read(n); self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if auth and self.headers.get("Authorization") != auth:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        env = {"GIT_PROJECT_ROOT": root, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
               "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""), "REMOTE_USER": "test",
               "REMOTE_ADDR": "127.0.0.1", "CONTENT_LENGTH": str(len(body)), "PATH": os.environ["PATH"], "HOME": root,
               "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
               "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
        out = subprocess.run(["git", "http-backend"], input=body, env=env, stdout=subprocess.PIPE).stdout
        head, _, rest = out.partition(b"\r\n\r\n")
        status, fields = 200, []
        for line in head.decode().split("\r\n"):
            k, _, v = line.partition(": ")
            if k == "Status": status = int(v.split()[0])
            else: fields.append((k, v))
        self.send_response(status)
        for k, v in fields: self.send_header(k, v)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest)
    do_GET = do_POST = go
s = http.server.ThreadingHTTPServer((host, int(port)), H)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(crt, key)
s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
s.serve_forever()
"""


def git_server(root, cert, addr=None, do=here, auth=""):
    """auth: \"user:password\" that it wants."""
    addr = addr or ("127.0.0.1", free_port())
    return Process(["python3", "-c", GIT, root, cert[0], cert[1], addr[0], str(addr[1]), auth], addr, do)


def git_repo(root, *names):
    """Bare repositories root/o/NAME that may be pushed to; the first has a commit on main."""
    env = dict(os.environ, GIT_AUTHOR_NAME="t", GIT_AUTHOR_EMAIL="t@t", GIT_COMMITTER_NAME="t", GIT_COMMITTER_EMAIL="t@t")
    for name in names:
        path = os.path.join(root, "o", name)
        os.makedirs(path)
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", path], check=True)
        subprocess.run(["git", "--git-dir", path, "config", "http.receivepack", "true"], check=True)
    with tempfile.TemporaryDirectory() as seed:
        subprocess.run(["git", "init", "-q", "-b", "main", seed], check=True)
        with open(os.path.join(seed, "file"), "w", encoding="ascii") as f:
            f.write("content\n")
        subprocess.run(["git", "-C", seed, "add", "."], check=True)
        subprocess.run(["git", "-C", seed, "commit", "-q", "-m", "first"], check=True, env=env)
        subprocess.run(["git", "-C", seed, "push", "-q", os.path.join(root, "o", names[0]), "main"], check=True)
