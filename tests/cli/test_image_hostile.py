#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1200
"""Archives that nobody made in good faith: each is refused or contained, nothing is written outside, nothing stays."""

import ctypes
import gzip
import io
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Tap, coffer_as, identities, sanitized, slow_build  # noqa: E402
import ocitest as oci  # noqa: E402
from ocitest import device, directory, entry, hardlink, layer, symlink  # noqa: E402

tap = Tap()
LONG = "n" * 256


def xattr(name, value=b"y"):
    t, data = directory("dir")
    t.pax_headers = {f"SCHILY.xattr.{name}": value.decode()}
    return t, data


def raw(kind, name="x", data=b"", size=None):
    """A header of a kind that tarfile would not write."""
    t, data = entry(name, data)
    t.type = kind
    if size is not None:
        t.size = size
    return t, data


# name: (entries, what the message says)
REFUSED = {
    "dotdot": ([entry("../evil", "x")], "absolute"),
    "dotdot-inside": ([directory("a"), entry("a/../../evil", "x")], "absolute"),
    "absolute": ([entry("/evil", "x")], "absolute"),
    "absolute-etc": ([entry("/etc/evil", "x")], "absolute"),
    "long-part": ([entry(LONG, "x")], "too long"),
    "hardlink-absolute": ([hardlink("evil", "/etc/passwd")], "hard link"),
    "hardlink-dotdot": ([hardlink("evil", "../../../../etc/passwd")], "hard link"),
    "hardlink-missing": ([hardlink("evil", "etc/passwd")], "hard link"),
    "hardlink-through-link": ([symlink("out", "/etc"), hardlink("evil", "out/passwd")], "hard link"),
    "hardlink-to-dir": ([directory("d"), hardlink("evil", "d")], "hard link"),
    "hardlink-to-itself": ([entry("a", "x"), hardlink("a", "a")], "hard link"),
    "hardlink-to-whiteout": ([entry(".wh.gone"), hardlink("evil", "gone")], "hard link"),
    "whiteout-device": ([device("gone", 0, 0)], "0:0"),
    "whiteout-nothing": ([entry(".wh.")], "name of the file that it hides"),
    "whiteout-dot": ([entry(".wh..")], "name of the file that it hides"),
    "whiteout-dotdot": ([directory("a"), entry("a/.wh...")], "name of the file that it hides"),
    "below-a-file": ([entry("f", "x"), entry("f/evil", "x")], "not a directory"),
    "link-to-outside": ([symlink("etc", "/etc"), entry("etc/evil", "x")], "not a directory"),
    "link-up": ([symlink("up", "../../../../../etc"), entry("up/evil", "x")], "not a directory"),
    "link-loop": ([symlink("a", "b"), symlink("b", "a"), entry("a/evil", "x")], "not a directory"),
    "overlay-xattr": ([xattr("trusted.overlay.redirect")], "attribute"),
    "overlay-user-xattr": ([xattr("user.overlay.opaque")], "attribute"),
    "root-is-a-file": ([entry("./", "x")], "root is not a directory"),
    "root-is-a-link": ([symlink(".", "/etc")], "root is not a directory"),
    "sparse": ([raw(b"S")], "sparse"),
    "volume": ([raw(b"V")], "unknown kind"),
    "multi-volume": ([raw(b"M")], "unknown kind"),
    "data-of-a-device": ([raw(tarfile.CHRTYPE, size=512)], "without data"),
}


def damaged(change):
    data = bytearray(layer(entry("a", "hello")))
    change(data)
    return bytes(data)


def set_at(at, what):
    def change(d):
        d[at:at + len(what)] = what
    return change


def sized(what):
    """A size field of our own, with the right checksum."""
    def change(d):
        d[124:136] = what
        d[148:156] = b" " * 8
        d[148:156] = b"%06o\0 " % sum(d[:512])
    return change


def pax(text, kind=b"x"):
    t, _ = entry("pax", text)
    t.type = kind
    return t, text


MALFORMED = {
    "checksum": (damaged(set_at(0, b"b")), "checksum"),
    "cut-in-header": (layer(entry("a", "hello"))[:300], "cut off"),
    "cut-in-data": (layer(entry("a", "h" * 2000))[:1500], "cut off"),
    "cut-at-entry": (layer(entry("a", "hello"))[:1024], "cut off"),
    "size-huge": (damaged(sized(b"\x80" + b"\0" * 3 + b"\x7f" + b"\xff" * 7)), "cut off|number|room"),
    "size-negative": (damaged(sized(b"\xff" * 12)), "number"),
    "size-letters": (damaged(sized(b"12345z78901\0")), "number"),
    "pax-malformed": (layer(pax(b"999 path=x\n"), entry("a")), "malformed"),
    "pax-zero": (layer(pax(b"0 path=x\n"), entry("a")), "malformed"),
    "pax-no-equals": (layer(pax(b"9 pathxy\n"), entry("a")), "malformed"),
    "pax-nul": (layer(pax(b"11 path=a\0b\n"), entry("a")), "NUL|malformed"),
    "pax-empty-path": (layer(pax(b"8 path=\n"), entry("a")), "empty"),
    "pax-path-dotdot": (layer(pax(b"16 path=../evil\n"), entry("a")), "absolute"),
    "pax-size": (layer(pax(b"24 size=99999999999999999\n"[:25]), entry("a")), "malformed|cut|number"),
    "pax-sparse": (layer(pax(b"22 GNU.sparse.major=1\n"), entry("a")), "sparse"),
    "pax-global-path": (layer(pax(b"10 path=x\n", b"g"), entry("a")), "global"),
    "pax-huge": (layer(pax(b"x" * (2 << 20)), entry("a")), "too large"),
    "pax-at-end": (layer(pax(b"10 path=x\n")), "ends after"),
    "long-link": (layer(raw(b"L", data=b"a/" * 3000), entry("x")), "too long"),
    "not-tar": (b"hello world" * 1000, "checksum"),
    "gzip-cut": (gzip.compress(layer(entry("a", os.urandom(5000))))[:-100], "gzip"),
    "gzip-garbage": (gzip.compress(layer(entry("a"))) + b"garbage", "gzip"),
    "gzip-crc": (gzip.compress(layer(entry("a")))[:-8] + b"\0" * 8, "gzip"),
    "zstd-cut": (oci.compress(layer(entry("a", os.urandom(5000))), "zstd")[:-100], "zstd"),
    "zstd-garbage": (b"\x28\xb5\x2f\xfd" + b"\xff" * 100, "zstd"),
    "xz": (b"\xfd7zXZ\0" + b"\0" * 100, "xz"),
}


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)
    return path


def stored(c, what):
    path = os.path.join(c.state, "images", what)
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


def leftover(c):
    return stored(c, "names") + stored(c, "layers") + stored(c, "tmp") + stored(c, "blobs")


def check_refused(c, who):
    found = []
    for name, (entries, pattern) in REFUSED.items():
        path = write(os.path.join(c.dir, "evil.tar"), layer(directory("ok"), *entries))
        r = c("image", "import", "--name", "evil", path)
        tap.ok(r.code == 125, f"{who}: an archive with {name} is refused", r)
        tap.like(r.err, pattern, f"{who}: an archive with {name} says why", r)
        found += leftover(c)
    for name, (data, pattern) in MALFORMED.items():
        r = c("image", "import", "--name", "evil", write(os.path.join(c.dir, "evil.tar"), data))
        tap.ok(r.code == 125, f"{who}: an archive that is malformed ({name}) is refused", r)
        tap.like(r.err, pattern, f"{who}: an archive that is malformed ({name}) says why", r)
        found += leftover(c)
    tap.eq(found, [], f"{who}: refused archives leave nothing in the store")
    tap.eq([p for p in ("/evil", "/etc/evil", "/tmp/evil") if os.path.exists(p)], [], f"{who}: refused archives leave nothing outside")


def tree_of(c, name):
    manifest = json.loads(c("image", "inspect", name).out)["manifest"]
    return os.path.join(c.state, "images/layers", manifest["layers"][-1]["digest"][7:], "tree")


def check_contained(c, who):
    """Entries that are accepted, but mean something only inside."""
    outside = os.path.join(c.dir, "outside")
    os.mkdir(outside)
    c.own(outside)
    write(os.path.join(outside, "canary"), b"alive")
    c.own(os.path.join(outside, "canary"))
    up = "../" * 12 + outside[1:]
    entries = [directory("./"), entry(outside[1:] + "/made", "m"), directory("real-etc"), symlink("abs", outside), entry("abs/one", "1"), symlink("rel", up), entry("rel/two", "2"),
               symlink("etc", "/real-etc"), entry("etc/three", "3"),
               # A directory that is a link the second time, and the other way round.
               directory("swap"), entry("swap/x", "x"), symlink("swap", outside), entry("swap/canary", "dead"),
               symlink("file", outside + "/canary"), entry("file", "replaced"),
               symlink("dir", outside), directory("dir"), entry("dir/canary", "dead"),
               symlink("hl", outside + "/canary"), hardlink("hl2", "hl"),
               entry("dup", "first"), entry("dup", "second"), directory("dup2"), entry("dup2/x", "x"), entry("dup2", "a file"),
               device("dev-null", 1, 3), device("mem", 1, 1), device("sda", 8, 0, tarfile.BLKTYPE), entry("pipe", kind=tarfile.FIFOTYPE),
               entry("suid", "#!/bin/sh\n", mode=0o6755), directory("closed", 0o000), entry("closed/inside", "i", mode=0o000),
               directory("closed", 0o000), entry("big-owner", "x", uid=4000000000, gid=70000),
               entry("name\nwith\x1b[31m", "x"), entry(".wh..wh.plnk"), entry("x" * 255, "x"), entry("/".join(["d"] * 500) + "/f", "deep")]
    r = c("image", "import", "--name", "tricky", write(os.path.join(c.dir, "tricky.tar"), layer(*entries)))
    tap.eq(r.code, 0, f"{who}: an archive with links, devices and odd names is imported", r)
    tap.like(r.err, r"left out.*3 devices, 1 pipes, 1 setuid", f"{who}: import says what it left out", r)
    tap.eq(os.listdir(outside), ["canary"], f"{who}: import of links that lead outside makes nothing outside")
    with open(os.path.join(outside, "canary"), "rb") as f:
        tap.eq(f.read(), b"alive", f"{who}: import of links that lead outside changes nothing outside")
    tap.eq(os.stat(os.path.join(outside, "canary")).st_nlink, 1, f"{who}: import of links that lead outside makes no hard link outside")
    tree = tree_of(c, "tricky")
    special = []
    for base, dirs, files in os.walk(tree):
        for n in dirs + files:
            st = os.lstat(os.path.join(base, n))
            if not (stat.S_ISREG(st.st_mode) or stat.S_ISDIR(st.st_mode) or stat.S_ISLNK(st.st_mode)) or st.st_mode & 0o6000:
                special.append(n)
    tap.eq(special, [], f"{who}: no device, pipe or setuid bit is in the layer")
    st = os.stat(os.path.join(tree, "big-owner"))
    tap.eq((st.st_uid, st.st_gid), (65534, 65534) if who == "root" else (c.uid, c.uid), f"{who}: owners in an archive stay within bounds")

    def text(name):
        with open(os.path.join(tree, name), "rb") as f:
            return f.read()
    tap.eq([text(n) for n in ("dup", "dup2", "file")], [b"second", b"a file", b"replaced"],
           f"{who}: the last of two entries with one name is kept")
    tap.ok(os.path.isfile(os.path.join(tree, outside[1:], "one")), f"{who}: a link in an archive is followed inside the layer")
    tap.eq(c("image", "rm", "tricky").code, 0, f"{who}: image rm of an archive with odd names succeeds")
    tap.eq(leftover(c), [], f"{who}: image rm leaves nothing of an archive with odd names")


def stream(c, who, name, chunks, pattern, *opts):
    """An archive through a pipe, so that it need not be on the disk first."""
    fifo = os.path.join(c.dir, "fifo")
    os.mkfifo(fifo)
    c.own(fifo)

    def feed():
        try:
            with open(fifo, "wb", buffering=0) as f:
                for chunk in chunks:
                    f.write(chunk)
        except BrokenPipeError:
            pass
    t = threading.Thread(target=feed)
    t.start()
    r = c("image", "import", "--name", "evil", *opts, fifo, timeout=300)
    try:  # should nobody have opened it
        os.close(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK))
    except OSError:
        pass
    t.join()
    os.unlink(fifo)
    tap.ok(r.code == 125, f"{who}: an archive with {name} is refused", r)
    tap.like(r.err, pattern, f"{who}: an archive with {name} says why", r)
    tap.eq(leftover(c), [], f"{who}: an archive with {name} leaves nothing")
    return r


def zeros(total):
    """A gzip of so many zeros in a tar, in pieces."""
    z = zlib.compressobj(6, zlib.DEFLATED, 31)
    t, _ = entry("zeros")
    t.size = total
    yield z.compress(t.tobuf())
    for _ in range(total >> 20):
        yield z.compress(b"\0" * (1 << 20))
    yield z.compress(b"\0" * 1024) + z.flush()


def check_bombs(c, who):
    r = stream(c, who, "a decompression bomb", zeros(600 << 20), "decompression bomb")
    tap.ok(r.seconds < 60 * slow_build(), f"{who}: a decompression bomb is refused in time", r)
    stream(c, who, "more bytes than allowed", zeros(20 << 20), "more than 10 MiB", "--max-size", "10m")
    many = layer(*[entry(f"f{i}") for i in range(1001)])
    stream(c, who, "more entries than allowed", [many], "more than 1000 entries", "--max-entries", "1000")
    implied = layer(entry("/".join(["d"] * 600) + "/f"), entry("/".join(["e"] * 600) + "/f"))
    stream(c, who, "directories that only names imply", [implied], "more than 1000 entries", "--max-entries", "1000")
    halves = [layer(*[entry(f"{k}{i}", "x" * 4096) for i in range(300)]) for k in "ab"]
    path = oci.Layout(halves, ref="halves:1").write(os.path.join(c.dir, "halves"))
    for opts, says in ((("--max-entries", "500"), "image has more than 500 entries"), (("--max-size", "2m"), "larger than 2.0 MiB")):
        r = c("image", "import", path, *opts)
        tap.ok(r.code == 125 and says in r.err, f"{who}: {opts[0]} holds for all layers together", r)
        tap.eq(leftover(c), [], f"{who}: an image above {opts[0]} leaves nothing")
    r = c("image", "import", path, "--max-entries", "700", "--max-size", "4m")
    tap.ok(r.code == 0 and "stored as halves:1" in r.err, f"{who}: an image below --max-entries and --max-size is imported", r)
    r = c("image", "import", "--name", "again", path, "--max-entries", "500")
    tap.ok(r.code == 125 and "more than 500" in r.err, f"{who}: layers that are stored already count against --max-entries", r)
    tap.eq(c("image", "rm", "halves:1").code, 0, f"{who}: image rm of an image of two layers succeeds")
    nested = layer(entry("a", gzip.compress(layer(entry("b", b"\0" * (1 << 20))))))
    r = c("image", "import", "--name", "nested", write(os.path.join(c.dir, "nested.tar"), nested))
    tap.eq((r.code, c("image", "rm", "nested").code), (0, 0), f"{who}: an archive in an archive is imported as a file", r)
    if who == "root":
        path = write(os.path.join(c.dir, "zeros.tgz"), b"".join(zeros(300 << 20)))
        tap.eq(c("image", "import", "--name", "zeros", path).code, 125, f"{who}: 300 MiB of zeros are refused as a decompression bomb")
        r = c("image", "import", "--name", "zeros", "--max-size", "400m", path)
        tap.eq((r.code, c("image", "rm", "zeros").code), (0, 0), f"{who}: 300 MiB of zeros are imported with --max-size", r)
    if who == "root":
        path = oci.Layout([layer(entry("zeros", b"\0" * (n << 20))) for n in (200, 150)], how="zstd", ref="two:1").write(os.path.join(c.dir, "two"))
        r = c("image", "import", path)
        tap.ok(r.code == 125 and "decompression bomb" in r.err, f"{who}: two layers that are a decompression bomb together are refused", r)
        tap.eq(leftover(c), [], f"{who}: two layers that are a decompression bomb together leave nothing")
    if who == "root":  # half a gigabyte of headers: once will do
        block = entry("p", kind=tarfile.FIFOTYPE)[0].tobuf() * 20000
        stream(c, who, "a million entries", [block] * 51, "more than 1000000 entries")
        deep = [directory("/".join(["d"] * i)) for i in range(1, 1900)]
        r = c("image", "import", "--name", "deep", write(os.path.join(c.dir, "deep.tar"), layer(*deep)))
        tap.eq((r.code, c("image", "rm", "deep").code), (0, 0), f"{who}: directories as deep as a path can be are imported", r)


def check_unpacker(c, who):
    """The unpacker itself: what it can still do once it reads."""
    fifo = os.path.join(c.dir, "slow")
    os.mkfifo(fifo)
    c.own(fifo)
    p = c.popen("image", "import", "--name", "slow", fifo)
    with open(fifo, "wb", buffering=0) as f:
        f.write(layer(entry("a", "x" * 4096))[:1024])
        pid = None
        deadline = time.monotonic() + 90 * slow_build()
        while pid is None and time.monotonic() < deadline:
            pid = next((int(d) for d in os.listdir("/proc") if d.isdigit() and parent_of(d) == p.pid and
                        comm(d) == "coffer-unpack" and (sanitized() or status(d).get("Seccomp") == "2") and
                        status(d).get("NoNewPrivs") == "1"), None)
            time.sleep(0.02)
        if tap.ok(pid, f"{who}: the unpacker runs under its filter"):
            s = status(pid)
            want = "000000000000000b" if who == "root" else "0" * 16
            tap.eq([s[k] for k in ("NoNewPrivs", "CapEff", "CapPrm", "CapBnd")], ["1", want, want, want],
                   f"{who}: the unpacker has no capabilities but those to own files")
            if os.getuid() == 0:
                root = os.readlink(f"/proc/{pid}/root")
                tap.like(root, r"/images/tmp/[0-9a-f]+/0/tree$", f"{who}: the unpacker's root is the new layer", root)
                fds = sorted(int(x) for x in os.listdir(f"/proc/{pid}/fd"))
                others = [os.readlink(f"/proc/{pid}/fd/{n}") for n in fds[5:]]
                tap.ok(fds[:5] == [0, 1, 2, 3, 4] and all(x.startswith(root) for x in others),
                       f"{who}: the unpacker has five descriptors, and others in the new layer alone", fds, others)
                tap.ok(os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net"),
                       f"{who}: the unpacker has a network namespace of its own")
            os.kill(pid, signal.SIGKILL)
    out = p.communicate()
    os.unlink(fifo)
    tap.ok(p.returncode == 125 and b"signal 9" in out[1], f"{who}: import fails when the unpacker is killed", out)
    tap.eq(leftover(c), [], f"{who}: import leaves nothing when the unpacker is killed")
    r = subprocess.run([os.path.join(c.bin, "coffer-unpack")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    tap.ok(r.returncode == 2 and b"not by hand" in r.stderr, f"{who}: the unpacker refuses to be started by hand", r)


def parent_of(pid):
    return int(status(pid).get("PPid", -1))


def comm(pid):
    return status(pid).get("Name")


def status(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as f:
            return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    except OSError:
        return {}


SUID_C = r"""
#include <stdio.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <fcntl.h>
int main(int argc, char **argv)
{
	printf("euid %d\n", geteuid());
	if (argc > 1)
		printf("mknod %s open %s\n", mknod(argv[1], S_IFCHR | 0666, makedev(1, 1)) ? "refused" : "MADE",
		       open(argv[1], O_RDONLY) < 0 ? "refused" : "OPENED");
	return 0;
}
"""


def check_setuid(c, who):
    """A setuid bit means nothing inside, whether an image had it or a directory still has it. Outside, it does."""
    src, exe = os.path.join(c.dir, "suid.c"), os.path.join(c.dir, "suid")
    write(src, SUID_C.encode())
    subprocess.run(["gcc", "-static", "-O1", "-o", exe, src], check=True)
    with open(exe, "rb") as f:
        program = f.read()
    image = layer(*oci.base_entries(), entry("bin/suid", program, mode=0o6755))
    r = c("image", "import", "--name", "suid", write(os.path.join(c.dir, "suid.tar"), image))
    tap.ok(r.code == 0 and "1 setuid" in r.err, f"{who}: import of an image with a setuid program drops the bit", r)
    r = c("run", "-q", "--ephemeral", "--user", "1000", "--image", "suid", "--", "/bin/suid", "/tmp/mem")
    tap.eq(r.out, "euid 1000\nmknod refused open refused\n", f"{who}: a setuid program of an image runs as its caller", r)
    root = os.path.join(c.dir, "suidroot")
    os.makedirs(root + "/bin")
    inside = write(root + "/bin/suid", program)
    os.chmod(inside, 0o6755)
    if os.getuid() == 0:
        os.chown(inside, 0, 0)
        os.chmod(inside, 0o6755)
        c.own(root)
        out = subprocess.run([inside], user=c.uid if c.uid else 20001, stdout=subprocess.PIPE, text=True, check=False).stdout
        tap.eq(out, "euid 0\n", f"{who}: (control) a setuid program outside becomes root")
        os.mknod(root + "/bin/mem", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        tap.ok(subprocess.run(["head", "-c1", root + "/bin/mem"], user=c.uid, stdout=subprocess.DEVNULL, check=False).returncode == 0,
               f"{who}: (control) a device opens outside")
    r = c("run", "-q", "--ephemeral", "--user", "1000", "--root", root, "--", "/bin/suid", "/bin/mem")
    tap.eq(r.out, "euid 1000\nmknod refused open refused\n", f"{who}: a setuid program and a device in --root DIR have no effect", r)
    # Made inside, in the run's own layer, by root there.
    r = c("run", "-q", "--ephemeral", "--user", "0", "--image", "suid", "--", "/bin/sh", "-c",
          "cat /bin/suid > /s; chmod 6755 /s; ls -l /s; mknod /m c 1 1; ls /m")
    tap.like(r.out, r"^-rws", f"{who}: root inside can set the setuid bit", r)
    tap.ok("/m\n" not in r.out, f"{who}: root inside cannot make a device", r)
    tap.eq(c("image", "rm", "suid").code, 0, f"{who}: image rm of a setuid program's image succeeds")


def check_trap_root(c, who):
    """Roots that lay traps for who builds on them: links where something is to be made or mounted."""
    # Not below /tmp, which is covered while a root is built: a trap there would catch nobody.
    outside = tempfile.mkdtemp(prefix="coffer-trap-", dir="/var/tmp")
    os.chmod(outside, 0o777)
    c.own(outside)
    box = [e for e in oci.base_entries() if e[0].name not in ("etc", "home", "var", "var/tmp", "etc/passwd", "etc/group", "home/bob")]
    traps = [symlink("etc", outside), symlink("var", outside), symlink("home", outside), symlink("opt", "/proc/1/root" + outside),
             symlink("srv", "/proc/self/cwd")]
    c("image", "import", "--name", "trap", write(os.path.join(c.dir, "trap.tar"), layer(*box, *traps)))
    # A link that is refused hides the ones behind it: this one has but one.
    c("image", "import", "--name", "trap2", write(os.path.join(c.dir, "trap2.tar"),
                                                 layer(*box, directory("var"), symlink("var/tmp", outside))))
    file, deep = c.write("f", "x"), c.write("d/f", "x")[:-2]
    for image, opts in (("trap", []), ("trap", ["-w", "/etc/made"]), ("trap", ["-v", file + ":/etc/f"]), ("trap", ["-w", "/srv/made"]),
                        ("trap", ["-v", file + ":/opt/f"]), ("trap", ["--home", "h", "--user", "0"]), ("trap", ["-w", "/opt/x"]),
                        ("trap2", []), ("trap2", ["-v", file + ":/var/tmp/f"]), ("trap2", ["-v", deep + ":/var/tmp/d/e"]),
                        ("trap2", ["-v", file + ":/tmp/f"]), ("trap2", ["-v", deep + ":/tmp/d/e"])):
        n = f"{image} with {' '.join(opts)[-20:]}"
        r = c("run", "-q", "--ephemeral", *opts, "--image", image, "--", "/bin/true")
        tap.ok(r.code in (0, 125), f"{who}: a root with links as traps runs or is refused, {n}", r)
        tap.eq(os.listdir(outside), [], f"{who}: a root with links as traps makes nothing outside, {n}")
    c("image", "import", "--name", "plain", write(os.path.join(c.dir, "plain.tar"), oci.base_layer()))
    r = c("run", "-q", "--ephemeral", "-v", file + ":/tmp/f", "-v", deep + ":/var/tmp/d/e", "--image", "plain", "--",
          "/bin/cat", "/tmp/f", "/var/tmp/d/e/f")
    tap.eq(r.out, "xx", f"{who}: (control) -v into /tmp and /var/tmp works in a root without traps", r)
    tap.eq(c("image", "rm", "plain").code, 0, f"{who}: image rm plain succeeds")
    shutil.rmtree(outside)
    tap.eq(c("image", "rm", "trap2").code, 0, f"{who}: image rm trap2 succeeds")
    tap.eq(c("image", "rm", "trap").code, 0, f"{who}: image rm trap succeeds")


if not oci.BUSYBOX:
    tap.skip("hostile images", "busybox is not installed")
    tap.done()
for who in identities(tap):
    with coffer_as(who) as c:
        if not oci.static_init(c):
            tap.skip(f"{who}: images", "a sanitizer build needs an ordinary one beside it, in build/")
            continue
        check_refused(c, who)
        check_contained(c, who)
        check_bombs(c, who)
        check_unpacker(c, who)
        check_setuid(c, who)
        check_trap_root(c, who)
        c.check_clean(tap)
tap.done()
