# SPDX-License-Identifier: Apache-2.0
"""Images made by hand: layers as tar archives, OCI layouts, docker archives. Also such as no tool would make."""

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile

from coffertest import ROOT

BUSYBOX = next((p for p in ("/bin/busybox", "/usr/bin/busybox", "/sbin/busybox") if os.path.exists(p)), None)
APPLETS = "sh ls cat id stat touch rm mkdir ln env pwd sleep head wc mknod chmod find dd true test".split()
PASSWD = "root:x:0:0:root:/root:/bin/sh\nbob:x:1000:1001:Bob:/home/bob:/bin/sh\nbroken:x:y\n"
GROUP = "root:x:0:\nstaff:x:50:bob\n"


def entry(name, data=b"", kind=tarfile.REGTYPE, link="", mode=0o755, uid=0, gid=0, **more):
    """One entry of a layer: (TarInfo, bytes)."""
    t = tarfile.TarInfo(name)
    data = data.encode() if isinstance(data, str) else data
    t.type, t.linkname, t.mode, t.uid, t.gid, t.size, t.mtime = kind, link, mode, uid, gid, len(data), 1700000000
    for k, v in more.items():
        setattr(t, k, v)
    return t, data


def directory(name, mode=0o755, **more):
    return entry(name, kind=tarfile.DIRTYPE, mode=mode, **more)


def symlink(name, to):
    return entry(name, kind=tarfile.SYMTYPE, link=to, mode=0o777)


def hardlink(name, to):
    return entry(name, kind=tarfile.LNKTYPE, link=to)


def device(name, major, minor, kind=tarfile.CHRTYPE):
    return entry(name, kind=kind, devmajor=major, devminor=minor, mode=0o666)


def layer(*entries, fmt=tarfile.PAX_FORMAT):
    """A tar archive as bytes. Names that tarfile would tidy up (they begin with a slash) stay as it is."""
    out = io.BytesIO()
    for t, data in entries:
        head = t.tobuf(fmt, "utf-8", "surrogateescape")
        out.write(head + data + b"\0" * (-len(data) % 512))
    return out.getvalue() + b"\0" * 1024


def base_entries():
    with open(BUSYBOX, "rb") as f:
        box = f.read()
    out = [directory("./"), directory("bin"), directory("etc"), directory("root", 0o700), directory("tmp", 0o1777),
           directory("home"), directory("home/bob", uid=1000, gid=1001), directory("var"), directory("var/tmp", 0o1777),
           entry("bin/busybox", box), entry("etc/passwd", PASSWD, mode=0o644), entry("etc/group", GROUP, mode=0o644)]
    return out + [hardlink(f"bin/{a}", "bin/busybox") for a in APPLETS]


_base = []


def base_layer():
    """A root file system with a shell and two users."""
    if not _base:
        _base.append(layer(*base_entries()))
    return _base[0]


def static_init(c):
    """A root that is an image's has no libraries for a sanitizer's coffer-init: then the ordinary build's is taken. False
    when there is none."""
    def is_static(path):
        with open(path, "rb") as f:
            return b"ld-linux" not in f.read()
    own, other = os.path.join(c.bin, "coffer-init"), os.path.join(ROOT, "build/coffer-init")
    if is_static(own):
        return True
    if not os.path.exists(other) or not is_static(other):
        return False
    shutil.copy(other, own)
    return True


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def compress(data, how):
    if how == "gzip":
        return gzip.compress(data, 1, mtime=0)
    if how == "zstd":
        return subprocess.run(["zstd", "-q", "-1"], input=data, stdout=subprocess.PIPE, check=True).stdout
    return data


def config_of(layers, config=None, arch="amd64"):
    return {"architecture": os.uname().machine.replace("x86_64", "amd64").replace("aarch64", "arm64")
            if arch == "amd64" else arch, "os": "linux", "config": config or {},
            "rootfs": {"type": "layers", "diff_ids": [digest(l) for l in layers]}}


class Layout:
    """An OCI layout in a directory; parts of it may be changed before write()."""

    def __init__(self, layers, config=None, how="gzip", ref="test:1"):
        self.blobs = [compress(l, how) for l in layers]
        self.config = config if config and "rootfs" in config else config_of(layers, config)
        self.ref = ref
        self.nested = False

    def write(self, path):
        os.makedirs(os.path.join(path, "blobs/sha256"))
        config = self.put(path, json.dumps(self.config).encode())
        manifest = {"schemaVersion": 2, "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **config},
                    "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", **self.put(path, b)}
                               for b in self.blobs]}
        top = {"mediaType": "application/vnd.oci.image.manifest.v1+json", **self.put(path, json.dumps(manifest).encode())}
        self.digest = top["digest"]
        if self.nested:
            own = dict(top, platform={"os": "linux", "architecture": self.config["architecture"]})
            other = dict(top, digest="sha256:" + "0" * 64, platform={"os": "linux", "architecture": "s390x"})
            index = json.dumps({"schemaVersion": 2, "manifests": [other, own]}).encode()
            top = {"mediaType": "application/vnd.oci.image.index.v1+json", **self.put(path, index)}
            self.index = top["digest"]
        if self.ref:
            top["annotations"] = {"org.opencontainers.image.ref.name": self.ref}
        with open(os.path.join(path, "index.json"), "w", encoding="ascii") as f:
            json.dump({"schemaVersion": 2, "manifests": [top]}, f)
        with open(os.path.join(path, "oci-layout"), "w", encoding="ascii") as f:
            f.write('{"imageLayoutVersion":"1.0.0"}')
        return path

    @staticmethod
    def put(path, data):
        with open(os.path.join(path, "blobs/sha256", digest(data)[7:]), "wb") as f:
            f.write(data)
        return {"digest": digest(data), "size": len(data)}


def docker_archive(path, layers, config=None, tags=("test:1",)):
    """An archive as `docker save` writes it."""
    conf = json.dumps(config_of(layers, config)).encode()
    parts = [entry(f"{i}/layer.tar", l, mode=0o644) for i, l in enumerate(layers)]
    name = digest(conf)[7:] + ".json"
    manifest = [{"Config": name, "RepoTags": list(tags), "Layers": [f"{i}/layer.tar" for i in range(len(layers))]}]
    with open(path, "wb") as f:
        f.write(layer(*parts, entry(name, conf, mode=0o644), entry("manifest.json", json.dumps(manifest), mode=0o644)))
    return path
