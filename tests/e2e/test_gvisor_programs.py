#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1200
"""Real programs in gVisor, from the distribution's packages, doing real work: servers on the sandbox's own loopback with
a client beside them, a browser that draws, compilers, git, python, node. The root is the host's /usr, as `coffer run` has
it without asking."""

import glob
import os
import shutil
import struct
import subprocess
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import RUNSC, Coffer, Tap  # noqa: E402

tap = Tap()
# Debian's /usr/bin/chromium is a script that wants /etc/chromium.d, which is the host's business.
CHROMIUM = next((p for p in ("/usr/lib/chromium/chromium", "/usr/lib64/chromium-browser/chromium-browser")
                 if os.path.exists(p)), None)


def sh(c, script, *options, timeout=300):
    return c("run", "-q", *options, "--", "sh", "-c", "set -e\n" + script, timeout=timeout)


def postgresql(c):
    dirs = sorted(glob.glob("/usr/lib/postgresql/*/bin")) + (["/usr/bin"] if os.path.exists("/usr/bin/initdb") else [])
    if not dirs:
        tap.skip("postgresql", "it is not installed")
        return
    r = sh(c, f"""
        PATH=$PATH:{dirs[-1]}
        initdb -D /tmp/pg -A trust > /tmp/log 2>&1 || cat /tmp/log
        pg_ctl -D /tmp/pg -w -l /tmp/log -o '-c unix_socket_directories=/tmp -c listen_addresses=127.0.0.1' start
        q='psql -v ON_ERROR_STOP=1 -h 127.0.0.1 -d postgres -At'
        $q -c "create table t as select g, md5(g::text) m from generate_series(1, 20000) g" -c "create index on t (m)"
        $q -c "begin" -c "delete from t where g > 100" -c "rollback"
        echo "FOUND $($q -c "select g from t where m = md5('4242')") OF $($q -c 'select count(*) from t')"
        pg_ctl -D /tmp/pg -w -m fast stop
        pg_ctl -D /tmp/pg -w -l /tmp/log -o '-c unix_socket_directories=/tmp -c listen_addresses=127.0.0.1' start
        echo "AGAIN $($q -c 'select sum(g) from t')"
        pg_ctl -D /tmp/pg -w -m fast stop""", "--user", "1000:1000")
    tap.ok(r.code == 0 and "FOUND 4242 OF 20000" in r.out and "AGAIN 200010000" in r.out,
           "PostgreSQL serves, keeps its transactions and its data over a restart", r)


def redis(c):
    if not shutil.which("redis-server"):
        tap.skip("redis", "it is not installed")
        return
    r = sh(c, """
        redis-server --port 7777 --bind 127.0.0.1 --daemonize yes --dir /tmp --appendonly yes > /dev/null
        until redis-cli -p 7777 ping > /dev/null 2>&1; do sleep 0.1; done
        for i in $(seq 200); do echo "incrby n $i"; done | redis-cli -p 7777 --pipe
        redis-cli -p 7777 eval "redis.call('zadd', 's', 3, 'c', 1, 'a', 2, 'b') return redis.call('zrange', 's', 0, -1)" 0
        echo "SUM $(redis-cli -p 7777 get n)"
        redis-cli -p 7777 bgrewriteaof
        redis-cli -p 7777 shutdown save""")
    tap.ok(r.code == 0 and "SUM 20100" in r.out and "a\nb\nc" in r.out, "Redis serves, runs a script and forks to save", r)


def pixels(path):
    """(width, height, a function from x, y to its colour) of an 8-bit PNG without interlacing."""
    with open(path, "rb") as f:
        data = f.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, body = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        chunk = data[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", chunk)
        body += chunk if kind == b"IDAT" else b""
        at += 12 + size
    assert depth == 8 and colour in (2, 6) and not interlace
    each, raw, rows = 3 if colour == 2 else 4, zlib.decompress(body), []
    stride = width * each
    for y in range(height):
        kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        above = rows[-1] if rows else bytearray(stride)
        for i in range(stride):
            a, b, d = (line[i - each] if i >= each else 0), above[i], (above[i - each] if i >= each else 0)
            p = a + b - d
            paeth = a if abs(p - a) <= abs(p - b) and abs(p - a) <= abs(p - d) else b if abs(p - b) <= abs(p - d) else d
            line[i] = (line[i] + (0, a, b, (a + b) // 2, paeth)[kind]) & 255
        rows.append(line)
    return width, height, lambda x, y: tuple(rows[y][x * each:x * each + 3])


def chromium(c):
    if not CHROMIUM:
        tap.skip("chromium", "it is not installed")
        return
    c.write("page.html", "<body style='margin:0;background:#f00'><script>document.write(\"<div style='width:400px;"
                         "height:300px;background:#00f'></div>\")</script></body>")
    r = c("run", "-q", "--", CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
          "--hide-scrollbars", "--window-size=400,600", "--screenshot=/workspace/shot.png", "file:///workspace/page.html",
          timeout=300)
    c("apply", "@last")
    shot = os.path.join(c.work, "shot.png")
    if tap.ok(r.code == 0 and os.path.exists(shot), "Chromium takes a screenshot", r):
        width, height, at = pixels(shot)
        tap.eq((width, height, at(200, 100), at(200, 500)), (400, 600, (0, 0, 255), (255, 0, 0)),
               "Chromium's screenshot has the right size and what the script drew")


def development(c):
    subprocess.run(["git", "init", "-q", "--bare", os.path.join(c.dir, "origin.git")], check=True)
    subprocess.run(["chmod", "-R", "a+rX", os.path.join(c.dir, "origin.git")], check=True)
    r = sh(c, """
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        git config --global safe.directory '*'
        git clone -q /origin.git repo 2>/dev/null; cd repo
        printf '#include <math.h>\\n#include <stdio.h>\\nint twice(int);\\nint main(void) { printf("%%d %%.0f\\\\n", twice(21), sqrt(81)); }\\n' > main.c
        echo 'int twice(int x) { return 2 * x; }' > twice.c
        printf 'prog: main.o twice.o\\n\\t$(CC) -o $@ $^ -lm\\n' > Makefile
        make -s CC=gcc; ./prog
        git add -A; git commit -qm first; git checkout -qb side; echo >> main.c; git commit -qam second
        git checkout -q -; git merge -q side; git log --oneline | wc -l; git fsck --no-progress; git gc -q
        git status --porcelain | wc -l""", "-v", os.path.join(c.dir, "origin.git") + ":/origin.git")
    tap.eq((r.code, r.out), (0, "42 9\n2\n0\n"), "git clones, commits, merges and checks; make and gcc build", r)
    r = c("run", "-q", "--", "python3", "-c",
          "import asyncio, multiprocessing, sqlite3, threading, ssl\n"
          "async def main():\n"
          "    s = await asyncio.start_server(lambda r, w: (w.write(b'hello'), w.close()), '127.0.0.1', 8000)\n"
          "    r, w = await asyncio.open_connection('127.0.0.1', 8000)\n"
          "    print((await r.read()).decode())\n"
          "asyncio.run(main())\n"
          "d = sqlite3.connect('/workspace/x.db'); d.execute('create table t (a)')\n"
          "d.executemany('insert into t values (?)', [(i,) for i in range(1000)]); d.commit()\n"
          "print(d.execute('select sum(a) from t').fetchone()[0])\n"
          "with multiprocessing.Pool(2) as p: print(sum(p.map(abs, range(-10, 0))))\n")
    tap.eq((r.code, r.out), (0, "hello\n499500\n55\n"), "python runs sockets, SQLite and processes", r)
    if not shutil.which("node"):
        tap.skip("node", "it is not installed")
        return
    r = c("run", "-q", "--", "node", "-e",
          "const {Worker} = require('worker_threads'), http = require('http');"
          "http.createServer((q, a) => a.end('node ' + q.url)).listen(8001, '127.0.0.1', function () {"
          " http.get('http://127.0.0.1:8001/x', r => r.on('data', d => { console.log(String(d)); this.close();"
          " new Worker(\"console.log(6 * 7)\", {eval: true}); })); });")
    tap.eq((r.code, r.out), (0, "node /x\n42\n"), "node runs a server, a client and a worker", r)


def main():
    if not RUNSC:
        tap.skip("engine gvisor", "runsc is not installed: tools/deps runsc")
        tap.done()
    with Coffer(engine="gvisor") as c:
        for program in (postgresql, redis, chromium, development):
            program(c)
            c("rm", "--all-ended")
        c.check_clean(tap)
    tap.done()


main()
