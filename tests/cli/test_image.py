#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1200
"""Images from import to removal, as every identity, and runs on them."""

import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Coffer, Tap, coffer_as, identities, slow_build  # noqa: E402
import ocitest as oci  # noqa: E402

tap = Tap()


def place(c, name):
    """A path for an image, which the identity can read."""
    return os.path.join(c.dir, name)


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)
    return path


def stored(c, what):
    path = os.path.join(c.state, "images", what)
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


def run(c, image, script, *opts):
    return c("run", "-q", "--ephemeral", *opts, "--image", image, "--", "/bin/sh", "-c", script)


def check_rootfs(c, who):
    r = c("image", "ls")
    tap.ok(r.code == 0 and r.out.startswith("NAME"), f"{who}: an empty list has its heads", r)
    path = write(place(c, "rootfs.tar.gz"), oci.compress(oci.base_layer(), "gzip"))
    r = c("image", "import", path)
    tap.ok(r.code == 125 and "--name" in r.err, f"{who}: a bare root file system needs a name", r)
    r = c("image", "import", "--name", "base", path)
    tap.like(r.out, r"^base:latest@sha256:[0-9a-f]{64}  .*1 layer\n", f"{who}: and has it then", r)
    image = json.loads(c("image", "ls", "--json").out)[0]
    tap.ok(image["name"] == "base:latest" and image["bytes"] > 1000000, f"{who}: it is listed", image)

    report = place(c, "tmp/report")
    r = run(c, "base", "id -u; id -g; echo $HOME; pwd; echo new > /etc/new; rm /etc/passwd; touch /workspace/x; ls /etc",
            "--report", report)
    tap.eq(r.out, "0\n0\n/root\n/workspace\ngroup\nhostname\nhosts\nnew\nresolv.conf\n", f"{who}: the root is written to", r)
    with open(report, encoding="utf-8") as f:
        rep = json.load(f)
    os.unlink(report)
    tap.eq((rep["root"], rep["image"], rep["image_digest"]), ("image", "base:latest", image["digest"]),
           f"{who}: the report names image and digest")
    r = run(c, "base", "ls /etc; cat /etc/passwd")
    tap.eq(r.out, "group\nhostname\nhosts\npasswd\nresolv.conf\n" + oci.PASSWD, f"{who}: the next run sees nothing of it", r)
    events = [json.loads(l) for l in c("audit", "--json").out.splitlines()]
    start = next(e for e in events if e["type"] == "run.start")
    tap.ok(start["image"] == "base:latest" and start["image_digest"] == image["digest"], f"{who}: the log too", start)
    tap.ok([e["type"] for e in events][1:4] == ["image.import", "image.import", "image.imported"], f"{who}: and the import", [e["type"] for e in events])
    tap.eq(os.listdir(os.path.join(c.state, "runs")), [], f"{who}: nothing is left of the runs")
    return image["digest"]


def check_view(c, who):
    """What is the sandbox's own, whatever the image says; and nothing of the host's."""
    r = run(c, "base", "cat /etc/hosts /etc/hostname; wc -c < /etc/resolv.conf; ls /sys | wc -l; ls /dev; ls -d /usr /lib 2>&1")
    tap.like(r.out, r"^127.0.0.1 localhost coffer\n::1 localhost\ncoffer\n20\n0\n", f"{who}: names are the sandbox's", r)
    tap.like(r.out, r"\nfd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n", f"{who}: and /dev", r)
    tap.like(r.out, r"/usr: No such file.*/lib: No such file", f"{who}: nothing of the host is there", r)
    r = run(c, "base", "for d in / /etc /tmp /var/tmp /workspace /root /dev/shm; do touch $d/t && echo $d; done; "
            "for d in /dev /sys /proc/sys /etc/hosts; do touch $d/t 2>/dev/null && echo BAD $d; done; true")
    tap.eq(r.out.split(), ["/", "/etc", "/tmp", "/var/tmp", "/workspace", "/root", "/dev/shm"], f"{who}: what can be written", r)
    r = run(c, "base", "cat /data/x && test -d /opt/made/for", "-v", f"{c.write('f.txt', 'hello')}:/data/x",
            "-w", "/opt/made/for")
    tap.eq((r.code, r.out), (0, "hello"), f"{who}: places are made for -v and -w", r)
    r = c("run", "-q", "--image", "base", "--home", "h", "--", "/bin/sh", "-c", "echo kept >> $HOME/f; cat $HOME/f; pwd")
    r = c("run", "-q", "--image", "base", "--home", "h", "--", "/bin/sh", "-c", "echo kept >> $HOME/f; cat $HOME/f; pwd")
    tap.eq(r.out, "kept\nkept\n/workspace\n", f"{who}: a named home stays", r)
    r = c("run", "-q", "--image", "base", "--disk", "4m", "--ephemeral", "--timeout", "20s", "--", "/bin/sh", "-c",
          "dd if=/dev/zero of=/big bs=1M count=64 && sleep 10")
    tap.ok(r.code != 0, f"{who}: the root's layer counts against --disk", r)


def check_layers(c, who):
    d = oci.directory
    lower = oci.layer(d("keep"), oci.entry("keep/a", "lower a", mode=0o644), oci.entry("keep/b", "lower b", mode=0o644),
                      d("gone"), oci.entry("gone/x", "x"), d("opaque"), oci.entry("opaque/old", "old"),
                      d("again"), oci.entry("again/old", "old"), oci.symlink("link", "keep"), d("locked", 0o500),
                      oci.entry("locked/f", "f", mode=0o400), d("into"))
    upper = oci.layer(oci.entry("keep/.wh.a"), oci.entry("keep/b", "upper b", mode=0o644), oci.entry(".wh.gone"),
                      d("opaque"), oci.entry("opaque/.wh..wh..opq"), oci.entry("opaque/new", "new"),
                      oci.entry(".wh.again"), d("again"), oci.entry("again/new", "new"), d("real"),
                      oci.symlink("alias", "real"), oci.entry("alias/through", "t"), oci.symlink("abs", "/real"),
                      oci.entry("abs/inside", "i"), oci.entry("deep/er/made", "m"))
    for how in ("gzip", "zstd", "none"):
        path = oci.Layout([oci.base_layer(), lower, upper], how=how, ref=f"layers:{how}").write(place(c, "oci-" + how))
        r = c("image", "import", path)
        tap.ok(r.code == 0 and "3 layers" in r.out, f"{who}: an OCI layout with {how}", r)
        r = run(c, f"layers:{how}", "ls /keep /opaque /again /real; cat /keep/b; ls -d /gone; cat /link/b /deep/er/made; "
                "cat /locked/f; echo x > /keep/a && cat /keep/a; rm -r /opaque && mkdir /opaque && ls /opaque")
        tap.eq(r.out, "/again:\nnew\n\n/keep:\nb\n\n/opaque:\nnew\n\n/real:\ninside\nthrough\nupper bupper bmfx\n",
               f"{who}: what is shown of {how}", r)
        shutil.rmtree(path)
    tap.eq(len(stored(c, "layers")), 9, f"{who}: each layer is there once for each form")
    r = c("image", "rm", "layers:gzip", "layers:zstd", "layers:none")
    tap.eq((r.code, len(stored(c, "layers"))), (0, 1), f"{who}: and goes with its last image", r)
    # More layers than anybody should have, and one more.
    many = [oci.base_layer()] + [oci.layer(oci.entry(f"n{i}", str(i), mode=0o644)) for i in range(126)]
    r = c("image", "import", oci.Layout(many, how="none", ref="many:1").write(place(c, "many")))
    tap.eq(r.code, 0, f"{who}: 127 layers", r)
    r = run(c, "many:1", "cat /n0 /n125; ls / | wc -l")
    tap.eq(r.out, "0125136\n", f"{who}: are all there", r)
    r = c("image", "import", oci.Layout(many + [oci.layer()], how="none").write(place(c, "more")))
    tap.ok(r.code == 125 and "at most 127" in r.err, f"{who}: 128 are refused", r)
    tap.eq(c("image", "rm", "many:1").code, 0, f"{who}: gone")


def check_config(c, who):
    conf = {"Env": ["FOO=image", "PATH=/bin:/other"], "Entrypoint": ["/bin/sh", "-c", 'echo "$FOO:$0:$1:$PATH:$(pwd)"'],
            "Cmd": ["zero", "one"], "WorkingDir": "/srv/made", "User": "bob:staff"}
    path = oci.docker_archive(place(c, "docker.tar"), [oci.base_layer()], conf, ["docker.io/library/cfg:2"])
    r = c("image", "import", path)
    tap.like(r.out, r"^cfg:2@sha256:", f"{who}: a docker archive names itself", r)
    tap.eq(len(stored(c, "layers")), 2, f"{who}: its layer is stored by its own digest")

    def cfg(*args):
        return c("run", "-q", "--ephemeral", *args)
    r = cfg("--image", "cfg:2")
    tap.eq(r.out, "image:zero:one:/bin:/other:/srv/made\n", f"{who}: entry point, command, variables, directory", r)
    r = cfg("-e", "FOO=mine", "-w", "/tmp", "--image", "cfg:2", "--", "other")
    tap.eq(r.out, "mine:other::/bin:/other:/tmp\n", f"{who}: the command line is heard last", r)
    r = cfg("--image", "cfg:2", "--entrypoint", "/bin/id")
    tap.like(r.out, r"uid=1000\(bob\) gid=50\(staff\)", f"{who}: user and group by name", r)
    r = cfg("--image", "cfg:2", "--entrypoint", "", "--user", "0", "--", "env")
    tap.ok("HOME=/root\n" in r.out and "LANG" not in r.out, f"{who}: an empty entry point, another user", r)
    r = cfg("--image", "cfg:2", "--entrypoint", "id", "--user", "1234", "--", "-u")
    tap.eq(r.out, "1234\n", f"{who}: a user that nobody knows", r)
    for user, why in (("nobodyhere", "no user"), ("bob:nogroup", "no group"), ("broken", "no user"), ("65534", "mapped")):
        r = cfg("--image", "cfg:2", "--user", user)
        tap.ok(r.code == (2 if user == "65534" else 125) and why in r.err, f"{who}: --user {user} is refused", r)
    r = cfg("--image", "base")
    tap.ok(r.code != 0 and "needs a command" in r.err, f"{who}: an image without a command wants one", r)
    for args, why in ((("--image", "cfg:2", "--root", "host"), "exclude each other"), (("--entrypoint", "x", "true"), "needs --image"),
                      (("--image", "no such"), "not the name"), (("--image", "none:1"), "there is no image")):
        r = cfg(*args)
        tap.ok(r.code in (2, 125) and why in r.err, f"{who}: {' '.join(args)}", r)
    tap.eq(c("image", "rm", "cfg:2").code, 0, f"{who}: gone")


def check_pinned(c, who, digest):
    bad = "sha256:" + "1" * 64
    tap.eq(run(c, f"base@{digest}", "true").code, 0, f"{who}: pinned by digest")
    tap.eq(run(c, f"base:latest@{digest}", "true").code, 0, f"{who}: with its tag too")
    for ref in (f"base@{bad}", f"base:latest@{bad}"):
        r = run(c, ref, "true")
        tap.ok(r.code == 125 and "pinned" in r.err and digest in r.err, f"{who}: another digest is refused", r)
    lay = oci.Layout([oci.base_layer()], ref="nested:1")
    lay.nested = True
    r = c("image", "import", lay.write(place(c, "nested")))
    tap.eq(r.code, 0, f"{who}: an index in an index, by platform", r)
    for d in (lay.digest, lay.index):
        tap.eq(run(c, f"nested@{d}", "true").code, 0, f"{who}: pinned to manifest or index")
    r = c("image", "import", "--name", f"nested:1@{bad}", place(c, "nested"))
    tap.ok(r.code == 125 and bad in r.err, f"{who}: an import that is not what its name says", r)
    lay = oci.Layout([oci.base_layer()], oci.config_of([oci.base_layer()], arch="s390x"), ref="other:1")
    r = c("image", "import", lay.write(place(c, "s390x")))
    tap.ok(r.code == 125 and "s390x" in r.err, f"{who}: another machine's image is refused", r)
    tap.eq(c("image", "rm", "nested:1").code, 0, f"{who}: gone")


def check_wrong(c, who):
    """Blobs that are not what they should be."""
    def refused(name, change, pattern):
        lay = oci.Layout([oci.base_layer(), oci.layer(oci.entry("x", name))], ref=f"wrong:{name}")
        path = place(c, "wrong-" + name)
        change(lay, path)
        before = stored(c, "names")
        r = c("image", "import", path)
        tap.ok(r.code == 125, f"{who}: {name} is refused", r)
        tap.like(r.err, pattern, f"{who}: {name} says why", r)
        tap.eq((stored(c, "names"), stored(c, "tmp")), (before, []), f"{who}: {name} leaves nothing")

    def top_layer(path, lay):
        return os.path.join(path, "blobs/sha256", oci.digest(lay.blobs[1])[7:])

    def other_bytes(lay, path):
        lay.write(path)
        write(top_layer(path, lay), oci.compress(oci.layer(oci.entry("x", "other")), "gzip"))

    def flipped(lay, path):
        lay.write(path)
        data = bytearray(lay.blobs[1])
        data[len(data) // 2] ^= 1
        write(top_layer(path, lay), data)

    def other_diff(lay, path):
        lay.config["rootfs"]["diff_ids"][1] = "sha256:" + "2" * 64
        lay.write(path)

    def no_layer(lay, path):
        lay.write(path)
        os.unlink(top_layer(path, lay))

    def no_config(lay, path):
        lay.write(path)
        os.unlink(os.path.join(path, "blobs/sha256", oci.digest(json.dumps(lay.config).encode())[7:]))

    def other_config(lay, path):
        lay.write(path)
        write(os.path.join(path, "blobs/sha256", oci.digest(json.dumps(lay.config).encode())[7:]), b"{}")

    def few_diffs(lay, path):
        lay.config["rootfs"]["diff_ids"].pop()
        lay.write(path)

    def link_out(lay, path):
        lay.write(path)
        os.unlink(top_layer(path, lay))
        os.symlink("/etc/passwd", top_layer(path, lay))

    refused("other-bytes", other_bytes, "digest says")
    refused("flipped", flipped, "damaged|digest says|checksum|cut off")
    refused("other-diff", other_diff, "digest says")
    refused("no-layer", no_layer, "not complete")
    refused("no-config", no_config, "not complete")
    refused("other-config", other_config, "digest says")
    refused("few-diffs", few_diffs, "2 layers.*names 1")
    refused("link-out", link_out, "not complete")
    for name, data in (("json", b'{"a":' * 3000), ("empty", b""), ("big", b'{"x":"' + b"y" * (5 << 20) + b'"}')):
        path = place(c, "json-" + name)
        oci.Layout([oci.base_layer()]).write(path)
        write(os.path.join(path, "index.json"), data)
        tap.eq(c("image", "import", path).code, 125, f"{who}: an index that is {name}")


def check_damaged(c, who):
    """A store that somebody has touched."""
    r = c("image", "import", oci.Layout([oci.layer(oci.entry("hurt", "x")), oci.base_layer()], ref="hurt:1").write(place(c, "hurt")))
    tap.eq(r.code, 0, f"{who}: an image to hurt", r)
    image = json.loads(c("image", "inspect", "hurt:1").out)
    hexa = image["manifest"]["layers"][0]["digest"][7:]
    path = os.path.join(c.state, "images/layers", hexa)
    os.rename(path, path + ".away")
    r = run(c, "hurt:1", "true")
    tap.ok(r.code == 125 and "layer" in r.err and "missing" in r.err and "coffer image rm" in r.err, f"{who}: a missing layer", r)
    os.rename(path + ".away", path)
    for blob in (image["digest"], image["manifest"]["config"]["digest"]):
        p = os.path.join(c.state, "images/blobs", blob[7:])
        with open(p, "rb") as f:
            data = f.read()
        write(p, data.replace(b"a", b"b", 1))
        r = run(c, "hurt:1", "true")
        tap.ok(r.code == 125 and "damaged" in r.err, f"{who}: a blob that was changed", r)
        write(p, data)
    tap.eq(run(c, "hurt:1", "true").code, 0, f"{who}: whole again")
    name = os.path.join(c.state, "images/names", stored(c, "names")[0])
    with open(name, "rb") as f:
        data = f.read()
    write(name, b"nonsense")
    tap.eq(c("image", "ls").code, 125, f"{who}: a record that cannot be read")
    write(name, data)
    for left in ("images/tmp/0123456789ab", "images/layers/" + "0" * 64):
        os.mkdir(os.path.join(c.state, left))
        c.own(os.path.join(c.state, left))
    r = c("image", "rm", "hurt:1")
    tap.eq((r.code, stored(c, "tmp"), len(stored(c, "layers"))), (0, [], 1), f"{who}: what nobody needs is swept", r)


def check_use(c, who):
    r = c("image", "import", "--name", "busy", oci.Layout([oci.base_layer(), oci.layer(oci.entry("b"))], ref=None).write(place(c, "b")))
    tap.eq(r.code, 0, f"{who}: an image to use", r)
    if who == "root":
        r = c("call", "--image", "busy", "--", "true")
        deadline = time.monotonic() + 90 * slow_build()
        while not c("pool").out[:1].isdigit() or c("pool").out.startswith("0"):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        r = c("image", "rm", "busy")
        tap.ok(r.code == 125 and "busy:latest is held by the warm pool" in r.err and "coffer pool stop" in r.err,
               f"{who}: rm of an image that the warm pool holds names the pool and the command that frees it", r, c("pool"))
        tap.eq(c("pool", "stop").code, 0, f"{who}: and end when they are told to")
        while os.listdir(os.path.join(c.state, "runs")) and time.monotonic() < deadline:
            time.sleep(0.05)
    r = c("run", "-d", "--name", "web", "--ephemeral", "--image", "busy", "--", "sleep", "1000")
    tap.eq(r.code, 0, f"{who}: a sandbox on it", r)
    ps = json.loads(c("ps", "--json").out)[0]
    tap.ok(ps["image"] == "busy:latest" and ps["image_digest"].startswith("sha256:"), f"{who}: ps knows", ps)
    tap.like(c("ps", "--no-trunc").out, r"busy:latest@sha256:", f"{who}: and shows it")
    tap.eq(c("exec", "web", "--", "sh", "-c", "echo mine > /mine; cat /mine").out, "mine\n", f"{who}: exec in it")
    for force in ([], ["-f"]):
        r = c("image", "rm", *force, "busy")
        tap.ok(r.code == 125 and "sandbox web" in r.err, f"{who}: the image is not removed while a sandbox uses it, which is named", r)
    tap.eq(c("stop", "-t", "0", "web").code, 0, f"{who}: stopped")
    deadline = time.monotonic() + 90 * slow_build()
    while json.loads(c("ps", "--json").out) and time.monotonic() < deadline:
        time.sleep(0.05)
    run_dir = os.path.join(c.state, "runs", os.listdir(os.path.join(c.state, "runs"))[0])
    tap.ok(os.path.exists(os.path.join(run_dir, "root-upper/mine")), f"{who}: what a named one wrote is kept",
           os.listdir(run_dir))
    r = c("image", "rm", "busy")
    tap.ok(r.code == 125 and "coffer rm web" in r.err, f"{who}: and what it was made of", r)
    tap.eq(c("rm", "web").code, 0, f"{who}: until it is removed")
    tap.eq(os.listdir(os.path.join(c.state, "runs")), [], f"{who}: with all of it")
    r = c("image", "rm", "busy")
    tap.eq((r.code, len(stored(c, "layers"))), (0, 1), f"{who}: then the image goes too", r)
    r = c("image", "rm", "busy")
    tap.ok(r.code == 125 and c("image", "rm", "-f", "busy").code == 0, f"{who}: one that is not there", r)


def check_together(c, who):
    """Two who bring in the same image, and one who dies in the middle."""
    path = oci.Layout([oci.base_layer(), oci.layer(*[oci.entry(f"f{i}", "x" * 100) for i in range(2000)])],
                      ref="twice:1").write(place(c, "twice"))
    both = [c.popen("image", "import", path) for _ in range(4)]
    said = [p.communicate() for p in both]
    tap.eq([p.returncode for p in both], [0] * 4, f"{who}: four at once", *said)
    tap.eq(run(c, "twice:1", "ls / | wc -l").out.strip(), "2010", f"{who}: and it is whole")
    tap.eq((stored(c, "tmp"), c("image", "rm", "twice:1").code), ([], 0), f"{who}: nothing is left over")

    fifo = place(c, "tmp/pipe")
    os.mkfifo(fifo)
    c.own(fifo)
    p = c.popen("image", "import", "--name", "half", fifo)
    archive = oci.base_layer()
    with open(fifo, "wb") as f:
        f.write(archive[:len(archive) // 2])
        f.flush()
        deadline = time.monotonic() + 90 * slow_build()
        while not stored(c, "tmp") and time.monotonic() < deadline:
            time.sleep(0.02)
        busy = stored(c, "tmp")
        os.killpg(p.pid, signal.SIGKILL)
        p.communicate()
    os.unlink(fifo)
    tap.ok(len(busy) == 1, f"{who}: an import that is killed was at work", busy)
    tap.eq((stored(c, "names"), len(stored(c, "layers"))), (stored(c, "names"), 1), f"{who}: and left nothing visible")
    tap.ok("half" not in c("image", "ls").out, f"{who}: no image")
    r = c("image", "import", "--name", "half", write(place(c, "half.tar"), archive))
    tap.eq((r.code, stored(c, "tmp")), (0, []), f"{who}: who comes next sweeps and succeeds", r)
    tap.eq(c("image", "rm", "half").code, 0, f"{who}: gone")


def check_full(c, who):
    """A disk that is full in the middle: a small tmpfs as the state directory, in a mount namespace of its own."""
    if os.getuid() != 0 or who == "userns":
        return
    data = write(place(c, "huge.tar"), oci.layer(oci.entry("bin/fill", b"\1" * (24 << 20))))
    script = ("mount -t tmpfs -o size=16m,mode=700,uid=%d tmpfs %s && for cap in 1g 15m; do setpriv --reuid %d --regid %d "
              "--clear-groups %s image import --max-size $cap --name full %s; echo code $?; done; ls %s/images/names "
              "%s/images/layers %s/images/tmp") % (c.uid, c.tmp, c.uid, c.uid, c.exe, data, c.tmp, c.tmp, c.tmp)
    out = subprocess.run(["unshare", "-m", "sh", "-c", script], env=c.env({"COFFER_STATE": c.tmp}), stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, check=False).stdout
    tap.eq(out.count("code 125"), 2, f"{who}: no room for it", out)
    tap.like(out, r"room|No space", f"{who}: and that is said", out)
    tap.like(out, r"layers:\n\n.*names:\n\n.*tmp:\n$", f"{who}: nothing half-done is left", out)
    # With a cap that the disk does not know: files that grow beyond what is free.
    script = script.replace("-o size=16m", "-o size=16m,nr_inodes=40")
    many = write(place(c, "inodes.tar"), oci.layer(*[oci.entry(f"f{i}") for i in range(200)]))
    out = subprocess.run(["unshare", "-m", "sh", "-c", script.replace(data, many)], env=c.env({"COFFER_STATE": c.tmp}),
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout
    tap.eq(out.count("code 125"), 2, f"{who}: no inodes for it", out)
    tap.like(out, r"layers:\n\n.*names:\n\n.*tmp:\n$", f"{who}: nothing half-done is left then", out)


def check_dir(c, who):
    """--root DIR."""
    root = place(c, "rootdir")
    os.mkdir(root)
    subprocess.run(["tar", "-xf", place(c, "half.tar"), "-C", root], check=True)
    if os.getuid() == 0:
        subprocess.run(["chown", "-R", f"{c.uid}:{c.uid}", root], check=True)
    before = sorted(os.listdir(root)), os.listdir(root + "/etc")
    r = c("run", "-q", "--root", root, "--", "/bin/sh", "-c", "echo new > /etc/new; rm -r /home; ls / /etc; echo $HOME; id -u")
    tap.ok(r.code == 0 and "new" in r.out and "home" not in r.out.split(), f"{who}: --root DIR is written to", r)
    tap.eq((sorted(os.listdir(root)), os.listdir(root + "/etc")), before, f"{who}: and stays as it is")
    for bad in ("/", c.state, os.path.join(c.state, "runs"), "/nonexistent", "/proc"):
        r = c("run", "--root", bad, "--", "true")
        tap.eq(r.code, 125, f"{who}: --root {bad if len(bad) < 13 else 'of the state'} is refused", r)
    r = c("run", "-q", "--root", "host", "--", "true")
    tap.eq(r.code, 0, f"{who}: --root host is the default", r)
    for what in ("proc", "tmp", "workspace", "dev"):
        path = os.path.join(root, what)
        if os.path.isdir(path):
            os.rmdir(path)
        os.symlink(c.work, path)
        r = c("run", "-q", "--root", root, "--", "/bin/true")
        tap.ok(r.code == 125 and "link" in r.err, f"{who}: a link where /{what} should be", r)
        os.unlink(path)
    os.rename(root + "/etc", root + "/etc2")
    os.symlink("/etc2", root + "/etc")
    r = c("run", "-q", "--root", root, "--", "/bin/sh", "-c", "cat /etc/hostname; ls -l /etc")
    tap.ok(r.code == 0 and r.out.startswith("coffer\n"), f"{who}: a link at /etc is followed inside", r)


def check_tools(c, who):
    """What skopeo and umoci make of it, and a real docker archive."""
    lay = oci.Layout([oci.base_layer()], {"Cmd": ["/bin/cat", "/etc/made-by"]}, ref="1").write(place(c, "tools"))
    archive = place(c, "skopeo.tar")
    env = dict(os.environ, HOME=c.tmp, TMPDIR=c.tmp)
    note = write(place(c, "note"), b"umoci\n")
    done = subprocess.run(f"umoci insert --image {lay}:1 --tag 2 {note} /etc/made-by && skopeo copy --quiet "
                          f"--insecure-policy oci:{lay}:2 docker-archive:{archive}:made/by:tools && chmod -R a+rX {lay} {archive}", shell=True, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if not tap.eq(done.returncode, 0, f"{who}: umoci and skopeo", done.stdout):
        return
    r = c("image", "import", archive)
    tap.like(r.out, r"^made/by:tools@.*2 layers", f"{who}: a docker archive of skopeo's", r)
    tap.eq(c("run", "-q", "--ephemeral", "--image", "made/by:tools").out, "umoci\n", f"{who}: runs")
    r = c("image", "import", "--name", "umoci:2", lay)
    tap.eq(r.code, 0, f"{who}: the layout of umoci's, by its tag", r)
    tap.eq(c("run", "-q", "--ephemeral", "--image", "umoci:2").out, "umoci\n", f"{who}: runs too")
    for name in os.listdir(c.tmp):
        subprocess.run(["rm", "-rf", os.path.join(c.tmp, name)], check=False)
    if who != "userns":  # where unshare(1) is looked for on the same path
        r = c("image", "pull", "whatever", env={"PATH": c.bin})
        tap.ok(r.code == 125 and "skopeo is not installed" in r.err, f"{who}: pull without skopeo", r)
    r = c("image", "rm", "made/by:tools", "umoci:2")
    tap.eq(r.code, 0, f"{who}: gone", r)


class Registry(http.server.BaseHTTPRequestHandler):
    """As much of a registry as it takes to be pulled from: one OCI layout under the name some/thing."""
    layout = manifest = None

    def do_GET(self):
        kind, _, ref = self.path.removeprefix("/v2/some/thing/").partition("/")
        path = os.path.join(self.layout, "blobs/sha256", (self.manifest if ref == "7" else ref)[7:])
        if self.path == "/v2/":
            data = b"{}"
        elif kind in ("manifests", "blobs") and os.path.isfile(path):
            with open(path, "rb") as f:
                data = f.read()
        else:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.oci.image.manifest.v1+json" if kind == "manifests"
                         else "application/octet-stream")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    do_HEAD = do_GET

    def log_message(self, *args):
        pass


def check_pull(c, who):
    """A registry of our own on loopback."""
    lay = oci.Layout([oci.base_layer()], {"Cmd": ["/bin/id", "-u"]}, ref="1")
    Registry.layout = lay.write(place(c, "topull"))
    Registry.manifest = lay.digest
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        repo, env = f"127.0.0.1:{server.server_port}/some/thing", {"TMPDIR": c.tmp}
        r = c("image", "pull", repo + ":7", env=env)
        tap.ok(r.code == 125 and "skopeo" in r.err, f"{who}: without TLS it is not fetched unasked", r)
        r = c("image", "pull", "--insecure", repo + ":7", env=env)
        tap.like(r.out, rf"^{repo}:7@{lay.digest}", f"{who}: pull from a registry", r)
        tap.eq(c("run", "-q", "--ephemeral", "--image", repo + ":7").out, "0\n", f"{who}: runs")
        r = c("image", "pull", "--insecure", f"{repo}@{lay.digest}", env=env)
        tap.eq(r.code, 0, f"{who}: by digest", r)
        r = c("image", "pull", "--insecure", f"{repo}@sha256:{'3' * 64}", env=env)
        tap.eq(r.code, 125, f"{who}: by a digest that is not there", r)
        tap.eq(stored(c, "tmp"), [], f"{who}: nothing is left of the fetching")
        for image in json.loads(c("image", "ls", "--json").out):
            if image["name"].startswith("127."):
                c("image", "rm", image["name"])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


if not oci.BUSYBOX:
    tap.skip("images", "busybox is not installed")
    tap.done()
for who in identities(tap):
    with coffer_as(who) as c:
        if not oci.static_init(c):
            tap.skip(f"{who}: images", "a sanitizer build needs an ordinary one beside it, in build/")
            continue
        digest = check_rootfs(c, who)
        check_view(c, who)
        check_layers(c, who)
        check_config(c, who)
        check_pinned(c, who, digest)
        check_wrong(c, who)
        check_damaged(c, who)
        check_use(c, who)
        check_together(c, who)
        check_full(c, who)
        check_dir(c, who)
        check_tools(c, who)
        if who != "userns":  # a registry is the same for all; skopeo there wants more ids than one
            check_pull(c, who)
        c.check_clean(tap)
if shutil.which("runsc"):
    for who in identities():
        with Coffer(who, "gvisor") as c:  # as root inside: an ordinary user may have no ids for others
            if not oci.static_init(c):
                continue
            digest = check_rootfs(c, f"{who} gvisor")
            check_layers(c, f"{who} gvisor")
            check_pinned(c, f"{who} gvisor", digest)
            check_use(c, f"{who} gvisor")
            c.check_clean(tap)
else:
    tap.skip("images on engine gvisor", "runsc is not installed")
tap.done()
