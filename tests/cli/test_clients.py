#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1200
"""Responses that real clients get behind a wall that looks into TLS: apt, Java, Go, a program linked to musl, busybox, python requests,
npm. None of them is told which authority to trust but by what every such sandbox has. Then root file systems whose
certificates are elsewhere, or nowhere."""

import base64
import functools
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import ocitest as oci  # noqa: E402
from coffertest import ENGINES, Tap, identities  # noqa: E402
from nettest import Internet, why_not  # noqa: E402

API, MIRROR, NPM = "api.example.test", "deb.example.test", "npm.example.test"
POLICY = f"""version: 1
egress:
  allow:
    - {{domain: {API}, port: [443, 80], http: [{{allow: "* /**"}}]}}
    - {{domain: {MIRROR}, port: [443, 80], http: [{{allow: "GET /debian/**"}}]}}
    - {{domain: {NPM}, port: 443, http: [{{allow: "GET /**"}}]}}
"""

# Each line of its output is "WORD: what came of it".
APT = r"""
apt_() { # SCHEME PATH: what the mirror's package holds
	d=/tmp/apt-$1$2
	rm -rf $d
	mkdir -p $d/state/lists/partial $d/cache/archives/partial $d/out
	: >$d/status
	echo "deb [trusted=yes] $1://MIRROR/$2 stable main" >$d/sources.list
	set -- -q -o Dir::State=$d/state -o Dir::State::status=$d/status -o Dir::Cache=$d/cache \
		-o Dir::Etc::sourcelist=$d/sources.list -o Dir::Etc::sourceparts=- -o Dir::Etc::main=- -o Dir::Etc::parts=- \
		-o Dir::Etc::preferencesparts=- -o Dir::Etc::trustedparts=- -o APT::Sandbox::User= -o Acquire::Languages=none \
		-o Acquire::Retries=0 -o APT::Update::Error-Mode=any
	cd $d/out
	apt-get "$@" update >$d/log 2>&1 && apt-get "$@" download coffer-hello >>$d/log 2>&1 &&
		dpkg-deb --fsys-tarfile coffer-hello_*.deb | tar -xO ./hello || tail -n 3 $d/log
}
"""
CLIENTS = APT + r"""
echo "apthttps: $(apt_ https debian 2>&1 | tr '\n' ' ')"
if [ -z "$BRIEF" ]; then
	echo "apthttp: $(apt_ http debian 2>&1 | tr '\n' ' ')"
	echo "aptother: $(apt_ https other 2>&1 | tr '\n' ' ')"
fi
echo "requests: $(python3 -c "
import requests
r = requests.post('https://API/r', data=b'x' * 70000, timeout=60)
print(r.status_code, r.text.strip(), requests.get('http://API/plain', timeout=60).text.strip())" 2>&1 | tail -n 1)"
echo "boxhttp: $(busybox wget -q -O - http://API/box 2>&1)"
echo "boxhttps: $(busybox wget -q -O - https://API/box 2>&1 | tr '\n' ' ')"
echo "store: $(openssl pkcs12 -in /run/coffer/ca-bundle.p12 -nokeys -passin pass:any -nomacver 2>&1 |
	grep -c BEGIN) $(grep -c BEGIN $SSL_CERT_FILE)"
for t in java go musl; do
	[ ! -e /t/$t ] || echo "$t: $(sh /t/$t https://API/$t http://API/$t 2>&1 | grep -v '^Picked up' | tr '\n' ' ')"
done
"""
NPM_JOB = r"""
mkdir /tmp/job && cd /tmp/job && echo '{"name":"job","version":"1.0.0"}' >package.json
npm install --no-progress --no-audit --no-fund --no-update-notifier --cache /tmp/job/cache --registry https://NPM/ \
	left-foot >/tmp/job/log 2>&1 || tail -n 5 /tmp/job/log
echo "npm: $(node -e 'console.log(require("left-foot"))' 2>&1 | tail -n 1)"
"""

JAVA = """import java.io.*; import java.net.*; import java.net.http.*;
public class Get { public static void main(String[] a) throws Exception {
  for (String u : a) {
    InputStream in = new URL(u).openStream();
    System.out.print(new String(in.readAllBytes(), "UTF-8"));
  }
  HttpResponse<String> r = HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create(a[0] + "2")).build(),
      HttpResponse.BodyHandlers.ofString());
  System.out.println(r.version() + " " + r.body());
} }
"""

GO = """package main
import ("fmt"; "io"; "net/http"; "os")
func main() {
	for _, u := range os.Args[1:] {
		r, err := http.Get(u)
		if err != nil { fmt.Println(err); continue }
		b, _ := io.ReadAll(r.Body)
		fmt.Print(r.Proto, " ", string(b))
	}
}
"""

# musl's resolver asks for A and AAAA at once from one socket, and takes what comes first.
MUSL = r"""
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *a;
	char host[256], path[256], b[4096];
	int r, fd;
	ssize_t n;

	if (argc < 3 || sscanf(argv[2], "http://%255[^/]%255s", host, path) != 2)
		return 2;
	r = getaddrinfo("no.such.name.test", "80", &hints, &a);
	printf("%s; ", r ? gai_strerror(r) : "found");
	r = getaddrinfo(host, "80", &hints, &a);
	if (r)
		return puts(gai_strerror(r));
	fd = socket(a->ai_family, SOCK_STREAM, 0);
	if (connect(fd, a->ai_addr, a->ai_addrlen))
		return puts("connect");
	dprintf(fd, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, host);
	while ((n = read(fd, b, sizeof(b))) > 0)
		fwrite(b, 1, (size_t)n, stdout);
	return 0;
}
"""


def write(path, text, mode=0o644):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path, mode)


def build(tap, where):
    """Programs that are made for the test, each with a script beside it that starts it. One that cannot be is a skip."""
    def made(name, missing, hint, *args, **kw):
        if missing:
            tap.skip(name, f"{missing} is not installed{hint}")
            return
        r = subprocess.run(args, capture_output=True, text=True, check=False, cwd=where, **kw)
        if tap.ok(r.returncode == 0, f"{name}: the client is built", r.stderr):
            write(os.path.join(where, name), {"java": 'exec java -cp /t -XX:TieredStopAtLevel=1 Get "$@"\n'}.get(
                name, f'exec /t/{name}-client "$@"\n'))

    def lacks(tool):
        return None if shutil.which(tool) else tool
    write(os.path.join(where, "Get.java"), JAVA)
    made("java", lacks("javac"), "", "javac", "--release", "11", "Get.java")
    write(os.path.join(where, "get.go"), GO)
    made("go", lacks("go"), "", "go", "build", "-o", "go-client", "get.go",
         env={**os.environ, "HOME": where, "CGO_ENABLED": "0", "GO111MODULE": "off", "GOCACHE": os.path.join(where, "cache"),
              "GOFLAGS": ""})
    shutil.rmtree(os.path.join(where, "cache"), ignore_errors=True)
    write(os.path.join(where, "get.c"), MUSL)
    made("musl", lacks("musl-gcc"), ": tools/deps test", "musl-gcc", "-static", "-O1", "-o", "musl-client", "get.c")


def mirror(where):
    """path -> bytes of a package archive with one package."""
    root = os.path.join(where, "pkg")
    os.makedirs(os.path.join(root, "DEBIAN"))
    write(os.path.join(root, "DEBIAN/control"), "Package: coffer-hello\nVersion: 1.0\nArchitecture: all\n"
          "Maintainer: test <test@example.test>\nDescription: says hello\n")
    write(os.path.join(root, "hello"), "packaged hello\n")
    deb = os.path.join(where, "coffer-hello.deb")
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", root, deb], check=True, stdout=subprocess.DEVNULL)
    with open(deb, "rb") as f:
        data = f.read()
    packages = (f"Package: coffer-hello\nVersion: 1.0\nArchitecture: all\nMaintainer: test <test@example.test>\n"
                f"Filename: pool/coffer-hello_1.0_all.deb\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
                f"Description: says hello\n\n").encode()
    arch = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()
    index = f"main/binary-{arch}/Packages"
    lists = {index: packages, index + ".gz": gzip.compress(packages, mtime=0)}
    release = (f"Suite: stable\nCodename: stable\nArchitectures: {arch} all\nComponents: main\n"
               "Date: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n" +
               "".join(f" {hashlib.sha256(v).hexdigest()} {len(v)} {k}\n" for k, v in lists.items()))
    files = {f"dists/stable/{k}": v for k, v in lists.items()}
    files.update({"dists/stable/Release": release.encode(), "pool/coffer-hello_1.0_all.deb": data})
    return {f"/{base}/{k}": v for base in ("debian", "other") for k, v in files.items()}


def registry():
    """An npm registry with one package."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, text in (("package/package.json", '{"name":"left-foot","version":"1.0.0","main":"index.js"}'),
                           ("package/index.js", "module.exports = 'installed';\n")):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    data = data.getvalue()
    meta = {"name": "left-foot", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
        "name": "left-foot", "version": "1.0.0", "dist": {
            "tarball": f"https://{NPM}/left-foot.tgz", "shasum": hashlib.sha1(data).hexdigest(),
            "integrity": "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()}}}}
    return {"/left-foot.tgz": data, "/left-foot": json.dumps(meta).encode()}


def serve(files):
    def handle(q):
        data = files.get(q.path.split("?")[0])
        return (200, {"Content-Type": "application/octet-stream"}, data) if data is not None else (404, {}, "no\n")
    return handle


def fill(script):
    for word, name in (("MIRROR", MIRROR), ("API", API), ("NPM", NPM)):
        script = script.replace(word + "/", name + "/")
    return script


def policy_of(c):
    path = os.path.join(c.home, "policy.yaml")
    write(path, POLICY)
    c.own(path)
    return path


def clients(tap, c, built, deb, npm):
    who = c.who
    script, brief = CLIENTS + (NPM_JOB if npm else ""), "yes" if c.engine == "gvisor" else ""
    r = c("run", "--policy", policy_of(c), "-v", f"{built}:/t", "-e", f"BRIEF={brief}", "--", "sh", "-c", fill(script),
          timeout=240)
    got = dict(re.findall(r"^(\w+): ?(.*?) ?$", r.out, re.M))

    def line(word, wanted, name):
        tap.ok(re.search(wanted, got.get(word, ""), re.S), f"{who}: {name}", f"{word}: {got.get(word)!r}", r)

    if deb:
        line("apthttps", "^packaged hello$", "apt from a mirror over HTTPS")
    if deb and not brief:
        line("apthttp", "^packaged hello$", "apt over HTTP")
        line("aptother", "403", "apt from a path of it that is not allowed")
    if has_requests():
        line("requests", r"^200 POST /r 70000 GET /plain 0$", "python requests")
    line("boxhttp", "^GET /box", "busybox wget over HTTP")
    line("boxhttps", "GET /box", "busybox wget over HTTPS")
    store, bundle = (int(n) for n in re.fullmatch(r"(\d+) (\d+)", got.get("store", "0 0")).groups())
    tap.ok(bundle > 0 and store == bundle + 1, f"{who}: Java's trust store has what the bundle has, and ours in front", store,
           bundle, r)
    if os.path.exists(os.path.join(built, "java")):
        line("java", r"^GET /java 0 GET /java 0 HTTP_2 GET /java2 0", "Java, both of its clients")
    if os.path.exists(os.path.join(built, "go")):
        line("go", r"^HTTP/2.0 GET /go 0 HTTP/1.1 GET /go 0", "Go")
    if os.path.exists(os.path.join(built, "musl")):
        line("musl", r"^Name does not resolve; HTTP/1.1 200 .*GET /musl 0", "a program linked to musl")
    if npm:
        line("npm", "^installed$", "npm install")


@functools.cache
def has_requests():
    return subprocess.run(["/usr/bin/python3", "-c", "import requests"], capture_output=True, check=False).returncode == 0


# The file in which a system's own programs find the certificates, and its layout.
TRUST = "# whom this root trusts\n"
LAYOUTS = {
    "debian": ("/etc/ssl/certs/ca-certificates.crt", ["etc/ssl/certs/"], {"etc/ssl/certs/ca-certificates.crt": TRUST}),
    "alpine": ("/etc/ssl/cert.pem", ["etc/ssl/certs/"],
               {"etc/ssl/certs/ca-certificates.crt": TRUST, "etc/ssl/cert.pem": "-> certs/ca-certificates.crt"}),
    "fedora": ("/etc/ssl/certs/ca-bundle.crt", ["etc/pki/ca-trust/extracted/pem/", "etc/pki/tls/certs/", "etc/ssl/"],
               {"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem": TRUST,
                "etc/pki/tls/certs/ca-bundle.crt": "-> /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
                "etc/ssl/certs": "-> ../pki/tls/certs"}),
    "suse": ("/etc/ssl/ca-bundle.pem", ["etc/ssl/"], {"etc/ssl/ca-bundle.pem": TRUST}),
    "none": (None, ["etc/"], {}),
}
DIRS = ("usr/", "etc/", "run/", "tmp/", "proc/", "sys/", "dev/", "workspace/", "root/", "home/")


def layout_entries(name):
    """(path, None, a text or "-> link") in an order in which they can be made."""
    _, dirs, files = LAYOUTS[name]
    parents = {"/".join(d.split("/")[:i]) + "/" for d in dirs for i in range(1, d.count("/") + 1)}
    for d in sorted({*DIRS, *parents}):
        yield d, None
    for link in ("bin", "sbin", "lib", "lib64"):
        yield link, f"-> usr/{link}"
    yield from files.items()


def make_root(c, name):
    base = os.path.join(c.home, f"root-{name}")
    os.mkdir(base)
    for path, what in layout_entries(name):
        full = os.path.join(base, path)
        if what is None:
            os.mkdir(full)
        elif what.startswith("-> "):
            os.symlink(what[3:], full)
        else:
            write(full, what)
        c.own(full.rstrip("/"))
    c.own(base)
    return base


def make_image(c, name):
    parts = [oci.directory("./")]
    for path, what in layout_entries(name):
        if what is None:
            parts.append(oci.directory(path.rstrip("/")))
        elif what.startswith("-> "):
            parts.append(oci.symlink(path, what[3:]))
        else:
            parts.append(oci.entry(path, what, mode=0o644))
    path = oci.Layout([oci.layer(*parts)], ref=f"{name}:1").write(os.path.join(c.home, f"image-{name}"))
    for base, _, names in os.walk(path):
        for p in [base] + [os.path.join(base, n) for n in names]:
            c.own(p)
    r = c("image", "import", path)
    return f"{name}:1" if r.code == 0 else r.err


def trusted(tap, c, name, how, deb):
    """The host's programs over a root of this layout, once with nothing of the environment."""
    where = LAYOUTS[name][0]
    script = fill(f"curl -sS -m 60 https://API/env; python3 -c \"import urllib.request as u; print(u.urlopen('https://API/py',"
                  "timeout=60).read().decode(), end='')\"; ")
    if where:
        script += fill(f"env -i /usr/bin/curl -sS -m 60 --cacert {where} https://API/file; head -n 1 {where}; ")
    if deb:
        script += fill(APT + "apt_ https debian; ")
    root = ["--image", make_image(c, name)] if how == "image" else ["--root", make_root(c, name)]
    r = c("run", *root, "-v", "/usr:/usr", "--i-know", "--ephemeral", "--policy", policy_of(c), "--", "/bin/sh", "-c", script)
    wanted = "GET /env 0\nGET /py 0\n" + ("GET /file 0\n" + TRUST if where else "") + ("packaged hello\n" if deb else "")
    tap.eq(r.out, wanted, f"{c.who}: certificates in {'an' if how == 'image' else 'a'} {how} like {name}", r)


def main():
    tap = Tap()
    reason = why_not()
    if reason:
        tap.skip("real clients", reason)
        tap.done()
    base = tempfile.mkdtemp(prefix="clients-")
    os.chmod(base, 0o755)
    built = os.path.join(base, "built")
    os.mkdir(built)
    deb = all(shutil.which(t) for t in ("apt-get", "dpkg-deb"))
    if not deb:
        tap.skip("apt", "this is no Debian")
    if not has_requests():
        tap.skip("python requests", "it is not installed: tools/deps test")
    try:
        build(tap, built)
        with Internet() as net:
            hello = lambda q: f"{q.method} {q.path} {len(q.body)}\n"  # noqa: E731
            packages, modules = mirror(base) if deb else {}, registry()
            for make in (net.http, net.https):
                make(API, hello)
                make(MIRROR, serve(packages))
            net.https(NPM, serve(modules))
            for who in identities(tap, ENGINES):
                if who.engine == "gvisor" and who != "user":
                    continue  # what is delivered does not depend on it, and each program takes its time there
                with net.coffer(who) as c:
                    clients(tap, c, built, deb, who == "user" and who.engine == "ns")
                    for name in LAYOUTS if who == "user" and who.engine == "ns" else ("fedora", "none"):
                        trusted(tap, c, name, "root" if who == "userns" else "image", deb and name == "none")
                    c.check_clean(tap)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    tap.done()


main()
