#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/run: timeout=1200
"""coffer call --from N --workspace: a call over what another sandbox sees, and the way of its changes back into that one."""

import json
import os
import re
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import BUILD, Tap, coffer_as, covering, slow_build  # noqa: E402
from treedump import dump  # noqa: E402

tap = Tap()
KILLAT = os.path.join(BUILD, "tests", "killat")
FILES = {"same": "same\n", "edit": "old\n", "gone": "gone\n", "dir/a": "a\n", "dir/b": "b\n", "anew/x": "x\n",
         "turn": "turn\n", "swap/y": "y\n", "deep/one/two": "two\n", ".env": "TOKEN=of-the-original-0123456789\n",
         "closed/s": "s\n", ".git/config": "[remote \"o\"]\n\turl = https://u:hunter22hunter22@h.example/x\n"}
# Files that an agent may leave in its layer, on purpose.
HOSTILE = r"""
echo new >edit; rm gone dir/b; rm -r anew; mkdir anew; echo z >anew/z; rm turn; mkdir turn; echo t >turn/t
rm -r swap; ln -s /etc swap; ln -s ../../../../../etc/shadow up; ln -s .env alias; ln edit edit2
mkdir -p made/.ssh; echo k >made/.ssh/id_rsa; echo AWS=1 >made/.env; echo plain >made/f; chmod 700 made
rm -r deep/one; echo file >deep/one; chmod 0 closed/s; mkdir shut; echo in >shut/in; chmod 0 shut
ln -s nowhere made/.netrc; echo homely >"$HOME/mine"; printf 'caf\303\251 \n' >"$(printf 'n\303\251w \n#')"
exec 3>open; printf partial >&3
touch ready; exec sleep 1000
"""
# Everything that can be seen, a line each, without what belongs to directories as such and to pipes.
LIST = (r"cd /workspace; find . -path ./ready -o -name '.env' -o -name .ssh -prune -o -path ./.git/config -o ! -type d "
        r"-printf '%y %m %l %P\0' -o -printf '%y %m  %P\0' | sort -z | tr '\0' '\n'; "
        r"cat same edit edit2 dir/a anew/z turn/t made/f deep/one open n* 2>&1; cat closed/s shut/in gone dir/b 2>/dev/null | wc -c")


def start(c, name, *args, script=HOSTILE, ready="ready"):
    r = c("run", "-q", "-d", "--name", name, *args, "--", "sh", "-c", script)
    tap.eq(r.code, 0, f"{c.who}: the sandbox {name} starts", r)
    until(lambda: c("exec", name, "--", "test", "-e", ready).code == 0, f"{c.who}: the sandbox {name} has prepared its workspace")
    return r.out.strip()


def until(condition, name, patience=60):
    end = time.monotonic() + patience * slow_build()
    while not condition():
        if time.monotonic() > end:
            return tap.ok(False, name)
        time.sleep(0.05)
    return True


def runs(c):
    """The ids of the runs; a pool's sandboxes do not count, and there is none here."""
    return sorted(os.listdir(os.path.join(c.state, "runs")))


def call(c, name, script, *options, **kw):
    """A call over a sandbox's workspace: how it ended, and its id if it left something."""
    before = set(runs(c))
    r = c("call", "--from", name, "--workspace", *options, "--", "sh", "-c", script, **kw)
    left = set(runs(c)) - before
    said = set(re.findall(r"changed: coffer diff (\w{12})", r.err))
    tap.ok(left == said and len(left) < 2, f"{c.who}: a call leaves exactly the run that its message names", left, r)
    return r, left.pop() if left else None


def diff(c, run):
    r = c("diff", "-z", run)
    parts = r.out.split("\0")[:-1]
    return dict(zip(parts[1::2], parts[0::2])) if r.code == 0 else r


def write_all(c):
    for path, text in FILES.items():
        c.write(path, text)


def original(c):
    return {k: v for k, v in dump(c.work).items()}


WRITES = (r"echo mine >>edit; rm made/f; echo n >fresh; rm same; rm -r turn; mkdir turn; echo other >turn/o; "
          r"chmod 750 dir; ln -s x lnk; rm -r anew; echo '#' >deep/one")
CHANGES = {"edit": "M", "made/f": "D", "fresh": "A", "same": "D", "turn/o": "A", "turn/t": "D", "dir": "m", "lnk": "A",
           "anew": "D", "anew/z": "D", "deep/one": "M"}


def sees(c, who):
    """The call sees the files that the sandbox sees; all others are hidden."""
    mine = c("exec", "n", "--", "sh", "-c", LIST)
    r, left = call(c, "n", LIST)
    tap.eq(r.out, mine.out, f"{who}: the call sees what the sandbox sees", r, mine)
    tap.ok("partial" in r.out and not left,
           f"{who}: a call sees a file that is still being written, and leaves nothing if it only reads", r)
    r, _ = call(c, "n", "cat .env alias made/.env made/.netrc made/.ssh/* .git/config ~/mine; ls -A ~ made/.ssh; "
                "for f in .env made/.env; do rm $f; mv $f x; echo y >$f; done 2>/dev/null; mv made/.ssh x 2>/dev/null")
    tap.ok(not re.search(r"TOKEN|AWS|hunter|homely|^k$|mine", r.out, re.M) and "[remote" in r.out,
           f"{who}: a call does not see credentials and home of the sandbox", r)
    tap.like(r.err, r"hidden inside.*\.env.*made/\.env", f"{who}: a call says which credentials are hidden", r)
    r, _ = call(c, "n", "cat made/.env; cat .env", "--show", "made/.env")
    tap.ok("AWS=1" in r.out and "TOKEN" not in r.out, f"{who}: --show shows the named credentials and no others", r)


def reaches(who):
    """May this identity write to one that runs? Each command of userns is in a user namespace of its own."""
    return who.engine == "ns" and who != "userns"


def changes(c, who, n):
    """diff, conflicts, apply into one that runs, what is left, discard."""
    before = original(c)
    r, one = call(c, "n", WRITES)
    tap.ok(r.code == 0 and one, f"{who}: a call that writes succeeds", r)
    tap.eq(diff(c, one), CHANGES, f"{who}: diff of a call is against the sandbox's workspace")
    tap.like(c("diff", "-p", one, "edit").out, r"^ new\n\+mine$|new\n\+mine", f"{who}: diff -p of a call shows lines")
    tap.ok(c("exec", "n", "--", "sh", "-c", "cat same made/f").out == "same\nplain\n", f"{who}: the sandbox does not see what a call wrote")
    r = c("exec", "n", "--", "sh", "-c", "echo later >fresh; echo theirs >>edit; echo unrelated >besides")
    tap.eq(diff(c, one), CHANGES, f"{who}: diff of a call does not change when the sandbox writes", r)
    r = call(c, one, "true")[0]
    tap.ok(r.code == 125 and "itself a call" in r.err, f"{who}: a call over another call's workspace is refused", r)
    if not reaches(who):
        r = c("apply", "-y", one)
        tap.ok(r.code == 125 and f"coffer stop {n}" in r.err, f"{who}: apply of a call is refused while the sandbox runs", r)
        tap.eq(diff(c, one), CHANGES, f"{who}: apply that was refused leaves the call's changes")
        c("stop", "n")
    conflicts = {"edit", "fresh"}
    r = c("apply", "-y", one)
    tap.ok(r.code == 1 and all(f"not applied: {k} {p}:" in r.err for k, p in (("M", "edit"), ("M", "fresh"))),
           f"{who}: apply of a call leaves files that the sandbox changed meanwhile", r)
    tap.eq(original(c), before, f"{who}: apply of a call writes nothing to the original directory")
    tap.eq(set(diff(c, one)), conflicts, f"{who}: diff after apply shows the changes that conflict")
    r = c("apply", "-y", one, "--force", "edit", "--force", "fresh")
    tap.ok(r.code == 0 and one not in runs(c), f"{who}: apply --force applies conflicts, and nothing is left of the call", r)
    see = ["exec", "n", "--"] if reaches(who) else ["call", "--from", "n", "--workspace", "--"]
    r = c(*see, "sh", "-c", "cat edit fresh besides turn/o deep/one; readlink lnk; stat -c %a dir; ls same made/f turn/t anew 2>&1 | wc -l")
    tap.eq(r.out, "new\nmine\nn\nunrelated\nother\n#\nx\n750\n4\n", f"{who}: the sandbox has all changes of the applied call", r)
    tap.eq(c("audit", "verify").code, 0, f"{who}: the log is whole")
    log = [e for e in map(json.loads, c("audit", "--json").out.splitlines()) if e.get("into") == n]
    tap.ok(log and all(e["type"] == "workspace.apply" and e["sandbox"] == one for e in log),
           f"{who}: the log names the sandbox that a call was applied to", log)


def special(c, who):
    """A wall for the directory is one for the sandbox too."""
    r, one = call(c, "n", "mkdir -p .git/hooks; echo x >.git/hooks/pre-commit; mkfifo q; echo T=1 >dir/.env; echo ok >fine; "
                  "ln -s /etc/passwd out; touch su; chmod u+s su 2>/dev/null; mkdir -p a/b; echo c >a/b/c")
    r = c("apply", "-y", one)
    tap.ok(r.code == 1 and all(f" {p}:" in r.err for p in (".git/hooks/pre-commit", "dir/.env", "out")),
           f"{who}: apply of a call needs a yes for hooks, links outside and credentials", r)
    tap.ok("fine" not in diff(c, one) and "out" in diff(c, one), f"{who}: apply of a call applies changes that need no yes", diff(c, one))
    tap.eq(c("discard", one).code, 0, f"{who}: discard of the changes that need a yes succeeds")
    tap.ok(one not in runs(c), f"{who}: discard leaves nothing of the call")


def ended(c, who, n):
    """One that has ended; one that is gone."""
    c("stop", "n")
    r, one = call(c, "n", "cat edit; echo after >edit; rm dir/a; mkdir -p h/i; echo j >h/i/j; chmod 700 h")
    tap.ok(r.out == "new\nmine\n" and one, f"{who}: a call over a sandbox that has ended sees its workspace", r)
    r = c("apply", "-y", one)
    tap.eq((r.code, one in runs(c)), (0, False),
           f"{who}: apply of a call over an ended sandbox succeeds, and nothing is left of the call", r)
    d = diff(c, "n")
    tap.ok(d.get("edit") == "M" and d.get("dir/a") == "D" and d.get("h/i/j") == "A",
           f"{who}: the applied call is in the diff of the ended sandbox", d)
    r = c("ps", "-a", "--json")
    tap.like(r.out, rf'"changes": ?{len(d)}\b', f"{who}: ps counts the applied changes as the ended sandbox's own", r)
    tap.eq(sorted(os.listdir(os.path.join(c.state, "runs", n))),
           sorted(x for x in os.listdir(os.path.join(c.state, "runs", n)) if "work" not in x),
           f"{who}: apply leaves no work directory in the ended sandbox")
    r, one = call(c, "n", "echo last >edit")
    r, two = call(c, "n", "cat edit; echo x >y; rm edit")
    tap.eq(r.out, "after\n", f"{who}: a call does not see the changes of another call that is not applied", r)
    tap.eq(c("rm", "n").code, 0, f"{who}: rm of a sandbox with calls succeeds")
    r = c("apply", "-y", one)
    tap.ok(r.code == 125 and "is gone" in r.err and "coffer diff" in r.err,
           f"{who}: apply of a call is refused when its sandbox is removed", r)
    tap.eq((diff(c, one), diff(c, two)), ({"edit": "M"}, {"y": "A", "edit": "D"}),
           f"{who}: diff of a call works when its sandbox is removed")
    tap.eq(c("discard", one, two).code, 0, f"{who}: discard of calls works when their sandbox is removed")
    tap.eq(runs(c), [], f"{who}: no run is left after the calls are discarded")


RACING = r"""
mkdir big; for i in $(seq 60); do echo $i >big/$i; done; echo 0 >x; echo 0 >y; touch ready
i=0
while :; do
	i=$((i + 1)); echo $i >tx; mv tx x; echo $i >ty; mv ty y
	rm -rf f; case $((i % 4)) in 0) mkfifo f ;; 1) ln -s /etc/passwd f ;; 2) mkdir f ;; 3) echo f >f ;; esac
done
"""
CONSISTENT = r"x=$(cat x); y=$(cat y); [ $x = $y ] || [ $x = $((y + 1)) ] || echo torn $x $y; cat big/* | sort -n | uniq | wc -l; " \
    r"[ ! -f f ] || cat f | grep -v '^f$\|^$\|:'; true"


def racing(c, who):
    """A sandbox that replaces its files all the time, many calls at once, and one that is stopped meanwhile."""
    write_all(c)
    start(c, "r", "--ephemeral", script=RACING)
    some = [c.popen("call", "-q", "--from", "r", "--workspace", "--", "sh", "-c", CONSISTENT) for _ in range(4)]
    got = [p.communicate(timeout=300 * slow_build()) + (p.returncode,) for p in some]
    tap.ok(all(out.split() == [b"60"] for out, _, _ in got), f"{who}: each of four calls at once sees the workspace at one instant", *got)
    r, one = call(c, "r", "echo mine >m; rm big/7; cat x >seen")
    tap.eq(diff(c, one), {"m": "A", "big/7": "D", "seen": "A"}, f"{who}: a call over an --ephemeral workspace has its own diff", r)
    r = c("apply", "-y", one)
    if reaches(who):
        tap.eq(r.code, 0, f"{who}: apply of a call works while an --ephemeral sandbox writes", r)
        tap.eq(c("exec", "r", "--", "sh", "-c", "cat m; ls big/7 2>/dev/null").out, "mine\n",
               f"{who}: the --ephemeral sandbox sees the applied changes")
    else:
        tap.ok(r.code == 125 and "coffer stop" in r.err, f"{who}: apply of a call is refused while the --ephemeral sandbox runs", r)
        tap.eq(c("discard", one).code, 0, f"{who}: discard of a call that was refused succeeds")
    p = c.popen("call", "-q", "--from", "r", "--workspace", "--", "sh", "-c", CONSISTENT)
    c("stop", "-t", "0s", "r")
    out, err = p.communicate(timeout=300 * slow_build())
    left = b"59" if reaches(who) else b"60"  # big/7 went where the call could be applied
    tap.ok((p.returncode == 0 and out.split() == [left]) or (p.returncode == 125 and err and not out),
           f"{who}: a call during the sandbox's end sees a whole workspace, or is an error", p.returncode, out, err)
    r, _ = call(c, "r", "true")
    tap.ok(r.code == 125 and "nothing is left" in r.err, f"{who}: a call over an --ephemeral sandbox that has ended is refused", r)
    c("rm", "r")
    until(lambda: not runs(c), f"{who}: no run is left of the --ephemeral sandbox and its calls")


def each(c, who):
    """One that has a checkpoint after each command has one after an apply too, and one to go back to."""
    c.write("f", "f\n")
    start(c, "e", "--checkpoint", "each", script="echo g >f; touch ready; exec sleep 1000")
    _, one = call(c, "e", "echo h >f")
    r = c("apply", "-y", one)
    tap.eq(r.code, 0, f"{who}: apply of a call into a sandbox with --checkpoint each succeeds", r)
    r = c("checkpoint", "ls", "e")
    tap.like(r.out, rf"apply {one}", f"{who}: apply of a call makes a checkpoint with --checkpoint each", r)
    r = c("rollback", "e", "c1")
    tap.eq(r.code, 0, f"{who}: rollback to before the apply succeeds", r)
    # Its command starts once more, and takes a moment to write again.
    until(lambda: c("exec", "e", "--", "cat", "f").out == "g\n", f"{who}: the workspace is what it was before the apply")
    c("stop", "-t", "0s", "e")
    c("rm", "e")


def checkpoints(c, name):
    return [(x["checkpoint"], x["label"]) for x in json.loads(c("checkpoint", "ls", name, "--json").out)["checkpoints"]]


def taken_back(c, who):
    """One that was started without checkpoints: what a call brought can be taken back all the same, unless told otherwise."""
    c.write("f", "f\n")
    start(c, "p", script="echo g >f; touch ready; exec sleep 1000")
    _, one = call(c, "p", "echo h >f")
    if not reaches(who):
        c("stop", "-t", "0s", "p")
    r = c("apply", "-y", "--checkpoint", "off", one)
    tap.eq(r.code, 0, f"{who}: apply --checkpoint off succeeds", r)
    tap.eq(checkpoints(c, "p"), [], f"{who}: apply --checkpoint off makes no checkpoint")
    _, two = call(c, "p", "echo i >f; echo j >k")
    tap.eq(c("apply", "-n", two).code, 0, f"{who}: apply -n succeeds")
    tap.eq(checkpoints(c, "p"), [], f"{who}: apply -n makes no checkpoint")
    r = c("apply", "-y", two)
    tap.ok(r.code == 0 and re.search(r"coffer rollback \w+ c1 takes it back", r.err),
           f"{who}: apply of a call names the rollback that takes it back", r)
    tap.eq(checkpoints(c, "p"), [("c1", f"before apply {two}"), ("c2", f"apply {two}")],
           f"{who}: apply of a call makes a checkpoint before and after it")
    tap.eq(diff(c, "p").get("k"), "A", f"{who}: the sandbox has the call's file after apply")
    r = c("rollback", "p", "c1")
    tap.eq(r.code, 0, f"{who}: rollback to the checkpoint before the apply succeeds", r)
    tap.eq(diff(c, "p").get("k"), None, f"{who}: the call's file is gone after the rollback")
    r = c("apply", "--checkpoint", "never", "p")
    tap.ok(r.code == 2 and "each" in r.err, f"{who}: apply --checkpoint refuses another word", r)
    c("stop", "-t", "0s", "p")
    c("rm", "p")


def bound(c, who):
    """A workspace that was given through is the directory itself."""
    shutil.rmtree(c.work)
    os.mkdir(c.work)
    c.own(c.work)
    c.write("f", "f\n")
    r = c("run", "-q", "-d", "--name", "b", "-C", c.work + ":rw", "--", "sleep", "1000")
    tap.eq(r.code, 0, f"{who}: a sandbox with a workspace mounted writable starts", r)
    r, one = call(c, "b", "cat f; echo g >g", cwd=c.home)
    tap.eq(r.out, "f\n", f"{who}: a call over a workspace mounted writable sees the directory", r)
    tap.eq(os.path.exists(os.path.join(c.work, "g")), False, f"{who}: a call over a workspace mounted writable writes to a layer")
    tap.eq(c("apply", "-y", one).code, 0, f"{who}: apply of a call over a workspace mounted writable succeeds")
    tap.eq(os.path.exists(os.path.join(c.work, "g")), True,
           f"{who}: apply of a call over a workspace mounted writable writes to the directory")
    c("stop", "-t", "0s", "b")
    c("rm", "b")


def killed(c, who):
    """Killed before each call that changes something: what was being made is gone, the sandbox runs on."""
    c.write("base", "base\n")
    n = start(c, "k", script="mkdir -p a/b; echo 1 >a/b/f; ln a/b/f h; ln -s x l; mkfifo p; rm base; touch ready; exec sleep 1000")
    killat = os.path.join(c.bin, "killat")
    shutil.copy(KILLAT, killat)
    problems, step, hit = [], 0, True
    while hit and step < 900 and len(problems) < 5:
        step += 1 if step < 20 else 7
        r = c(program=[killat, str(step), c.exe, "call", "-q", "--engine", "ns", "--from", "k", "--workspace", "--", "cat", "a/b/f"])
        hit = r.code == 137
        if not hit and (r.code, r.out) != (0, "1\n"):
            problems.append(f"step {step}: {r}")
        end = time.monotonic() + 90 * slow_build()
        while runs(c) != [n] and time.monotonic() < end:
            c("ps", "-a")  # whoever comes next clears up what two deaths left
            time.sleep(0.02)
        if runs(c) != [n]:
            problems.append(f"step {step}: left: {runs(c)} {os.listdir(os.path.join(c.state, 'runs', runs(c)[0]))}")
        r = c("exec", "k", "--", "cat", "h")
        if r.out != "1\n":
            problems.append(f"step {step}: the sandbox: {r}")
    tap.ok(not problems and step > 50, f"{who}: a call that was killed at {step} steps leaves nothing, and the sandbox goes on", *problems)
    for alive in (True, False) if reaches(who) else (False,):
        if not alive:
            c("stop", "-t", "0s", "k")
        killed_applying(c, who, n, killat, alive)
    c("rm", "k")


def killed_applying(c, who, n, killat, alive):
    """The same for the way back: whatever was done before, the next one brings the rest."""
    _, one = call(c, "k", "echo 2 >a/b/f; mkdir -p q/r; echo s >q/r/s; ln -s y m; rm -f l; chmod 700 a", "--engine", "ns")
    problems, step, hit = [], 0, True
    while hit and step < 400 and len(problems) < 5:
        step += 3
        # a directory whose mode the one before had set counts as changed by somebody
        end = time.monotonic() + 90 * slow_build()
        r = c(program=[killat, str(step), c.exe, "apply", "-y", one, "--force", "a"])
        # who was killed before may have had a helper, which is about to end
        while "in use by another coffer command" in r.err and time.monotonic() < end:
            time.sleep(0.05)
            r = c(program=[killat, str(step), c.exe, "apply", "-y", one, "--force", "a"])
        hit = r.code == 137
        if alive and c("exec", "k", "--", "test", "-e", "h").code != 0:
            problems.append(f"step {step}: it does not go on")
        if not hit and "no changes any more" in r.err:
            r = c("rm", one)  # the one before was killed while it forgot the call: all had gone
        gone = f"there is no run '{one}'" in r.err  # the same, and somebody has cleared up since
        if not hit and ((r.code != 0 and not gone) or runs(c) != [n]):
            problems.append(f"step {step}: {r} {runs(c)}")
        hit = hit and runs(c) != [n]
    r, two = call(c, "k", "cat a/b/f q/r/s; readlink m; stat -c %a a; ls l 2>&1 | wc -l; rm -r q m; ln -s x l; echo 1 >a/b/f; chmod 755 a",
                  "--engine", "ns")
    tap.eq((problems, r.out), ([], "2\ns\ny\n700\n1\n"),
           f"{who}: apply that was killed at {step} steps completes when repeated, into a sandbox that {'runs' if alive else 'has ended'}", r)
    r = c("apply", "-y", two)
    tap.eq((r.code, runs(c)), (0, [n]), f"{who}: a call that takes the changes back is applied", r)


def inside(c, who):
    """All in one user namespace, as in a container."""
    c.write("f", "f\n")
    r = c(program=["sh", "-c", 'set -e; "$1" run -q -d --name i -- sh -c "echo g >f; exec sleep 1000" >/dev/null; '
                   'until "$1" exec i -- grep -q g f; do sleep 0.1; done; "$1" call -q --from i --workspace -- sh -c "echo h >>f"; '
                   '"$1" apply -y @last; "$1" exec i -- cat f; "$1" stop -t 0s i; "$1" rm i', "sh", c.exe])
    tap.eq((r.code, r.out), (0, "g\nh\n"), f"{who}: run, call and apply work inside one user namespace", r)


def owned(c, who):
    """Host root: files of several owners keep them, there and back, in a layer that a limit keeps."""
    for name, uid in (("u0", 0), ("u7", 1007)):
        os.chown(c.write(name, name + "\n", 0o600), uid, uid)
    start(c, "o", "--cap", "chown,dac_override,fowner", "--disk", "64M", script="echo n >>u7; echo m >m; chown 1008:1008 m; touch ready; exec sleep 1000")
    for alive in (True, False) if who.engine == "ns" else (False,):
        if not alive:
            c("stop", "-t", "0s", "o")
        r, one = call(c, "o", "stat -c %u:%n u0 u7 m; cat u7; echo c >>u7; echo w >w$1; chown 1009:1009 w",
                      "--disk", "64M", "--cap", "chown,dac_override,fowner")
        tap.ok(r.out.startswith("0:u0\n1007:u7\n1008:m\n"), f"{who}: a call sees the owners of files", r)
        r = c("apply", "-y", one, "--allow-special", "w")
        tap.eq(r.code, 0,
               f"{who}: apply of files with owners succeeds {'while the sandbox runs' if alive else 'after its sandbox ended'}", r)
        r = c("call", "-q", "--from", "o", "--workspace", "--", "sh", "-c", "stat -c %u:%n u7 w; rm w")
        tap.eq(r.out, "1007:u7\n1009:w\n", f"{who}: files have their owners after apply", r)
        for i in runs(c):
            if os.path.isdir(os.path.join(c.state, "runs", i, "from")):
                c("discard", i)
        if alive:
            c("exec", "o", "--", "rm", "w")
    tap.eq(c("rm", "o").code, 0, f"{who}: rm of a sandbox with owners succeeds")


def mapped(c, who):
    """An ordinary user's sandbox whose files belong to subordinate ids that only a user namespace can read."""
    how = ("--map-ids", "--user", "0", "--cap", "chown,dac_override,fowner,fsetid")
    for engine in ("ns", "gvisor"):
        n = f"{who}: subordinate ids on {engine}"
        start(c, "m", "--engine", engine, *how,
              script="mkdir p; echo s >p/s; echo T=1 >p/.env; chmod 600 p/*; chmod 700 p; chown -R 5:6 p; touch ready; exec sleep 1000")
        for alive in (True, False) if engine == "ns" else (False,):
            if not alive:
                c("stop", "-t", "0s", "m")
            r, one = call(c, "m", "stat -c %u:%g:%n p p/s; cat p/s p/.env; echo more >>p/s; echo new >p/n; chown 7:7 p/n; echo o >o", *how)
            tap.ok(r.code == 0 and "5:6:p\n5:6:p/s\ns\n" in r.out and "T=1" not in r.out,
                   f"{n}: a call sees the files of subordinate ids, without credentials", r)
            r = c("apply", "-y", one, "--allow-special", "p")
            tap.ok(r.code == 0 and one not in runs(c),
                   f"{n}: apply works {'into a sandbox that runs' if alive else 'into a sandbox that has ended'}", r)
            r = c("call", "-q", "--from", "m", "--workspace", *how, "--", "sh", "-c", "stat -c %u:%g:%n p/s p/n; tail -n1 p/s; rm -r p; rm o")
            tap.eq(r.out, "5:6:p/s\n7:7:p/n\nmore\n", f"{n}: files have their subordinate owners after apply", r)
            tap.eq(c("discard", "@last").code, 0, f"{n}: discard of a call that removed files of subordinate ids succeeds")
        tap.eq((c("rm", "m").code, runs(c)), (0, []), f"{n}: no run is left")


# The short form, for the other identities on gVisor, leaves out races, binds and checkpoints: each is tried on gVisor as a user, and for
# every identity on ns.
for who, whole in covering(tap):
    with coffer_as(who) as c:
        write_all(c)
        n = start(c, "n", "--home", "hn")
        sees(c, who)
        changes(c, who, n)
        special(c, who)
        ended(c, who, n)
        if whole or who.engine == "ns":
            racing(c, who)
            bound(c, who)
        if who.engine == "ns":
            killed(c, who)
        if who == "userns" and who.engine == "ns":
            inside(c, who)
        if c.sub_ids:
            mapped(c, who)
        if whole or who.engine == "ns":
            if reaches(who):
                each(c, who)
            taken_back(c, who)
        if who == "root":
            owned(c, who)
        c.check_clean(tap)
tap.done()
