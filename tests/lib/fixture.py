# SPDX-License-Identifier: Apache-2.0
"""The state of an earlier release: where it lies, how it is packed, how it is unpacked for an identity (tests/fixtures/README.md).

A state names its workspace by an absolute path, also in the audit log, whose lines are chained by hashes and cannot be edited. So a
fixture is made and opened at one fixed path, PLACE: a bind mount that only this process and its children see.

    with place(who) as c:               # a Coffer whose state, home and workspace are below PLACE
        unpack(archive, c)
"""

import contextlib
import ctypes
import glob
import io
import json
import lzma
import os
import stat
import subprocess
import tarfile
import tempfile

from coffertest import TESTS, Coffer

PLACE = "/mnt"
FIXTURES = os.path.join(TESTS, "fixtures")
PRESENT = "present"  # the revision of a fixture that is made of the programs under test
PARTS = ("state", "home", "work")
XATTR = "SCHILY.xattr."
MS_BIND, MNT_DETACH = 4096, 2


def releases(where=FIXTURES):
    """[(revision, what its JSON says)] of every fixture, oldest first."""
    got = []
    for path in glob.glob(os.path.join(where, "state-*.json")):
        with open(path, encoding="utf-8") as f:
            about = json.load(f)
        got.append((about["revision"], about))
    return sorted(got, key=lambda x: x[1]["order"])


def archive_of(revision, who, where=FIXTURES):
    """The archive that root or an ordinary user made."""
    return os.path.join(where, f"state-{revision}-{'root' if who == 'root' else 'user'}.tar.xz")


def can_place():
    """A mount of our own needs root, and the private mount namespace that coffertest has made then."""
    return os.getuid() == 0 and os.path.isdir(PLACE)


@contextlib.contextmanager
def place(who, coffer=Coffer):
    """A Coffer of the identity with everything at PLACE, which is empty at first and gone afterwards."""
    libc = ctypes.CDLL(None, use_errno=True)
    with tempfile.TemporaryDirectory(prefix="coffertest-") as real:
        os.chmod(real, 0o755)
        if libc.mount(real.encode(), PLACE.encode(), None, MS_BIND, None):
            raise OSError(ctypes.get_errno(), f"a bind mount on {PLACE}")
        try:
            with coffer(who) as c:
                c.state, c.home, c.work = (os.path.join(PLACE, p) for p in PARTS)
                c.own(PLACE)
                yield c
        finally:
            subprocess.run(["rm", "-rf", "--one-file-system", *(os.path.join(real, p) for p in PARTS)], check=False)
            libc.umount2(PLACE.encode(), MNT_DETACH)


def make_places(c):
    for path in (c.home, c.work):
        os.mkdir(path, 0o755)
        c.own(path)


def _one(top, path, c):
    """The tar header of a file: of the identity's own files the owner is 0, and becomes whoever unpacks it."""
    st = os.lstat(path)
    t = tarfile.TarInfo(os.path.relpath(path, top))
    t.mode, t.mtime = stat.S_IMODE(st.st_mode), int(st.st_mtime)
    t.uid, t.gid = (0 if st.st_uid == c.uid else st.st_uid), (0 if st.st_gid == c.gid else st.st_gid)
    kinds = ((stat.S_ISREG, tarfile.REGTYPE), (stat.S_ISDIR, tarfile.DIRTYPE), (stat.S_ISLNK, tarfile.SYMTYPE),
             (stat.S_ISCHR, tarfile.CHRTYPE), (stat.S_ISFIFO, tarfile.FIFOTYPE))
    kind = [k for test, k in kinds if test(st.st_mode)]
    if not kind:  # a socket: nobody serves it any more
        return None
    t.type = kind[0]
    if t.isreg():
        t.size = st.st_size
    if t.issym():
        t.linkname = os.readlink(path)
    if t.ischr():
        t.devmajor, t.devminor = os.major(st.st_rdev), os.minor(st.st_rdev)
    if t.isreg() or t.isdir():
        t.pax_headers = {XATTR + n: os.getxattr(path, n).decode("latin-1") for n in sorted(os.listxattr(path))}
    return t


def pack(c, to):
    """Packs PLACE: the same tree gives the same bytes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for part in PARTS:
            for base, dirs, files in os.walk(os.path.join(PLACE, part)):
                dirs.sort()
                for path in [base, *(os.path.join(base, d) for d in dirs if os.path.islink(os.path.join(base, d))),
                             *(os.path.join(base, f) for f in sorted(files))]:
                    t = _one(PLACE, path, c)
                    if t and t.isreg():
                        with open(path, "rb") as f:
                            tar.addfile(t, f)
                    elif t:
                        tar.addfile(t)
    with open(to, "wb") as f:
        f.write(lzma.compress(out.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def unpack(archive, c):
    """Unpacks into PLACE what pack() has packed; the owner 0 becomes the identity."""
    late = []
    with lzma.open(archive) as raw, tarfile.open(fileobj=io.BytesIO(raw.read())) as tar:
        for t in tar:
            path = os.path.join(PLACE, t.name)
            if t.isdir():
                os.mkdir(path)
            elif t.issym():
                os.symlink(t.linkname, path)
            elif t.ischr():
                os.mknod(path, stat.S_IFCHR | t.mode, os.makedev(t.devmajor, t.devminor))
            elif t.isfifo():
                os.mkfifo(path)
            else:
                with open(path, "xb") as f:
                    f.write(tar.extractfile(t).read())
            os.lchown(path, t.uid or c.uid, t.gid or c.gid)
            for name, value in t.pax_headers.items():
                if name.startswith(XATTR):
                    os.setxattr(path, name[len(XATTR):], value.encode("latin-1"))
            if not t.issym():
                late.append((path, t.mode, t.mtime))
    for path, mode, mtime in reversed(late):
        os.chmod(path, mode)
        os.utime(path, (mtime, mtime))
