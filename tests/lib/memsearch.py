# SPDX-License-Identifier: Apache-2.0
"""Looking for a secret: the encodings that it may have, and the memory of a process. Needs root for other processes' memory."""

import base64
import contextlib
import json
import os
import re
import urllib.parse

PAGE = os.sysconf("SC_PAGE_SIZE")
PIECE = 256  # pages
HUGE = 1 << 36  # a sanitizer's shadow


def forms(secret):
    """Every encoding that answers are searched for, by another hand."""
    raw = secret.encode()
    out = {raw, raw.hex().encode(), raw.hex().upper().encode(), urllib.parse.quote(secret, safe="").encode(),
           json.dumps(secret)[1:-1].encode()}
    for i in range(3):
        for enc in (base64.b64encode, base64.urlsafe_b64encode):
            text = enc(b"." * i + raw + b"." * ((-i - len(raw)) % 3))
            out.add(text[(0, 2, 3)[i]:-4 if (i + len(raw)) % 3 else None])
    return out


def has_any(data, *secrets):
    return [f for s in secrets for f in forms(s) if f in data]


def memory(pid):
    """The memory of a process, by pages that are there, in pieces that overlap."""
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/pagemap", "rb", 0) as there, \
            open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for text in maps:
            m = re.match(r"([0-9a-f]+)-([0-9a-f]+) r", text)
            at, end, tail = (int(m[1], 16), int(m[2], 16), b"") if m else (0, 0, b"")
            if not m or "[v" in text or end - at > HUGE:
                continue
            while at < end:
                n = min(PIECE, (end - at) // PAGE)
                there.seek(at // PAGE * 8)
                entries = there.read(n * 8)
                if any(entries[i + 7] & 0xc0 for i in range(0, len(entries), 8)):
                    try:
                        mem.seek(at)
                        data = mem.read(n * PAGE)
                    except (OSError, ValueError, OverflowError):
                        data = b""
                    yield tail + data
                    tail = data[-512:]
                else:
                    tail = b""
                at += n * PAGE


def search(pid, *secrets):
    """Which of these are in its memory, in whatever encoding. One that has ended has none."""
    found = set()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for data in memory(pid):
            found.update(s for s in secrets if s not in found and has_any(data, s))
    return found
