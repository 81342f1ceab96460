# SPDX-License-Identifier: Apache-2.0
"""A tree of files as everything about it that a checkpoint must bring back."""

import hashlib
import os
import stat


def dump(top):
    """{path: everything that must be the same} of a tree on the host."""
    seen, inodes = {}, {}

    def one(path, rel):
        st = os.lstat(path)
        what = [stat.S_IFMT(st.st_mode), stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid, st.st_mtime_ns]
        if stat.S_ISREG(st.st_mode):
            inodes.setdefault(st.st_ino, len(inodes))
            what += [st.st_size, st.st_nlink > 1 and inodes[st.st_ino], st.st_blocks * 512 <= st.st_size + 65536]
            h = hashlib.sha256()
            if st.st_size < 1 << 28:
                with open(path, "rb") as f:
                    h.update(f.read())
            else:
                with open(path, "rb") as f:
                    f.seek(st.st_size // 2 - 4096)
                    h.update(f.read(8192))
            what.append(h.hexdigest())
        if stat.S_ISLNK(st.st_mode):
            what.append(os.readlink(path))
        if stat.S_ISREG(st.st_mode) or stat.S_ISDIR(st.st_mode):
            what.append(sorted((k, os.getxattr(path, k)) for k in os.listxattr(path)))
        seen[rel] = what

    top = os.fsencode(top)
    one(top, b"")
    for base, dirs, files in os.walk(top):
        dirs.sort()  # files are numbered in the order of the walk, and a tmpfs lists the newest directory first
        for n in sorted(dirs + files):
            p = os.path.join(base, n)
            one(p, os.path.relpath(p, top))
    return seen


def differences(a, b):
    return [f"{k!r}: {a.get(k)} {b.get(k)}" for k in sorted(set(a) | set(b)) if a.get(k) != b.get(k)][:20]
