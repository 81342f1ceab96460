#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1200
"""Images from import to removal, as every identity, and runs on them."""

import hashlib
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
    tap.ok(r.code == 0 and r.out.startswith("NAME"), f"{who}: image ls of an empty store prints the heading", r)
    path = write(place(c, "rootfs.tar.gz"), oci.compress(oci.base_layer(), "gzip"))
    r = c("image", "import", path)
    tap.ok(r.code == 125 and "--name" in r.err, f"{who}: import of a bare root file system needs --name", r)
    r = c("image", "import", "--name", "base", path)
    tap.like(r.out, r"^base:latest@sha256:[0-9a-f]{64}  .*1 layer\n", f"{who}: import of a bare root file system with --name succeeds", r)
    image = json.loads(c("image", "ls", "--json").out)[0]
    tap.ok(image["name"] == "base:latest" and image["bytes"] > 1000000, f"{who}: image ls --json lists the imported image", image)

    report = place(c, "tmp/report")
    r = run(c, "base", "id -u; id -g; echo $HOME; pwd; echo new > /etc/new; rm /etc/passwd; touch /workspace/x; ls /etc",
            "--report", report)
    tap.eq(r.out, "0\n0\n/root\n/workspace\ngroup\nhostname\nhosts\nnew\nresolv.conf\n", f"{who}: a run can write to the image's root", r)
    with open(report, encoding="utf-8") as f:
        rep = json.load(f)
    os.unlink(report)
    tap.eq((rep["root"], rep["image"], rep["image_digest"]), ("image", "base:latest", image["digest"]),
           f"{who}: the report names image and digest")
    r = run(c, "base", "ls /etc; cat /etc/passwd")
    tap.eq(r.out, "group\nhostname\nhosts\npasswd\nresolv.conf\n" + oci.PASSWD,
           f"{who}: a run does not see what the run before wrote to the root", r)
    events = [json.loads(l) for l in c("audit", "--json").out.splitlines()]
    start = next(e for e in events if e["type"] == "run.start")
    tap.ok(start["image"] == "base:latest" and start["image_digest"] == image["digest"],
           f"{who}: the log names image and digest of a run", start)
    tap.ok([e["type"] for e in events][1:4] == ["image.import", "image.import", "image.imported"],
           f"{who}: the log has the import of an image", [e["type"] for e in events])
    tap.eq(os.listdir(os.path.join(c.state, "runs")), [], f"{who}: no run is left")
    return image["digest"]


def check_view(c, who):
    """Files that are the sandbox's own, whatever the image says; and nothing of the host's."""
    r = run(c, "base", "cat /etc/hosts /etc/hostname; wc -c < /etc/resolv.conf; ls /sys | wc -l; ls /dev; ls -d /usr /lib 2>&1")
    tap.like(r.out, r"^127.0.0.1 localhost coffer\n::1 localhost\ncoffer\n20\n0\n",
             f"{who}: a run of an image has the sandbox's hosts and hostname", r)
    tap.like(r.out, r"\nfd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n",
             f"{who}: a run of an image has the sandbox's /dev", r)
    tap.like(r.out, r"/usr: No such file.*/lib: No such file", f"{who}: a run of an image sees no /usr and /lib of the host", r)
    r = run(c, "base", "for d in / /etc /tmp /var/tmp /workspace /root /dev/shm; do touch $d/t && echo $d; done; "
            "for d in /dev /sys /proc/sys /etc/hosts; do touch $d/t 2>/dev/null && echo BAD $d; done; true")
    tap.eq(r.out.split(), ["/", "/etc", "/tmp", "/var/tmp", "/workspace", "/root", "/dev/shm"],
           f"{who}: a run of an image can write to these directories and no others", r)
    r = run(c, "base", "cat /data/x && test -d /opt/made/for", "-v", f"{c.write('f.txt', 'hello')}:/data/x",
            "-w", "/opt/made/for")
    tap.eq((r.code, r.out), (0, "hello"), f"{who}: the targets of -v and -w are made in an image", r)
    r = c("run", "-q", "--image", "base", "--home", "h", "--", "/bin/sh", "-c", "echo kept >> $HOME/f; cat $HOME/f; pwd")
    r = c("run", "-q", "--image", "base", "--home", "h", "--", "/bin/sh", "-c", "echo kept >> $HOME/f; cat $HOME/f; pwd")
    tap.eq(r.out, "kept\nkept\n/workspace\n", f"{who}: a named home persists with an image", r)
    r = c("run", "base", "sh", "-l")
    tap.ok(r.code == 127 and "coffer run --image base:latest -- sh -l" in r.err, f"{who}: the hint for an image as the command has its command line", r)
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
        tap.ok(r.code == 0 and "3 layers" in r.out, f"{who}: import of an OCI layout with {how} succeeds", r)
        r = run(c, f"layers:{how}", "ls /keep /opaque /again /real; cat /keep/b; ls -d /gone; cat /link/b /deep/er/made; "
                "cat /locked/f; echo x > /keep/a && cat /keep/a; rm -r /opaque && mkdir /opaque && ls /opaque")
        tap.eq(r.out, "/again:\nnew\n\n/keep:\nb\n\n/opaque:\nnew\n\n/real:\ninside\nthrough\nupper bupper bmfx\n",
               f"{who}: layers with {how} hide and replace files of lower ones", r)
        shutil.rmtree(path)
    tap.eq(len(stored(c, "layers")), 9, f"{who}: each layer is stored once for each compression")
    r = c("image", "rm", "layers:gzip", "layers:zstd", "layers:none")
    tap.eq((r.code, len(stored(c, "layers"))), (0, 1), f"{who}: image rm removes the layers of an image", r)
    # More layers than anybody should have, and one more.
    many = [oci.base_layer()] + [oci.layer(oci.entry(f"n{i}", str(i), mode=0o644)) for i in range(126)]
    r = c("image", "import", oci.Layout(many, how="none", ref="many:1").write(place(c, "many")))
    tap.eq(r.code, 0, f"{who}: import of 127 layers succeeds", r)
    r = run(c, "many:1", "cat /n0 /n125; ls / | wc -l")
    tap.eq(r.out, "0125136\n", f"{who}: a run has the files of 127 layers", r)
    r = c("image", "import", oci.Layout(many + [oci.layer()], how="none").write(place(c, "more")))
    tap.ok(r.code == 125 and "at most 127" in r.err, f"{who}: import of 128 layers is refused", r)
    tap.eq(c("image", "rm", "many:1").code, 0, f"{who}: image rm of 127 layers succeeds")


def check_config(c, who):
    conf = {"Env": ["FOO=image", "PATH=/bin:/other"], "Entrypoint": ["/bin/sh", "-c", 'echo "$FOO:$0:$1:$PATH:$(pwd)"'],
            "Cmd": ["zero", "one"], "WorkingDir": "/srv/made", "User": "bob:staff"}
    path = oci.docker_archive(place(c, "docker.tar"), [oci.base_layer()], conf, ["docker.io/library/cfg:2"])
    r = c("image", "import", path)
    tap.like(r.out, r"^cfg:2@sha256:", f"{who}: import of a docker archive takes its name from it", r)
    tap.eq(len(stored(c, "layers")), 2, f"{who}: the layer of a docker archive is stored by its own digest")

    def cfg(*args):
        return c("run", "-q", "--ephemeral", *args)
    r = cfg("--image", "cfg:2")
    tap.eq(r.out, "image:zero:one:/bin:/other:/srv/made\n", f"{who}: the image's entry point, command, variables and directory are used", r)
    r = cfg("-e", "FOO=mine", "-w", "/tmp", "--image", "cfg:2", "--", "other")
    tap.eq(r.out, "mine:other::/bin:/other:/tmp\n", f"{who}: the command line overrides the image's configuration", r)
    r = cfg("--image", "cfg:2", "--entrypoint", "/bin/id")
    tap.like(r.out, r"uid=1000\(bob\) gid=50\(staff\)", f"{who}: the image's user and group are found by name", r)
    r = cfg("--image", "cfg:2", "--entrypoint", "", "--user", "0", "--", "env")
    tap.ok("HOME=/root\n" in r.out and "LANG" not in r.out, f"{who}: --entrypoint '' and --user 0 override the image", r)
    r = cfg("--image", "cfg:2", "--entrypoint", "id", "--user", "1234", "--", "-u")
    tap.eq(r.out, "1234\n", f"{who}: --user takes a number without a name", r)
    for user, why in (("nobodyhere", "no user"), ("bob:nogroup", "no group"), ("broken", "no user"), ("65534", "mapped")):
        r = cfg("--image", "cfg:2", "--user", user)
        tap.ok(r.code == (2 if user == "65534" else 125) and why in r.err, f"{who}: --user {user} is refused", r)
    r = c("image", "import", "--name", "large", write(place(c, "large.tar"), oci.layer(oci.entry("etc/group", "x" * 1100000))))
    r = cfg("--image", "large", "--user", "0:staff", "--", "true")
    tap.ok(r.code == 125 and "cannot read /etc/group" in r.err, f"{who}: --user with a group of a file that cannot be read is refused", r)
    tap.eq(c("image", "rm", "large").code, 0, f"{who}: image rm of it succeeds")
    r = cfg("--image", "base")
    tap.ok(r.code != 0 and "needs a command" in r.err, f"{who}: an image without a command needs one", r)
    for args, why in ((("--image", "cfg:2", "--root", "host"), "exclude each other"), (("--entrypoint", "x", "true"), "needs --image"),
                      (("--image", "no such"), "not the name"), (("--image", "none:1"), "there is no image")):
        r = cfg(*args)
        tap.ok(r.code in (2, 125) and why in r.err, f"{who}: {' '.join(args)} is refused", r)
    tap.eq(c("image", "rm", "cfg:2").code, 0, f"{who}: image rm of a docker archive succeeds")


def check_pinned(c, who, digest):
    bad = "sha256:" + "1" * 64
    tap.eq(run(c, f"base@{digest}", "true").code, 0, f"{who}: an image pinned by digest runs")
    tap.eq(run(c, f"base:latest@{digest}", "true").code, 0, f"{who}: an image pinned by tag and digest runs")
    for ref in (f"base@{bad}", f"base:latest@{bad}"):
        r = run(c, ref, "true")
        tap.ok(r.code == 125 and "pinned" in r.err and digest in r.err, f"{who}: an image pinned by another digest is refused", r)
    lay = oci.Layout([oci.base_layer()], ref="nested:1")
    lay.nested = True
    r = c("image", "import", lay.write(place(c, "nested")))
    tap.eq(r.code, 0, f"{who}: import of an index in an index takes this platform", r)
    for d in (lay.digest, lay.index):
        tap.eq(run(c, f"nested@{d}", "true").code, 0, f"{who}: an image pinned to its manifest or index runs")
    r = c("image", "import", "--name", f"nested:1@{bad}", place(c, "nested"))
    tap.ok(r.code == 125 and bad in r.err, f"{who}: import under a name with another digest is refused", r)
    lay = oci.Layout([oci.base_layer()], oci.config_of([oci.base_layer()], arch="s390x"), ref="other:1")
    r = c("image", "import", lay.write(place(c, "s390x")))
    tap.ok(r.code == 125 and "s390x" in r.err, f"{who}: import of an image for another machine is refused", r)
    tap.eq(c("image", "rm", "nested:1").code, 0, f"{who}: image rm of a nested index succeeds")


def check_wrong(c, who):
    """Blobs that are not what they should be."""
    def refused(name, change, pattern):
        lay = oci.Layout([oci.base_layer(), oci.layer(oci.entry("x", name))], ref=f"wrong:{name}")
        path = place(c, "wrong-" + name)
        change(lay, path)
        before = stored(c, "names")
        r = c("image", "import", path)
        tap.ok(r.code == 125, f"{who}: import with {name} is refused", r)
        tap.like(r.err, pattern, f"{who}: import with {name} says why", r)
        tap.eq((stored(c, "names"), stored(c, "tmp")), (before, []), f"{who}: import with {name} leaves nothing")

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

    refused("other-bytes", other_bytes, "its digest")
    refused("flipped", flipped, "damaged|its digest|checksum|cut off")
    refused("other-diff", other_diff, "its digest")
    refused("no-layer", no_layer, "not complete")
    refused("no-config", no_config, "not complete")
    refused("other-config", other_config, "its digest")
    refused("few-diffs", few_diffs, "2 layers.*names 1")
    refused("link-out", link_out, "not complete")
    for name, data in (("json", b'{"a":' * 3000), ("empty", b""), ("big", b'{"x":"' + b"y" * (5 << 20) + b'"}')):
        path = place(c, "json-" + name)
        oci.Layout([oci.base_layer()]).write(path)
        write(os.path.join(path, "index.json"), data)
        tap.eq(c("image", "import", path).code, 125, f"{who}: import of an index that is {name} is refused")


def check_damaged(c, who):
    """A store that somebody has touched."""
    r = c("image", "import", oci.Layout([oci.layer(oci.entry("hurt", "x")), oci.base_layer()], ref="hurt:1").write(place(c, "hurt")))
    tap.eq(r.code, 0, f"{who}: import of an image to damage succeeds", r)
    image = json.loads(c("image", "inspect", "hurt:1").out)
    hexa = image["manifest"]["layers"][0]["digest"][7:]
    path = os.path.join(c.state, "images/layers", hexa)
    os.rename(path, path + ".away")
    r = run(c, "hurt:1", "true")
    tap.ok(r.code == 125 and "layer" in r.err and "missing" in r.err and "coffer image rm" in r.err,
           f"{who}: an image with a missing layer is refused", r)
    os.rename(path + ".away", path)
    for blob in (image["digest"], image["manifest"]["config"]["digest"]):
        p = os.path.join(c.state, "images/blobs", blob[7:])
        with open(p, "rb") as f:
            data = f.read()
        write(p, data.replace(b"a", b"b", 1))
        r = run(c, "hurt:1", "true")
        tap.ok(r.code == 125 and "damaged" in r.err, f"{who}: an image with a changed blob is refused", r)
        write(p, data)
    tap.eq(run(c, "hurt:1", "true").code, 0, f"{who}: an image that was restored runs")
    name = os.path.join(c.state, "images/names", "0" * 64)
    for data in (b"nonsense", b" " * 70000):
        write(name, data)
        c.own(name)
        r = c("image", "ls", "-q")
        tap.ok(r.code == 125 and name in r.err and "remove that file" in r.err, f"{who}: a damaged record of {len(data)} bytes is named by its file", r)
        tap.eq(r.out, "base:latest\nhurt:1\n", f"{who}: image ls lists the other images", r)
    r = run(c, f"hurt@{image['digest']}", "true")
    tap.eq(r.code, 0, f"{who}: an image is found by its digest beside a damaged record", r)
    for left in ("images/tmp/0123456789ab", "images/layers/" + "0" * 64):
        os.mkdir(os.path.join(c.state, left))
        c.own(os.path.join(c.state, left))
    r = c("image", "rm", "hurt:1")
    os.unlink(name)
    tap.eq((r.code, stored(c, "tmp"), len(stored(c, "layers"))), (0, [], 1), f"{who}: image rm sweeps leftovers of the store beside a damaged record", r)


def check_use(c, who):
    r = c("image", "import", "--name", "busy", oci.Layout([oci.base_layer(), oci.layer(oci.entry("b"))], ref=None).write(place(c, "b")))
    tap.eq(r.code, 0, f"{who}: import of an image to use succeeds", r)
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
        tap.eq(c("pool", "stop").code, 0, f"{who}: pool stop succeeds")
        while os.listdir(os.path.join(c.state, "runs")) and time.monotonic() < deadline:
            time.sleep(0.05)
    r = c("run", "-d", "--name", "web", "--ephemeral", "--image", "busy", "--", "sleep", "1000")
    tap.eq(r.code, 0, f"{who}: a detached sandbox of the image starts", r)
    ps = json.loads(c("ps", "--json").out)[0]
    tap.ok(ps["image"] == "busy:latest" and ps["image_digest"].startswith("sha256:"), f"{who}: ps --json has image and digest", ps)
    tap.like(c("ps", "--no-trunc").out, r"busy:latest@sha256:", f"{who}: ps --no-trunc shows image and digest")
    tap.eq(c("exec", "web", "--", "sh", "-c", "echo mine > /mine; cat /mine").out, "mine\n", f"{who}: exec in a sandbox of an image works")
    for force in ([], ["-f"]):
        r = c("image", "rm", *force, "busy")
        tap.ok(r.code == 125 and "sandbox web" in r.err,
               f"{who}: image rm is refused while a sandbox uses the image, and names the sandbox", r)
    tap.eq(c("stop", "-t", "0", "web").code, 0, f"{who}: stop of a sandbox of an image succeeds")
    deadline = time.monotonic() + 90 * slow_build()
    while json.loads(c("ps", "--json").out) and time.monotonic() < deadline:
        time.sleep(0.05)
    run_dir = os.path.join(c.state, "runs", os.listdir(os.path.join(c.state, "runs"))[0])
    tap.ok(os.path.exists(os.path.join(run_dir, "root-upper/mine")), f"{who}: the root's layer of a named sandbox is kept after its end",
           os.listdir(run_dir))
    r = c("image", "rm", "busy")
    tap.ok(r.code == 125 and "coffer rm web" in r.err, f"{who}: image rm is refused for the image of an ended named sandbox", r)
    tap.eq(c("rm", "web").code, 0, f"{who}: rm of an ended sandbox of an image succeeds")
    tap.eq(os.listdir(os.path.join(c.state, "runs")), [], f"{who}: rm of an ended sandbox leaves no run")
    r = c("image", "rm", "busy")
    tap.eq((r.code, len(stored(c, "layers"))), (0, 1), f"{who}: image rm succeeds once no sandbox needs the image", r)
    r = c("image", "rm", "busy")
    tap.ok(r.code == 125 and c("image", "rm", "-f", "busy").code == 0,
           f"{who}: image rm of an image that does not exist fails without -f", r)


def check_details(c, who):
    """The stream's last chunk, the choice among several images, the name of a directory, and a record that cannot be read."""
    if shutil.which("zstd"):
        # The unpacker decompresses in chunks of 256 KiB; this archive ends with a full one.
        whole = oci.layer(oci.entry("pad", b"pad\n" * ((1 << 20) // 4 - 384)))
        r = c("image", "import", "--name", "even", write(place(c, "even.tar.zst"), oci.compress(whole, "zstd")))
        tap.eq((len(whole) % (256 << 10), r.code), (0, 0), f"{who}: a zstd archive that fills its last chunk is imported", r)
        tap.eq(c("image", "rm", "even").code, 0, f"{who}: image rm of an image from a zstd archive succeeds")

    path = oci.Layout([oci.layer(oci.entry("four", "x"))], ref="4").write(place(c, "several"))
    other = oci.Layout([oci.layer(oci.entry("fourteen", "x"))], ref="14").write(place(c, "several2"))
    shutil.copytree(other + "/blobs", path + "/blobs", dirs_exist_ok=True)
    with open(path + "/index.json", encoding="ascii") as f:
        index = json.load(f)
    with open(other + "/index.json", encoding="ascii") as f:
        index["manifests"] += json.load(f)["manifests"]
    with open(path + "/index.json", "w", encoding="ascii") as f:
        json.dump(index, f)
    for tag, i in (("4", 0), ("14", 1)):
        r = c("image", "import", "--name", "several:" + tag, path)
        tap.ok(r.code == 0 and index["manifests"][i]["digest"] in r.out,
               f"{who}: of several images in a layout the one with the tag {tag} is imported", r)
        tap.eq(c("image", "rm", "several:" + tag).code, 0, f"{who}: image rm of an image from a zstd archive succeeds")

    path = oci.Layout([oci.layer(oci.entry("x", "y"))], ref="7").write(place(c, "called"))
    r = c("image", "import", path + "/")
    tap.like(r.out, "^called:7@", f"{who}: a layout with a bare tag is called like its directory, also with a slash after it", r)
    record = os.path.join(c.state, "images/names", hashlib.sha256(b"called:7").hexdigest())
    os.rename(record, record + ".away")
    os.symlink(record, record)  # ELOOP: an error that does not prove damage
    r = c("image", "import", "--name", "next", write(place(c, "next.tar"), oci.layer(oci.entry("next", "x"))))
    os.rename(record + ".away", record)
    tap.eq((r.code, c("image", "inspect", "called:7").code), (0, 0),
           f"{who}: an import removes no content while a record cannot be read", r)
    for name in ("called:7", "next"):
        tap.eq(c("image", "rm", name).code, 0, f"{who}: {name} is removed")


def check_no_attributes(c, who):
    """A file system that cannot hold layers: ramfs has no extended attributes."""
    if os.getuid() != 0 or who != "root":
        return
    path = write(place(c, "opaque.tar"), oci.layer(oci.directory("d"), oci.entry("d/.wh..wh..opq")))
    script = "mount -t ramfs ramfs %s && %s image import --name opaque %s" % (c.tmp, c.exe, path)
    r = subprocess.run(["unshare", "-m", "sh", "-c", script], env=c.env({"COFFER_STATE": c.tmp}), stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, check=False)
    tap.ok(r.returncode == 125 and "COFFER_STATE" in r.stdout, f"{who}: the unpacker's error comes with its hint", r)


def check_together(c, who):
    """Two who bring in the same image, and one who dies in the middle."""
    path = oci.Layout([oci.base_layer(), oci.layer(*[oci.entry(f"f{i}", "x" * 100) for i in range(2000)])],
                      ref="twice:1").write(place(c, "twice"))
    both = [c.popen("image", "import", path) for _ in range(4)]
    said = [p.communicate() for p in both]
    tap.eq([p.returncode for p in both], [0] * 4, f"{who}: four imports of one image at once succeed", *said)
    tap.eq(run(c, "twice:1", "ls / | wc -l").out.strip(), "2010", f"{who}: an image that was imported four times at once is whole")
    tap.eq((stored(c, "tmp"), c("image", "rm", "twice:1").code), ([], 0), f"{who}: four imports at once leave nothing in tmp")

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
    tap.ok(len(busy) == 1, f"{who}: an import was at work when it was killed", busy)
    tap.eq(len(stored(c, "layers")), 1, f"{who}: an import that was killed leaves no layer")
    tap.ok("half" not in c("image", "ls").out, f"{who}: an import that was killed leaves no image")
    r = c("image", "import", "--name", "half", write(place(c, "half.tar"), archive))
    tap.eq((r.code, stored(c, "tmp")), (0, []), f"{who}: an import sweeps leftovers of one that was killed, and succeeds", r)
    tap.eq(c("image", "rm", "half").code, 0, f"{who}: image rm after the killed import succeeds")


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
    tap.eq(out.count("code 125"), 2, f"{who}: import without disk space is refused", out)
    tap.like(out, r"room|No space", f"{who}: import without disk space names the reason", out)
    tap.like(out, r"layers:\n\n.*names:\n\n.*tmp:\n$", f"{who}: import without disk space leaves nothing", out)
    # With a cap that the disk does not know: files that grow beyond what is free.
    script = script.replace("-o size=16m", "-o size=16m,nr_inodes=40")
    many = write(place(c, "inodes.tar"), oci.layer(*[oci.entry(f"f{i}") for i in range(200)]))
    out = subprocess.run(["unshare", "-m", "sh", "-c", script.replace(data, many)], env=c.env({"COFFER_STATE": c.tmp}),
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout
    tap.eq(out.count("code 125"), 2, f"{who}: import without inodes is refused", out)
    tap.like(out, r"layers:\n\n.*names:\n\n.*tmp:\n$", f"{who}: import without inodes leaves nothing", out)


def check_dir(c, who):
    """--root DIR."""
    root = place(c, "rootdir")
    os.mkdir(root)
    subprocess.run(["tar", "-xf", place(c, "half.tar"), "-C", root], check=True)
    if os.getuid() == 0:
        subprocess.run(["chown", "-R", f"{c.uid}:{c.uid}", root], check=True)
    before = sorted(os.listdir(root)), os.listdir(root + "/etc")
    r = c("run", "-q", "--root", root, "--", "/bin/sh", "-c", "echo new > /etc/new; rm -r /home; ls / /etc; echo $HOME; id -u")
    tap.ok(r.code == 0 and "new" in r.out and "home" not in r.out.split(), f"{who}: a run can write to --root DIR", r)
    tap.eq((sorted(os.listdir(root)), os.listdir(root + "/etc")), before, f"{who}: a run does not change the directory of --root DIR")
    for bad in ("/", c.state, os.path.join(c.state, "runs"), "/nonexistent", "/proc"):
        r = c("run", "--root", bad, "--", "true")
        tap.eq(r.code, 125, f"{who}: --root {bad if len(bad) < 13 else 'of the state'} is refused", r)
    r = c("run", "-q", "--root", "host", "--", "true")
    tap.eq(r.code, 0, f"{who}: --root host works", r)
    for what in ("proc", "tmp", "workspace", "dev"):
        path = os.path.join(root, what)
        if os.path.isdir(path):
            os.rmdir(path)
        os.symlink(c.work, path)
        r = c("run", "-q", "--root", root, "--", "/bin/true")
        tap.ok(r.code == 125 and "link" in r.err, f"{who}: --root DIR with a link at /{what} is refused", r)
        os.unlink(path)
    os.rename(root + "/etc", root + "/etc2")
    os.symlink("/etc2", root + "/etc")
    r = c("run", "-q", "--root", root, "--", "/bin/sh", "-c", "cat /etc/hostname; ls -l /etc")
    tap.ok(r.code == 0 and r.out.startswith("coffer\n"), f"{who}: a link at /etc is followed inside", r)


def check_tools(c, who):
    """Images as skopeo and umoci make them, and a real docker archive."""
    lay = oci.Layout([oci.base_layer()], {"Cmd": ["/bin/cat", "/etc/made-by"]}, ref="1").write(place(c, "tools"))
    archive = place(c, "skopeo.tar")
    env = dict(os.environ, HOME=c.tmp, TMPDIR=c.tmp)
    note = write(place(c, "note"), b"umoci\n")
    done = subprocess.run(f"umoci insert --image {lay}:1 --tag 2 {note} /etc/made-by && skopeo copy --quiet "
                          f"--insecure-policy oci:{lay}:2 docker-archive:{archive}:made/by:tools && chmod -R a+rX {lay} {archive}", shell=True, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if not tap.eq(done.returncode, 0, f"{who}: umoci and skopeo make the images", done.stdout):
        return
    r = c("image", "import", archive)
    tap.like(r.out, r"^made/by:tools@.*2 layers", f"{who}: import of a docker archive from skopeo succeeds", r)
    tap.eq(c("run", "-q", "--ephemeral", "--image", "made/by:tools").out, "umoci\n", f"{who}: an image from skopeo runs")
    r = c("image", "import", "--name", "umoci:2", lay)
    tap.eq(r.code, 0, f"{who}: import of a layout from umoci by its tag succeeds", r)
    tap.eq(c("run", "-q", "--ephemeral", "--image", "umoci:2").out, "umoci\n", f"{who}: an image from umoci runs")
    for name in os.listdir(c.tmp):
        subprocess.run(["rm", "-rf", os.path.join(c.tmp, name)], check=False)
    if who != "userns":  # where unshare(1) is looked for on the same path
        r = c("image", "pull", "whatever", env={"PATH": c.bin})
        tap.ok(r.code == 125 and "skopeo is not installed" in r.err, f"{who}: image pull without skopeo is refused", r)
    r = c("image", "rm", "made/by:tools", "umoci:2")
    tap.eq(r.code, 0, f"{who}: image rm of two images succeeds", r)


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
        tap.ok(r.code == 125 and "skopeo" in r.err, f"{who}: image pull without TLS is refused without --insecure", r)
        r = c("image", "pull", "--insecure", repo + ":7", env=env)
        tap.like(r.out, rf"^{repo}:7@{lay.digest}", f"{who}: image pull --insecure from a registry succeeds", r)
        tap.eq(c("run", "-q", "--ephemeral", "--image", repo + ":7").out, "0\n", f"{who}: an image from a registry runs")
        r = c("image", "pull", "--insecure", f"{repo}@{lay.digest}", env=env)
        tap.eq(r.code, 0, f"{who}: image pull by digest succeeds", r)
        r = c("image", "pull", "--insecure", f"{repo}@sha256:{'3' * 64}", env=env)
        tap.eq(r.code, 125, f"{who}: image pull by a digest that does not exist fails", r)
        tap.eq(stored(c, "tmp"), [], f"{who}: image pull leaves nothing in tmp")
        for image in json.loads(c("image", "ls", "--json").out):
            if image["name"].startswith("127."):
                c("image", "rm", image["name"])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def check_refused_options(c, who):
    for args in (("import", "--insecure"), ("pull", "--max-size", "1g"), ("pull", "--max-entries", "5"), ("inspect", "--force"), ("rm", "--json")):
        r = c("image", *args, "x")
        tap.ok(r.code == 2 and "only valid with" in r.err, f"{who}: image {' '.join(args)} is a wrong command line", r)
    r = c("image", "pull", "whatever", env={"COFFER_STATE": c.state + "/a:b"})
    tap.ok(r.code == 125 and "colon" in r.err and "COFFER_STATE" in r.err, f"{who}: image pull to a state whose path has a colon is refused", r)
    shutil.rmtree(c.state + "/a:b", ignore_errors=True)


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
        check_details(c, who)
        check_no_attributes(c, who)
        check_together(c, who)
        check_full(c, who)
        check_dir(c, who)
        check_tools(c, who)
        check_refused_options(c, who)
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
