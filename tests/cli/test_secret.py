#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1800
"""The vault by its verbs, as every identity: what goes in, what is shown, what is refused, and that no value is anywhere but in
coffer-vault."""

import base64
import json
import os
import pty
import random
import re
import signal
import subprocess
import sys
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Tap, coffer_as, descendants, identities, sanitized, slow_build  # noqa: E402

tap = Tap()
TOKEN = "ghp_1a2B3c4D5e6F7g8H9i0J1k2L3m4N5o6P7q8R"
VALUES = {"github": TOKEN, "filed": "value-out-of-a-file/with+signs", "made": "what a command has printed",
          "typed": "typed-on-a-terminal-" + "x7Q" * 1400}


def wait_for(what, patience=90.0):
    """The result once it is true; the last result otherwise."""
    end = time.monotonic() + patience * slow_build()
    while True:
        got = what()
        if got or time.monotonic() > end:
            return got
        time.sleep(0.02)


def listed(c):
    return {s["name"]: s for s in json.loads(c("secret", "ls", "--json").out)}


def everything(top):
    """(path, bytes) of every file below."""
    for base, _, files in os.walk(top):
        for name in files:
            path = os.path.join(base, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as f:
                    yield path, f.read()


def forms(value):
    raw = value.encode()
    return {"raw": raw, "hex": raw.hex().encode(), "HEX": raw.hex().upper().encode(),
            "base64": base64.b64encode(raw)[:-4], "base64+1": base64.b64encode(b"x" + raw)[4:-4],
            "base64+2": base64.b64encode(b"xx" + raw)[4:-4]}


def find_values(data, values):
    return [f"{name} as {form}" for name, v in values.items() for form, b in forms(v).items() if b in data]


class OnTerminal:
    """coffer with a terminal of its own to type on."""

    def __init__(self, c, *args):
        self.master, slave = pty.openpty()
        self.seen = b""

        def become():
            os.setsid()
            os.close(os.open(os.ttyname(slave), os.O_RDWR))  # becomes the controlling terminal
            c.become()
        if os.getuid() == 0:
            os.chown(os.ttyname(slave), c.uid, c.gid)
        self.slave = slave
        self.p = subprocess.Popen(c.argv(*args), env=c.env(), cwd=c.work, stdin=slave, stdout=slave, stderr=slave,
                                  preexec_fn=become)
        os.set_blocking(self.master, False)

    def read(self):
        try:
            while True:
                got = os.read(self.master, 65536)
                if not got:
                    break
                self.seen += got
        except OSError:
            pass
        return self.seen

    def shows(self, text):
        return wait_for(lambda: text in self.read())

    def echoes(self):
        return bool(termios.tcgetattr(self.slave)[3] & termios.ECHO)

    def type(self, data):
        # In pieces, for a terminal's queue is small.
        while data:
            try:
                n = os.write(self.master, data[:256])
            except BlockingIOError:
                n = 0
                time.sleep(0.01)
            data = data[n:]

    def end(self):
        code = self.p.wait(timeout=180 * slow_build())
        self.read()
        return code

    def close(self):
        if self.p.poll() is None:
            self.p.kill()
            self.p.wait()
        os.close(self.master)
        os.close(self.slave)


def vault_of(pid):
    """The pid of the coffer-vault below a process."""
    for kid, name in descendants(pid):
        if name.endswith("coffer-vault"):
            return kid
    return None


def check_set(c, who):
    r = c("secret", "ls")
    tap.ok(r.code == 0 and r.out.startswith("NAME"), f"{who}: secret ls without a vault prints the heading", r)
    r = c("secret", "rm", "nothing")
    tap.ok(r.code == 125 and "no vault" in r.err, f"{who}: secret rm without a vault is an error", r)
    r = c("secret", "set", "github", TOKEN)
    tap.ok(r.code == 2 and "never an argument" in r.err and TOKEN not in r.err,
           f"{who}: a value on the command line is refused, and not repeated", r)
    r = c("secret", "set", "github", "-", "--host", "api.github.com", input=TOKEN + "\n")
    tap.ok(r.code == 0 and "line break" in r.err, f"{who}: secret set - drops the line break, with a message", r)
    path = c.write("value", VALUES["filed"])
    r = c("secret", "set", "filed", "--file", path)
    tap.ok(r.code == 0 and "still has it" in r.err, f"{who}: secret set --file stores a file's content", r)
    os.unlink(path)
    r = c("secret", "set", "made", "--command", f"printf %s '{VALUES['made']}'")
    tap.ok(r.code == 0, f"{who}: secret set --command stores a command's output", r)
    r = c("secret", "set", "failed", "--command", "echo 0123456789abcdef; exit 7")
    tap.ok(r.code == 125 and "exit code 7" in r.err and "failed" not in listed(c),
           f"{who}: a command that fails stores no secret", r)
    r = c("secret", "set", "github", "-", input=TOKEN)
    tap.ok(r.code == 16 and "rotate" in r.err, f"{who}: secret set refuses an existing name", r)
    r = c("secret", "set", "none")
    tap.ok(r.code == 125 and "no terminal" in r.err and "--command" in r.err, f"{who}: secret set without a terminal names the other ways", r)


def check_terminal(c, who):
    t = OnTerminal(c, "secret", "set", "typed")
    tap.ok(t.shows(b"not shown"), f"{who}: secret set asks for the value on the terminal", t.seen)
    tap.ok(not t.echoes(), f"{who}: secret set turns the echo off")
    t.type(b"a slip\x15" + VALUES["typed"].encode() + b"X\x7f\r")
    code = t.end()
    tap.ok(code == 0 and t.echoes(), f"{who}: a typed value of 4000 bytes is stored, and the echo is on again", code, t.seen[-300:])
    tap.ok(not find_values(t.seen, VALUES), f"{who}: a typed value is not shown")
    tap.eq(listed(c)["typed"]["length"], "4096 or more", f"{who}: a typed value is stored in full")
    t.close()

    t = OnTerminal(c, "secret", "set", "pasted")
    ready = t.shows(b"not shown") and not t.echoes()
    t.type(b"the first line of a key\rits-second-line\r")
    code = t.end()
    tap.ok(ready and code == 17 and b"several lines" in t.seen and t.echoes(), f"{who}: several pasted lines are refused", code,
           t.seen)
    tap.ok(b"second-line" not in t.seen and "pasted" not in listed(c), f"{who}: pasted lines are neither shown nor saved", t.seen)
    t.close()

    t = OnTerminal(c, "secret", "set", "asked", "--command", "printf 'who? ' > /dev/tty; read x < /dev/tty; echo a value for $x")
    ready = t.shows(b"who? ")
    t.type(b"somebody here\r")
    code = t.end()
    tap.ok(ready and code == 0 and "asked" in listed(c), f"{who}: the command of a secret may read from the terminal", code, t.seen)
    t.close()
    t = OnTerminal(c, "secret", "set", "hung", "--command", "sleep 1000")
    ready = wait_for(lambda: any(text == "S sleep" for _, text in descendants(t.p.pid)))
    t.type(b"\x03")
    tap.ok(ready and t.end() == -signal.SIGINT and "hung" not in listed(c), f"{who}: Ctrl-C interrupts the command of a secret", t.seen)
    t.close()
    c("secret", "rm", "asked")

    check_interrupted(c, who, "secret", "set", "broken")
    tap.ok("broken" not in listed(c), f"{who}: an interrupted prompt saves nothing")


def check_interrupted(c, who, *args):
    """A prompt that does not get its answer leaves the terminal as it was, before whoever waits for coffer has it again."""
    what = " ".join(args[:2])
    for sig, keys in ((signal.SIGINT, b"half of it\x03"), (signal.SIGQUIT, b"half\x1c"), (signal.SIGTERM, None),
                      (signal.SIGHUP, None), (signal.SIGKILL, None)):
        t = OnTerminal(c, *args)
        was = termios.tcgetattr(t.slave) if t.echoes() else None
        ready = t.shows(b"not shown") and not t.echoes()
        pid = t.p.pid  # also behind unshare, which executes coffer
        vault = wait_for(lambda p=pid: vault_of(p))
        if keys:
            t.type(keys)
        else:
            os.kill(pid, sig)
        code = t.end()
        # Killed, it cannot wait for the vault.
        good = wait_for(t.echoes) if sig == signal.SIGKILL else t.echoes()
        tap.ok(ready and code == -sig and good, f"{who}: {what}, {signal.Signals(sig).name}: the echo is on again", code, ready,
               t.seen)
        if was:
            tap.eq(termios.tcgetattr(t.slave), was, f"{who}: {what}, {signal.Signals(sig).name}: the terminal's settings are restored")
        tap.ok(vault and wait_for(lambda v=vault: not os.path.exists(f"/proc/{v}") or not stat_name(v)),
               f"{who}: {what}, {signal.Signals(sig).name}: no coffer-vault is left")
        tap.ok(b"half" not in t.seen, f"{who}: {what}, {signal.Signals(sig).name}: typed characters are not shown", t.seen)
        t.close()


def stat_name(pid):
    """The name of a process that is not a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            text = f.read()
    except OSError:
        return None
    return None if text[text.rindex(")") + 2] == "Z" else text[text.index("(") + 1:text.rindex(")")]


def check_refused(c, who):
    cases = [("a NUL", b"0123456789\0abcdefgh", 17), ("1 MB", b"x" * 1000000, 17), ("empty", b"", 17),
             ("a line break alone", b"\n", 17), ("15 bytes", b"0123456789abcde", 17)]
    for name, value, code in cases:
        r = c("secret", "set", "bad", "-", input=value)
        tap.ok(r.code == code and r.err, f"{who}: a value with {name} is refused", r)
    r = c("secret", "set", "weak", "-", "--weak", input="hunter2")
    tap.ok(r.code == 0 and listed(c)["weak"]["weak"], f"{who}: --weak accepts a short value and marks it", r)
    r = c("secret", "set", "lines", "-", input="-----BEGIN KEY-----\nabcdef\n")
    tap.eq(r.code, 0, f"{who}: a value with line breaks is accepted", r)
    r = c("secret", "bind", "lines", "--host", "api.example.com", "--as", "bearer")
    tap.ok(r.code == 125 and "line breaks" in r.err, f"{who}: a value with line breaks cannot be bound to a header", r)
    tap.eq(c("secret", "bind", "lines", "--host", "git.example.com:22", "--as", "ssh:unbound").code, 17, f"{who}: a value that is not a key cannot be bound as ssh")
    for host in ("*.example.com", "com", "co.uk", "github.io", "10.0.0.1", "https://example.com", "example.com/a?b",
                 "example.com/%2e%2e/x", "localhost"):
        r = c("secret", "bind", "github", "--host", host)
        tap.ok(r.code == 2 and r.err, f"{who}: a binding to {host} is refused", r)
    for how in ("headers:x", "header:host", "query", "body:x", ""):
        tap.eq(c("secret", "bind", "github", "--host", "example.com", "--as", how).code, 2, f"{who}: a binding as '{how}' is refused")
    r = c("secret", "bind", "github", "--host", "10.1.2.3:8443", "--address")
    tap.eq(r.code, 0, f"{who}: --address allows a binding to an address", r)
    r = c("secret", "bind", "nosuch", "--host", "api.example.com")
    tap.eq(r.code, 15, f"{who}: a binding of an unknown secret is refused", r)
    for name in ("../x", "a/b", "", "-x", "x" * 80):
        tap.eq(c("secret", "set", "--", name).code, 2, f"{who}: '{name[:10]}' is refused as a name")


def check_bindings(c, who):
    c("secret", "bind", "github", "--host", "github.com/acme", "--as", "basic", "--user", "ann")
    got = {(b["host"], b["port"], b["path"], b["as"]) for b in listed(c)["github"]["bindings"]}
    tap.eq(got, {("api.github.com", 443, "/", "bearer"), ("10.1.2.3", 8443, "/", "bearer"),
                 ("github.com", 443, "/acme", "basic (user ann)")}, f"{who}: secret ls lists all bindings")
    r = c("secret", "unbind", "github", "--host", "10.1.2.3")
    tap.ok(r.code == 0 and len(listed(c)["github"]["bindings"]) == 2, f"{who}: secret unbind removes one binding", r)
    r = c("secret", "rotate", "github", "-", input=TOKEN[:-1] + "Z")
    tap.ok(r.code == 0 and len(listed(c)["github"]["bindings"]) == 2, f"{who}: a rotated secret keeps its bindings", r)
    r = c("secret", "rotate", "nosuch", "-", input=TOKEN)
    tap.eq(r.code, 15, f"{who}: secret rotate refuses an unknown secret", r)
    c("secret", "rotate", "github", "-", input=TOKEN)


def check_dates(c, who):
    r = c("secret", "set", "dated", "-", "--expires", "2001-01-01", input=TOKEN)
    tap.ok(r.code == 2 and "past" in r.err, f"{who}: --expires refuses a date in the past", r)
    r = c("secret", "set", "dated", "-", "--expires", "10d", input="a value with a date on it")
    tap.eq(r.code, 0, f"{who}: --expires 10d is accepted", r)
    tap.like(c("secret", "check").out, r"dated: expires on \d{4}-", f"{who}: secret check reports a secret that expires soon")
    c("secret", "change", "dated", "--expires", "1s")
    tap.ok(wait_for(lambda: listed(c)["dated"]["expired"]), f"{who}: a secret expires after --expires 1s")
    r = c("secret", "check")
    tap.ok(r.code == 1 and "dated: expired" in r.out and "weak: is weak" in r.out and "made: is bound to no host" in r.out,
           f"{who}: secret check reports expired, weak and unbound secrets", r)
    count = os.path.join(c.work, "count")
    r = c("secret", "rotate", "dated", "--expires", "never", "--every", "1s", "--command",
          f"echo x >> {count}; wc -l < {count} | xargs printf 'rotation number %020d'")
    got = listed(c)["dated"]
    tap.ok(r.code == 0 and got["rotate_every"] == 1 and got["expires"] is None, f"{who}: secret rotate stores the schedule of --every", r, got)

    def due():
        got = c("secret", "rotate", "--due")
        return got if "dated has a new value" in got.err else None
    r = wait_for(due)
    tap.ok(r and r.code == 0, f"{who}: secret rotate --due runs the secret's command", r)
    r = c("secret", "change", "dated", "--every", "never")
    tap.ok(r.code == 0 and "nothing is due" in c("secret", "rotate", "--due").err, f"{who}: secret rotate --due ignores a secret with --every never", r)
    c("secret", "rm", "dated", "weak")
    os.unlink(count)


def check_failed_rotation(c, who):
    """Output of a command that failed later is no value, neither at once nor when the next one's is saved."""
    flag, old, bad = os.path.join(c.work, "flag"), "the value that it had before", "half a value and then an error"
    r = c("secret", "set", "due-a", "--every", "1s", "--command", f"test -e {flag} && {{ echo {bad}; exit 3; }}; echo {old}")
    tap.eq(r.code, 0, f"{who}: control: a secret is set from a command", r)
    r = c("secret", "set", "due-b", "--every", "1s", "--command", "echo the other one is always good")
    tap.eq(r.code, 0, f"{who}: control: a second secret is set from a command", r)
    c.write("old", old.encode())
    c.write("bad", bad.encode())
    with open(flag, "w", encoding="ascii"):
        pass

    def due():
        got = c("secret", "rotate", "--due")
        return got if "due-a: the command failed" in got.err and "due-b has a new value" in got.err else None
    r = wait_for(due)
    tap.ok(r and r.code != 0, f"{who}: secret rotate --due rotates others when one command fails", r)
    tap.like(c("secret", "check", "old").err, ", 1 credential found", f"{who}: a secret whose command fails keeps its old value")
    tap.like(c("secret", "check", "bad").err, ", 0 credentials found", f"{who}: the output of a failed command is not stored")
    r = c("secret", "set", "due-a", "-", "--host", "due.example.com", "--replace", input="bound to one host, this one")
    tap.eq(len(listed(c)["due-a"]["bindings"]), 1, f"{who}: secret set --replace stores the new binding", r)
    r = c("secret", "set", "due-a", "-", "--replace", input="and that one was never bound")
    tap.ok(r.code == 0 and listed(c)["due-a"]["bindings"] == [] and "bindings" in r.err,
           f"{who}: secret set --replace drops the old bindings, with a message", r)
    r = c("secret", "set", "due-lines", "-", "--host", "due.example.com", "--as", "bearer", input="line one of two\nline two of two")
    last = [json.loads(x)["type"] for x in c("audit", "--json").out.splitlines()][-1]
    tap.ok(r.code != 0 and last == "secret.failed" and "due-lines" not in listed(c), f"{who}: a secret that was not saved is logged as secret.failed", r,
           last)
    c("secret", "rm", "due-a", "due-b")
    for name in ("flag", "old", "bad"):
        os.unlink(os.path.join(c.work, name))


def check_nowhere(c, who):
    """No value in any file, nor in what was printed."""
    found = [f"{p}: {f}" for top in (c.state, c.home, c.tmp) for p, data in everything(top)
             for f in find_values(data, VALUES)]
    tap.ok(not found, f"{who}: no file has a value", *found)
    control = os.path.join(c.work, "control")
    with open(control, "wb") as f:
        f.write(b".." + TOKEN.encode() + b"..")
    with open(control, "rb") as f:
        tap.ok(find_values(f.read(), VALUES), f"{who}: control: the search finds a value in a file")
    os.unlink(control)
    log = b"".join(data for p, data in everything(os.path.join(c.state, "audit")))
    for event in (b"secret.set", b"secret.bind", b"secret.rotate", b"secret.rm", b"secret.unbind"):
        tap.ok(b'"' + event + b'"' in log and b'"secret":"github"' in log, f"{who}: the log has {event.decode()}")
    tap.eq(c("audit", "verify").code, 0, f"{who}: the audit log verifies")
    files = sorted(os.listdir(os.path.join(c.state, "vault")))
    tap.eq(files, ["lock", "saved", "secrets"], f"{who}: the vault directory has no other files")
    for name in files:
        mode = os.stat(os.path.join(c.state, "vault", name)).st_mode & 0o777
        tap.eq(mode, 0o600, f"{who}: {name} is accessible to its owner alone")


def check_process(c, who):
    """While the vault holds a value that coffer handed it."""
    read, write = os.pipe()
    p = c.popen("secret", "set", "held", "-", stdin=read)
    os.close(read)
    secret = b"held-by-the-vault-" + os.urandom(12).hex().encode()
    os.write(write, secret)
    vault = wait_for(lambda: vault_of(p.pid))
    status = {}

    def ready():
        with open(f"/proc/{vault}/status", encoding="utf-8") as f:
            status.update(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
        return (status["NoNewPrivs"].strip() == "1" and status["VmLck"].strip() != "0 kB" and
                memory_of(vault, secret) is not False)
    wait_for(ready)
    seen = memory_of(vault, secret)
    tap.ok(status.get("NoNewPrivs", "").strip() == "1" and int(status["CapEff"], 16) == 0, f"{who}: coffer-vault has no privilege", status)
    tap.ok(status["Seccomp"].strip() == "2" or sanitized(), f"{who}: coffer-vault has a seccomp filter", status["Seccomp"])
    tap.ok(int(status["VmLck"].split()[0]) > 0, f"{who}: coffer-vault locks its memory", status["VmLck"])
    if who == "root":
        tap.ok(status["Uid"].split()[0] != "0", f"{who}: coffer-vault does not run as root", status["Uid"])
    if os.getuid() == 0:
        with open(f"/proc/{vault}/environ", "rb") as f:
            tap.eq(f.read(), b"", f"{who}: coffer-vault's environment is empty")
    if who == "user":
        r = c(program=["cat", f"/proc/{vault}/environ"])
        tap.ok(r.code != 0, f"{who}: the user cannot read coffer-vault's environment", r)
    if seen is None:
        tap.skip(f"{who}: memory of the processes", "even root may not read it here")
    else:
        tap.ok(seen, f"{who}: the value is in coffer-vault's memory")
        tap.eq(memory_of(p.pid, secret), False, f"{who}: the value is not in coffer's memory")
    os.close(write)
    out, err = p.communicate(timeout=300 * slow_build())
    tap.ok(p.returncode == 0 and secret not in out + err, f"{who}: the value is saved and not printed", err)
    c("secret", "rm", "held")


def memory_of(pid, wanted):
    """Is it there? None when nobody can say."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
            for line in maps:
                m = re.match(r"([0-9a-f]+)-([0-9a-f]+) r", line)
                if not m or "[v" in line:
                    continue
                start, end = (int(x, 16) for x in m.groups())
                if end - start > 64 << 20:
                    continue
                try:
                    mem.seek(start)
                    if wanted in mem.read(end - start):
                        return True
                except OSError:
                    continue
    except PermissionError:
        return None
    except OSError:
        return False
    return False


def check_files(c, who):
    path = os.path.join(c.state, "vault", "secrets")
    with open(path, "rb") as f:
        good = f.read()

    def put(data):
        with open(path, "wb") as f:
            f.write(data)
    bad = bytearray(good)
    bad[-3] ^= 1
    for name, data, code, word in (("tampered", bytes(bad), 12, "changed"), ("cut off", good[:-5], 13, "cut off"),
                                   ("cut to its head", good[:60], 13, "cut off"), ("empty", b"", 13, "cut off"),
                                   ("something else", b"hello, world" * 20, 14, "not a vault file")):
        put(data)
        r = c("secret", "ls")
        tap.ok(r.code == code and word in r.err, f"{who}: a vault file that is {name} exits with {code}", r)
    put(good)
    tap.eq(c("secret", "ls").code, 0, f"{who}: a restored vault file opens")

    key = os.path.join(c.home, ".config", "cofferdam", "vault.key")
    os.chmod(key, 0o644)
    r = c("secret", "ls")
    tap.ok(r.code == 125 and "0644" in r.err and "chmod" in r.err, f"{who}: a key that others may read is refused", r)
    os.chmod(key, 0o600)
    other = os.path.join(c.home, "other.key")
    with open(other, "wb") as f:
        f.write(os.urandom(32))
    os.chmod(other, 0o600)
    c.own(other)
    r = c("secret", "ls", "--key-file", other)
    tap.ok(r.code == 10 and "wrong key" in r.err, f"{who}: a wrong key is reported", r)
    os.unlink(other)
    os.rename(key, key + ".away")
    r = c("secret", "set", "more", "-", input=TOKEN)
    tap.ok(r.code == 125 and not os.path.exists(key), f"{who}: no new key is made for an existing vault", r)
    os.rename(key + ".away", key)

    c("secret", "set", "extra", "-", input="a value that came later")
    put(good)
    r = c("secret", "ls")
    tap.ok(r.code == 0 and "older one" in r.err, f"{who}: an older vault file is reported", r)
    c("secret", "set", "extra", "-", input="a value that came later")
    tap.unlike(c("secret", "ls").err, "older one", f"{who}: an older vault file is not reported after the next save")
    c("secret", "rm", "extra")


def with_fd(c, text, *args, input=None, option="--passphrase-fd"):
    """coffer with a passphrase on a descriptor."""
    read, write = os.pipe()
    os.write(write, text.encode())
    os.close(write)
    p = c.popen(*args, option, str(read), pass_fds=(read,),
                stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL)
    os.close(read)
    out, err = p.communicate(input.encode() if input is not None else None, timeout=300 * slow_build())
    return p.returncode, out.decode() + err.decode()


def check_passphrase(c, who):
    code, text = with_fd(c, "correct horse battery\n", "secret", "rekey")
    tap.ok(code == 0, f"{who}: secret rekey sets a passphrase", text)
    code, text = with_fd(c, "correct horse battery\n", "secret", "ls")
    tap.ok(code == 0 and "github" in text, f"{who}: the passphrase opens the vault", text)
    code, text = with_fd(c, "wrong horse\n", "secret", "ls")
    tap.ok(code == 11 and "wrong passphrase" in text, f"{who}: a wrong passphrase is refused", text)
    r = c("secret", "ls")
    tap.ok(r.code == 125 and "locked" in r.err and "--passphrase-fd" in r.err, f"{who}: a vault with a passphrase is locked without a terminal", r)
    t = OnTerminal(c, "secret", "ls")
    ready = t.shows(b"not shown") and not t.echoes()
    t.type(b"correct horse battery\r")
    code = t.end()
    tap.ok(ready and code == 0 and b"github" in t.seen and b"battery" not in t.seen, f"{who}: the passphrase is asked for on the terminal",
           code, t.seen)
    t.close()
    check_interrupted(c, who, "secret", "ls")
    check_interrupted(c, who, "run", "--engine", "ns", "--allow", "api.github.com", "--secret", "github", "--", "true")
    code, text = with_fd(c, "short", "secret", "rekey", option="--passphrase-fd")
    tap.ok(code != 0, f"{who}: secret rekey without the old passphrase is refused", text)
    key = os.path.join(c.home, "new.key")
    code, text = with_fd(c, "correct horse battery", "secret", "rekey", "--key-file", key, option="--old-passphrase-fd")
    tap.ok(code == 0 and os.stat(key).st_size == 32 and os.stat(key).st_mode & 0o777 == 0o600,
           f"{who}: secret rekey --key-file makes a key file", text)
    r = c("secret", "ls")
    tap.ok(r.code == 0 and "github" in r.out, f"{who}: the vault opens with the new key file by itself", r)
    r = c("secret", "rekey", "--key-file", key)
    tap.ok(r.code == 125 and "already sealed with this key" in r.err, f"{who}: secret rekey refuses the key that the vault already has", r)


def check_credential(c, who):
    """As a service gets it: a directory that systemd has made."""
    directory = os.path.join(c.dir, "credentials")
    os.mkdir(directory, 0o700)
    with open(os.path.join(directory, "coffer-vault-key"), "wb") as f:
        f.write(os.urandom(32))
    os.chmod(os.path.join(directory, "coffer-vault-key"), 0o440)
    c.own(directory)
    c.own(os.path.join(directory, "coffer-vault-key"))
    env = {"CREDENTIALS_DIRECTORY": directory, "COFFER_STATE": os.path.join(c.dir, "state2")}
    r = c("secret", "set", "served", "-", input=TOKEN, env=env)
    tap.ok(r.code == 0, f"{who}: a systemd credential is the vault's key", r)
    tap.like(c("secret", "ls", env=env).out, "served", f"{who}: the vault opens with its systemd credential")
    r = c("secret", "ls", env=dict(env, CREDENTIALS_DIRECTORY=None))
    tap.ok(r.code == 125 and "credential" in r.err, f"{who}: a vault without its systemd credential is refused", r)
    # A key file that was made a credential, and removed.
    key = os.path.join(c.home, "moved.key")
    env["COFFER_STATE"] = os.path.join(c.dir, "state3")
    plain = dict(env, CREDENTIALS_DIRECTORY=None)
    r = c("secret", "init", "--key-file", key, env=plain)
    tap.eq(r.code, 0, f"{who}: control: secret init makes a vault with a key file", r)
    tap.eq(c("secret", "set", "moved", "-", input=TOKEN, env=env).code, 0, f"{who}: another credential does not replace the vault's key file")
    with open(key, "rb") as f:
        was = f.read()
    os.unlink(key)
    r = c("secret", "ls", env=env)
    tap.ok(r.code == 10, f"{who}: another credential without the key file is a wrong key", r)
    with open(os.path.join(directory, "coffer-vault-key"), "wb") as f:
        f.write(was)
    tap.like(c("secret", "ls", env=env).out, "moved", f"{who}: a credential with the vault's key opens it without the key file")
    tap.eq(c("secret", "ls", env=plain).code, 125, f"{who}: the vault does not open without key file and credential")
    if who == "root":
        fake = os.path.join(c.dir, "fakebin")
        os.mkdir(fake)
        os.symlink("/bin/true", os.path.join(fake, "systemd-creds"))
        script = f"mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec {c.exe} secret init --key-file {key}"
        path = {"COFFER_STATE": os.path.join(c.dir, "state4"), "PATH": c.env()["PATH"] + ":" + fake}
        r = c(program=["unshare", "--mount", "sh", "-c", script], env=path)
        tap.ok(r.code == 0 and f"systemd-creds encrypt --name=coffer-vault-key {key} /etc/credstore.encrypted/coffer-vault-key" in r.err
               and f"systemctl restart cofferd && rm {key}" in r.err, f"{who}: secret init on systemd says how to encrypt the key", r)
        r = c("secret", "init", "--key-file", key + "2", env={"COFFER_STATE": os.path.join(c.dir, "state5")})
        tap.unlike(r.err, "systemd-creds", f"{who}: secret init without systemd does not mention systemd-creds")


def check_together(c, who):
    """Writers at the same time lose nothing."""
    procs = []
    for i in range(8):
        p = c.popen("secret", "set", f"many{i}", "-", stdin=subprocess.PIPE)
        p.stdin.write(f"value number {i} of many".encode())
        p.stdin.close()
        procs.append(p)
    codes = [p.wait(timeout=300 * slow_build()) for p in procs]
    for p in procs:
        p.stdout.close()
        p.stderr.close()
    names = set(listed(c))
    tap.ok(codes == [0] * 8 and {f"many{i}" for i in range(8)} <= names, f"{who}: eight concurrent secret set store all secrets", codes, names)


def check_killed(c, who):
    """kill -9 of coffer or of the vault at any moment: the old file or the new one, whole."""
    rnd = random.Random(7)
    bad = []
    for i in range(25):
        p = c.popen("secret", "set", "storm", "-", "--replace", stdin=subprocess.PIPE)
        p.stdin.write(f"value {i} of the storm, as long as it is".encode())
        p.stdin.close()
        time.sleep(rnd.uniform(0, 0.06))
        target = vault_of(p.pid) if i % 2 else None
        try:
            os.kill(target or p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        p.wait(timeout=300 * slow_build())
        p.stdout.close()
        p.stderr.close()
        r = c("secret", "ls", "--json")
        if r.code != 0 or "github" not in r.out:
            bad.append(str(r))
    tap.ok(not bad, f"{who}: the vault opens after each of 25 kills", *bad)
    r = c("secret", "set", "storm", "-", "--replace", input="the value after the storm")
    files = sorted(os.listdir(os.path.join(c.state, "vault")))
    tap.ok(r.code == 0 and "secrets.new" not in files and "secrets.old" not in files, f"{who}: kills leave no temporary vault file after the next save", r,
           files)
    c("secret", "rm", "storm")


def check_full_disk(c, who):
    """A disk that fills while a secret is saved: the vault's directory on a small file system."""
    script = ('set -e; v="$COFFER_STATE/vault"; cp -a "$v" "$v.copy"; mount -t tmpfs -o size=128k,mode=0700 tmpfs "$v"; '
              'chown "$(stat -c %u:%g "$v.copy")" "$v"; cp -a "$v.copy/." "$v/"; rm -r "$v.copy"; '
              'dd if=/dev/zero of="$v/fill" bs=1k 2>/dev/null || true; truncate -s -4k "$v/fill"; '
              f'sum=$(sha256sum < "$v/secrets"); set +e; head -c 60000 /dev/zero | tr "\\0" x | {c.exe} secret set large -; '
              f'code=$?; [ "$sum" = "$(sha256sum < "$v/secrets")" ] && echo same; ls "$v"; {c.exe} secret ls; exit $code')
    how = ["unshare", "--mount"] if who == "root" else ["unshare", "--user", "--map-root-user", "--mount"]
    p = subprocess.run(how + ["bash", "-c", script], env=c.env(), cwd=c.work, capture_output=True, text=True, check=False,
                       preexec_fn=c.become if who != "root" else None, timeout=300 * slow_build())
    tap.ok(p.returncode == 18 and "same" in p.stdout and "github" in p.stdout and "secrets.new" not in p.stdout,
           f"{who}: a full disk is reported, and the vault is unchanged", p.returncode, p.stdout, p.stderr)


def check_check(c, who):
    raw = VALUES["filed"].encode()
    c.write("src/a.txt", b"nothing here")
    c.write("src/b.json", b'{"x": "' + raw.replace(b"/", b"\\/") + b'"}')
    c.write("src/deep/er/c.b64", base64.b64encode(b"ab" + raw + b"c"))
    c.write("src/d.hex", b"\0" * ((1 << 20) - 7) + raw.hex().encode())
    c.write("src/e.env", b"KEY=glpat-3xY9_kQ2mN8bV5cR7tZ1\n")
    os.symlink("/etc", os.path.join(c.work, "src", "link"))
    r = c("secret", "check", "src")
    tap.eq(r.code, 1, f"{who}: secret check of a directory finds credentials", r)
    for name, what in (("b.json", "filed.*JSON"), ("deep/er/c.b64", "filed.*base64"), ("d.hex", "filed.*hex"),
                       ("e.env", "GitLab token")):
        tap.like(r.out, rf"^src/{name}: byte \d+: .*{what}", f"{who}: secret check finds the credential in {name}", r)
    tap.ok("a.txt" not in r.out and not find_values(r.out.encode(), VALUES) and "3xY9" not in r.out,
           f"{who}: secret check shows no credential", r)
    r = c("secret", "check", "src/a.txt")
    tap.ok("a.txt" not in r.out and "1 file searched, 0 credentials" in r.err, f"{who}: secret check finds nothing in a clean file", r)
    r = c("secret", "check", "nosuch")
    tap.eq(r.code, 125, f"{who}: secret check of a missing path is an error", r)


def check_import(c, who):
    path = c.write("x.env", "# mine\nexport OPENAI_API_KEY='sk-proj-Ab3dEf6hIj9lMn2pQr5tUv8xYz1bCd4f'\nPORT=3000\n"
                            "EMPTY=\nGITHUB_TOKEN=\"" + TOKEN + "\"\nSESSION_KEY=one that nobody knows\n")
    r = c("secret", "import", path)
    tap.ok(r.code == 0 and {"openai", "session_key"} <= set(listed(c)) and "rm " in r.err, f"{who}: secret import stores the secrets of a .env file", r)
    tap.ok("OPENAI_API_KEY is in the vault now, as 'openai'" in r.err and "openai_api_key" not in listed(c),
           f"{who}: secret import uses the names that profiles know", r)
    tap.ok("left out: PORT" in r.err and "left out: EMPTY" in r.err and "left out: GITHUB_TOKEN" in r.err,
           f"{who}: secret import leaves out other variables and existing secrets", r)
    tap.ok("sk-proj-" not in r.out + r.err and TOKEN not in r.out + r.err, f"{who}: secret import shows no value", r)
    bad = c.write("bad.env", "A_NEW_ONE=a value that is long enough\nsomething " + TOKEN + "\n")
    r = c("secret", "import", bad)
    tap.ok(r.code == 125 and "line 2" in r.err and TOKEN not in r.err, f"{who}: secret import names the line of a malformed file", r)
    tap.ok("nothing was saved" in r.err and "in the vault now" not in r.err and "a_new_one" not in listed(c),
           f"{who}: secret import of a malformed file stores nothing", r)
    os.unlink(path)
    os.unlink(bad)


def check_holes(c, who):
    """A search for secrets reads no holes, which cost a sandbox nothing, and finds a secret between two of them."""
    b64 = base64.b64encode(b"x" + TOKEN.encode()).decode()
    script = (f"truncate -s 9G empty; truncate -s 5G ours shape; echo {b64} >> ours; "
              "echo npm_Ab3dEf6hIj9lMn2pQr5tUv8xYz1bCd4fGh7k >> shape; truncate -s 8G ours shape")
    r = c("run", "-q", "--net", "none", "--", "sh", "-c", script)
    tap.eq(r.code, 0, f"{who}: control: a run writes files with holes", r)
    began = time.monotonic()
    r = c("apply", "@last", "-y", timeout=200)
    took = time.monotonic() - began
    there = {n: os.path.exists(os.path.join(c.work, n)) for n in ("empty", "ours", "shape")}
    tap.ok(r.code == 1 and there == {"empty": True, "ours": False, "shape": False},
           f"{who}: apply finds secrets between holes", r, there)
    tap.ok(took < 20, f"{who}: apply reads no holes", f"{took:.1f} s")
    tap.eq(os.stat(os.path.join(c.work, "empty")).st_blocks, 0, f"{who}: apply keeps a hole")
    os.unlink(os.path.join(c.work, "empty"))


def check_apply(c, who):
    """A file that a sandbox wrote does not come out with a secret in it."""
    c.write("old.txt", "key = glpat-3xY9_kQ2mN8bV5cR7tZ1\n")
    c.write("other.txt", "a = glpat-3xY9_kQ2mN8bV5cR7tZ1\nb = glpat-8pQ4_nM6vB2xC9kL3wT7\n")
    c.write("moved.txt", "a = glpat-3xY9_kQ2mN8bV5cR7tZ1\nb = glpat-8pQ4_nM6vB2xC9kL3wT7\n")
    b64 = base64.b64encode(b"x" + TOKEN.encode()).decode()
    script = (f"echo {b64} > leak.txt; echo fine > fine.txt; echo more >> old.txt; "
              "echo npm_Ab3dEf6hIj9lMn2pQr5tUv8xYz1bCd4fGh7k > token.txt; "
              "echo b = glpat-8pQ4_nM6vB2xC9kL3wT7 > moved.txt; "
              "sed -i s/glpat-8pQ4_nM6vB2xC9kL3wT7/glpat-7zK1_hJ5gF4dS9aP2oI6/ other.txt")
    r = c("run", "-q", "--net", "none", "--", "sh", "-c", script)
    tap.eq(r.code, 0, f"{who}: control: a run writes files", r)
    r = c("apply", "@last", "-y")
    there = {n: os.path.exists(os.path.join(c.work, n)) for n in ("leak.txt", "fine.txt", "token.txt")}
    tap.ok(r.code == 1 and there == {"leak.txt": False, "fine.txt": True, "token.txt": False},
           f"{who}: apply leaves out files with a secret", r, there)
    tap.ok("a secret of the vault" in r.err and "an npm token" in r.err and "--allow leak.txt" in r.err,
           f"{who}: apply gives the reason and the option for a file with a secret", r)
    with open(os.path.join(c.work, "old.txt"), encoding="utf-8") as f:
        tap.ok(f.read().endswith("more\n"), f"{who}: apply writes a file whose credential was in the original")
    with open(os.path.join(c.work, "moved.txt"), encoding="utf-8") as f:
        tap.ok(f.read().startswith("b ="), f"{who}: apply writes a file whose credential moved or disappeared")
    with open(os.path.join(c.work, "other.txt"), encoding="utf-8") as f:
        tap.ok("glpat-8pQ4" in f.read() and "--allow other.txt" in r.err, f"{who}: apply leaves out a file where a credential replaced another", r)
    r = c("apply", "@last", "-y", "--allow", "token.txt", "--allow", "leak.txt", "--allow", "other.txt")
    tap.ok(r.code == 0 and os.path.exists(os.path.join(c.work, "leak.txt")), f"{who}: apply --allow writes a file with a secret", r)


for identity in identities(tap):
    with coffer_as(identity) as c0:
        for check in (check_set, check_terminal, check_refused, check_bindings, check_dates, check_failed_rotation,
                      check_nowhere, check_process, check_files, check_full_disk, check_together, check_killed, check_check, check_import,
                      check_holes, check_apply, check_passphrase, check_credential):
            check(c0, str(identity))
        c0.check_clean(tap)
tap.done()
