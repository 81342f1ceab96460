#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that coffer apply does not let out without a yes: repositories under any name, and the files that coffer itself obeys."""

import itertools
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import Coffer, Tap  # noqa: E402

tap = Tap()

BARE = """
mkdir -p sub/objects sub/refs
echo 'ref: refs/heads/main' > sub/HEAD
printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = .\\n\\tfsmonitor = "touch ran; false"\\n' > sub/config
echo plain > sub/plain.txt
"""

POLICY = "version: 1\negress:\n  allow:\n    - domain: example.com\n"
WIDER = POLICY + "    - domain: evil.example\n"


def fresh(c):
    """An empty project."""
    for r in c("ps", "-a", "-q").out.split():
        c("rm", "-f", r)
    for name in os.listdir(c.work):
        path = os.path.join(c.work, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def inside(c, script, *options):
    r = c("run", "-q", *options, "--", "sh", "-ec", script)
    if r.code:
        tap.ok(False, "the command inside works", r)
    return r


def exists(c, name):
    return os.path.lexists(os.path.join(c.work, name))


def text(c, name):
    with open(os.path.join(c.work, name), encoding="utf-8") as f:
        return f.read()


def git_status(c):
    """The next act of a person."""
    subprocess.run(["git", "-c", f"safe.directory={c.work}/sub", "status"], cwd=os.path.join(c.work, "sub"), check=False,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=c.env())
    return exists(c, "sub/ran")


def marked(text_, name):
    return any(f" {name}" in line and "coffer obeys it" in line for line in text_.splitlines())


def held(c, names, why, *also_out):
    """A plain apply leaves these behind, and lets the others out."""
    r = c("apply", "@last")
    out = [n for n in names if exists(c, n) and f"not applied: A {n}" not in r.err and f"not applied: M {n}" not in r.err]
    tap.ok(r.code == 1 and not out and all(exists(c, n) for n in also_out), why, r, out)


def test_repositories(c):
    inside(c, BARE)
    r = c("diff", "@last")
    tap.like(r.out, r"A sub/config: git may run or obey it: its directory is or becomes a git repository",
             "diff marks the configuration of an embedded repository", r)
    held(c, ["sub/config", "sub/HEAD", "sub/refs"], "an embedded repository does not go out unasked", "sub/plain.txt")
    tap.ok(not git_status(c), "git status runs nothing that came out")
    r = c("apply", "@last", "--allow", "sub")
    tap.ok(r.code == 1 and exists(c, "sub/HEAD") and not exists(c, "sub/config"),
           "a yes for the directory of an embedded repository is none for its configuration", r)
    r = c("apply", "@last", "--allow", "sub/config")
    tap.ok(r.code == 0 and git_status(c), "the configuration of an embedded repository goes out with its own yes, and git would have run it", r)

    for what, before, script, names in (
            ("only the configuration, to a repository of the host", ("HEAD", "objects/x", "refs/x"), "echo x > sub/config",
             ["sub/config"]),
            ("only the hooks, to a repository of the host", ("HEAD", "objects/x", "refs/x", "config"),
             "mkdir sub/hooks; echo x > sub/hooks/post-checkout", ["sub/hooks/post-checkout"]),
            ("the rest of a repository to a configuration that is there", ("config", "HEAD", "objects/x"),
             "mkdir sub/refs", ["sub/refs"]),
            ("HEAD, in small letters", ("objects/x", "refs/x"), "echo x > sub/head; echo y > sub/CONFIG",
             ["sub/head", "sub/CONFIG"]),
            ("links as parts", ("plain",), "(cd sub; ln -s plain HEAD; ln -s ../sub objects; ln -s plain refs; echo x > config)",
             ["sub/config", "sub/refs"]),
            ("a repository whose parts are elsewhere", ("plain",), "echo x > sub/HEAD; echo ../o > sub/commondir; mkdir o; echo x > o/config",
             ["sub/HEAD", "sub/commondir"]),
            ("a file that leads to a repository", ("plain",), "echo 'gitdir: ../x' > sub/.git", ["sub/.git"]),
            ("a repository under a name that looks empty", ("plain",),
             "mkdir -p \"sub/$(printf '.g\\342\\200\\214it')\"; echo x > \"sub/$(printf '.g\\342\\200\\214it')/config\"",
             ["sub/.g\u200cit/config"]),
            ("a repository under a name with a dot behind", ("plain",), "mkdir 'sub/.git.'; echo x > 'sub/.git./config'",
             ["sub/.git./config"])):
        fresh(c)
        for name in before:
            c.write(f"sub/{name}", "x")
        inside(c, f"{script}; echo ok > plain.txt")
        held(c, names, f"{what} does not go out unasked", "plain.txt")

    fresh(c)
    inside(c, "mkdir sub; echo x > sub/HEAD; echo y > sub/config; mkdir sub/objects")
    r = c("apply", "@last")
    tap.eq(r.code, 0, "parts that make no repository are ordinary files", r)
    inside(c, "mkdir sub/refs; echo z > other.txt")
    held(c, ["sub/refs"], "the part that completes a repository in a second apply does not go out unasked", "other.txt")


def test_own_files(c):
    """All files that coffer obeys."""
    other = os.path.join(c.dir, "other")
    os.mkdir(other)
    c.own(other)

    def story(what, files, link, option, script, names, allow=None):
        fresh(c)
        for name, content in files.items():
            c.write(name, content, 0o600)
        if link:
            os.symlink(link[1], os.path.join(c.work, link[0]))
        before = {n: text(c, n) for n in files}
        inside(c, f"{script}; echo ok > plain.txt", *option)
        r = c("apply", "@last")
        tap.ok(r.code == 1 and exists(c, "plain.txt") and all(exists(c, n) and text(c, n) == before[n] for n in files),
               f"{what} does not go out unasked", r)
        tap.ok(all(marked(r.err, n) for n in names), f"{what}: apply says that coffer obeys it", r)
        r = c("diff", "@last")
        tap.ok(all(marked(r.out, n) for n in names), f"{what}: diff marks it", r)
        r = c("apply", "@last", *(w for n in allow or names for w in ("--allow", n)))
        tap.eq(r.code, 0, f"{what} goes out with a yes of its own", r)

    wider = "printf '%s' \"$(cat policy.yaml)\n    - domain: evil.example\n\" > new; mv new policy.yaml"
    story("the run's own policy", {"policy.yaml": POLICY}, None, ("--policy", "policy.yaml"), wider, ["policy.yaml"])
    tap.ok("evil.example" in text(c, "policy.yaml"), "the guarded file that went out is what the sandbox wrote")

    fresh(c)
    c.write("policy.yaml", POLICY, 0o600)
    inside(c, "true", "--policy", "policy.yaml")
    inside(c, "echo '    - domain: evil.example' >> policy.yaml")
    r = c("apply", "@last")
    tap.ok(r.code == 1 and text(c, "policy.yaml") == POLICY and "+    - domain: evil.example" in r.err,
           "the policy of another run does not go out unasked, and its change is shown", r)
    r = c("diff", "@last")
    tap.ok("+    - domain: evil.example" in r.out, "diff shows the change of a policy also without -p", r)

    story("a policy that a link leads to", {"conf/real.yaml": POLICY}, ("policy.yaml", "conf/real.yaml"),
          ("--policy", "policy.yaml"), "echo '    - domain: evil.example' >> policy.yaml", ["conf/real.yaml"])
    story("a link that leads to a policy", {"conf/real.yaml": POLICY, "wide.yaml": WIDER}, ("policy.yaml", "conf/real.yaml"),
          ("--policy", "policy.yaml"), "ln -sf wide.yaml policy.yaml", ["policy.yaml"])
    story("a directory on the way to a policy", {"conf/policy.yaml": POLICY, "wide/policy.yaml": WIDER}, None,
          ("--policy", "conf/policy.yaml"), "rm -r conf; ln -s wide conf", ["conf", "conf/policy.yaml"])
    story("a blocklist that the policy names", {"policy.yaml": POLICY + "  blocklists: [{category: ads, file: ads.txt}]\n",
                                                "ads.txt": "ads.example\n"}, None,
          ("--policy", "policy.yaml"), "echo > ads.txt", ["ads.txt"])
    story("a profile that was named", {"me.yaml": "version: 1\nabout: x\ncommand: sh\n"}, None,
          ("--profile", "./me.yaml", "--no-tty"), "echo 'allow: [evil.example]' >> me.yaml", ["me.yaml"])

    fresh(c)
    c.write("policy.yaml", POLICY, 0o600)
    inside(c, "true", "--policy", "policy.yaml")
    os.unlink(os.path.join(c.work, "policy.yaml"))
    inside(c, "printf 'version: 1\n' > policy.yaml; echo x > policy.yml")
    held(c, ["policy.yaml"], "a policy that is gone does not come back unasked", "policy.yml")

    fresh(c)
    config = c.write("config/cofferdam/notify.yaml", "version: 1\n", 0o600)
    env = {"XDG_CONFIG_HOME": os.path.dirname(os.path.dirname(config))}
    inside(c, "echo x > config/cofferdam/new.yaml; echo y > config/other")
    r = c("apply", "@last", env=env)
    tap.ok(r.code == 1 and not exists(c, "config/cofferdam/new.yaml") and exists(c, "config/other"),
           "a file in the user's configuration of coffer does not go out unasked", r)

    fresh(c)
    for name in ("tools/token.sh", "tools/other.sh"):
        c.write(name, "echo value-$(seq -s- 1 20)\n", 0o700)
    for name, command in (("kept", f"cd /; {c.work}/tools/token.sh 2>/dev/null"), ("once", f"{c.work}/tools/other.sh")):
        every = ("--every", "10h") if name == "kept" else ()
        r = c("secret", "set", name, "--command", command, *every, "--host", "api.example.com")
        tap.eq(r.code, 0, f"(a secret that a command makes: {name})", r)
    inside(c, "echo 'touch ran' >> tools/token.sh; echo true >> tools/other.sh; echo x > plain.txt")
    r = c("apply", "@last")
    tap.ok(r.code == 1 and marked(r.err, "tools/token.sh") and "touch ran" not in text(c, "tools/token.sh"),
           "a script that coffer runs again and again for a secret does not go out unasked", r)
    tap.ok("true" in text(c, "tools/other.sh") and exists(c, "plain.txt"),
           "(a script that coffer ran once for a secret, and other files, go out unasked)", r)
    r = c("apply", "@last", "--allow", "tools/token.sh")
    tap.ok(r.code == 0 and "touch ran" in text(c, "tools/token.sh"),
           "a script that coffer runs again for a secret goes out with a yes of its own", r)


def test_shared(c):
    """Bound through, a directory must not hold what coffer obeys."""
    fresh(c)
    hard = c.write("policy.yaml", POLICY, 0o600)
    other = os.path.join(c.dir, "rw")
    os.mkdir(other)
    c.own(other)
    with_hard = ("run", "-q", "--policy", "policy.yaml", "-v", f"{other}:/mnt:rw", "--", "true")
    r = c(*with_hard)
    tap.eq(r.code, 0, "a policy outside of what is mounted writable is fine", r)
    os.link(hard, os.path.join(other, "same.yaml"))
    r = c(*with_hard)
    tap.ok(r.code == 125 and "hard links" in r.err, "a policy that has another name is denied beside a writable bind", r)
    os.unlink(os.path.join(other, "same.yaml"))

    elsewhere = c.write("../rw/policy.yaml", POLICY, 0o600)
    if os.getuid() == 0:
        mounted(c, other, elsewhere)
    first = c("run", "-d", "-q", "--name", "first", "--policy", elsewhere, "--", "sleep", "100")
    writes = ("run", "-q", "-v", f"{other}:/mnt:rw", "--", "echo", "ran")
    r = c(*writes)
    tap.ok(r.code == 125 and "obeys" in r.err and not r.out,
           "a directory is not mounted writable while a running sandbox obeys a policy in it", r, first)
    r = c(writes[0], "--i-know", *writes[1:])
    tap.eq(r.out, "ran\n", "--i-know binds a directory through although a running sandbox obeys a policy in it", r)
    c("stop", "first")
    r = c(*writes)
    tap.eq(r.out, "ran\n", "a directory is mounted writable once the sandbox that obeyed its policy has ended", r)

    c("run", "-d", "-q", "--name", "second", "-v", f"{other}:/mnt:rw", "--", "sleep", "100")
    obeys = ("run", "-q", "--policy", elsewhere, "--", "echo", "ran")
    r = c(*obeys)
    tap.ok(r.code == 125 and "can write to" in r.err and not r.out,
           "a policy is not obeyed while a running sandbox can write to it", r)
    r = c(obeys[0], "--i-know", *obeys[1:])
    tap.eq(r.out, "ran\n", "--i-know obeys a policy that a running sandbox can write to", r)
    c("stop", "second")


def mounted(c, other, policy):
    """Another mount of a directory is the same directory."""
    view = os.path.join(c.dir, "view")
    os.mkdir(view)
    subprocess.run(["mount", "--bind", other, view], check=True)
    r = c("run", "-q", "--policy", policy, "-v", f"{view}:/mnt:rw", "--", "echo", "ran")
    tap.ok(r.code == 125 and "may write to" in r.err and not r.out, "a policy is denied in another mount of what is mounted writable", r)
    r = c("run", "-q", "--policy", os.path.join(view, "policy.yaml"), "-v", f"{other}:/mnt:rw", "--", "echo", "ran")
    tap.ok(r.code == 125 and not r.out, "a policy that is named by another mount of what is mounted writable is denied", r)
    c("run", "-d", "-q", "--name", "third", "--policy", policy, "--", "sleep", "100")
    r = c("run", "-q", "-v", f"{view}:/mnt:rw", "--", "echo", "ran")
    tap.ok(r.code == 125 and "obeys" in r.err and not r.out,
           "a policy of another sandbox is denied in another mount of what is mounted writable", r)
    c("rm", "-f", "third")
    subprocess.run(["umount", view], check=True)
    new = os.path.join(view, "new.yaml")
    subprocess.run(["mount", "--bind", c.work, view], check=True)
    c.write("new.yaml", POLICY, 0o600)
    inside(c, "true", "--policy", new)
    os.unlink(new)
    inside(c, "printf 'version: 1\n' > new.yaml")
    held(c, ["new.yaml"], "a policy that was named by another mount of the workspace does not come back unasked")
    subprocess.run(["umount", view], check=True)


BELOW = ["workflows/ci.yml", "post-commit", "plain"]


def test_above(c):
    """A workspace that is in a directory which the host obeys by its name."""
    fresh(c)
    for where, wanted in (("into/hooks", []), ("into/.github", ["workflows/ci.yml"]), ("into/.git/hooks", BELOW)):
        os.makedirs(os.path.join(c.work, where))
        c.own(os.path.join(c.work, where))
        c("run", "-q", "-C", where, "--", "sh", "-c", "mkdir workflows; touch workflows/ci.yml post-commit plain")
        r = c("apply", "-y", "@last")
        held = [n for n in BELOW if not exists(c, f"{where}/{n}")]
        tap.ok(held == wanted and r.code == (1 if wanted else 0), f"apply to {where} also judges by the names of the directories above", held, r)
        if wanted:
            r = c("apply", "-y", "--allow", wanted[0].split("/", maxsplit=1)[0], "@last")
            tap.ok(exists(c, f"{where}/{wanted[0]}"), f"apply to {where} brings out a file that has a yes", r)
            c("discard", "@last")


def cp_part_by_part(c):
    """Each copy brings a part that is harmless alone, in every order."""
    c("exec", "box", "--", "sh", "-c", "mkdir -p /tmp/one/run/hooks /tmp/one/head /tmp/one/objects/objects /tmp/one/refs/refs; cd /tmp/one; "
      "echo x > run/config; echo x > run/hooks/pre-commit; echo 'ref: refs/heads/x' > head/HEAD")
    bad = []
    for i, order in enumerate(itertools.permutations(("run", "head", "objects", "refs"))):
        where = f"pieces/{i}"
        os.makedirs(os.path.join(c.work, where))
        c.own(os.path.join(c.work, where))
        results = [c("cp", f"box:/tmp/one/{part}/.", where) for part in order]
        repository = all(exists(c, f"{where}/{n}") for n in ("HEAD", "objects", "refs"))
        obeyed = exists(c, f"{where}/config") or exists(c, f"{where}/hooks/pre-commit")
        if (repository and obeyed) or sorted(r.code for r in results) != [0, 0, 0, 1]:
            bad.append((order, [(r.code, r.err) for r in results]))
    tap.eq(bad, [], "copies of one part each make no repository with a configuration or hooks, in any order")
    os.makedirs(os.path.join(c.work, "named-parts"))
    c.own(os.path.join(c.work, "named-parts"))
    codes = [c("cp", f"box:/tmp/one/{p}", "named-parts/").code for p in ("run/config", "run/hooks", "head/HEAD", "objects/objects")]
    last = c("cp", "box:/tmp/one/refs/refs", "named-parts/")
    tap.ok(codes == [0] * 4 and last.code == 1 and not exists(c, "named-parts/refs"), "cp of a last part that is named itself makes no repository with a configuration or hooks", codes, last)
    tap.ok("[--allow config --allow hooks]" in last.err and last.err.count("not copied: ") == 1, "cp names all files that git would run or obey in one line", last)
    r = c("cp", "--allow", "config", "box:/tmp/one/refs/refs", "named-parts/")
    tap.ok(r.code == 1 and "[--allow hooks]" in r.err, "cp with a yes for the configuration alone asks for the hooks", r)
    r = c("cp", "--allow", "config", "--allow", "hooks", "box:/tmp/one/refs/refs", "named-parts/")
    tap.ok(r.code == 0 and exists(c, "named-parts/refs"), "cp with a yes for the configuration and the hooks copies the last part", r)


def test_cp(c):
    """coffer cp out of a sandbox goes by the same list for what is below a directory."""
    fresh(c)
    c.write("out/tree/policy.yaml", POLICY, 0o600)
    inside(c, "true", "--policy", "out/tree/policy.yaml")
    c("run", "-d", "-q", "--name", "box", "--", "sh", "-c", f"cd /tmp; mkdir tree; cd tree; {BARE} echo x > .envrc; "
      "echo evil > policy.yaml; echo ok > plain.txt; mkdir -p .github/workflows; echo x > .github/workflows/ci.yml; "
      "ln -s plain.txt .mcp.json; mkdir -p /tmp/below/workflows; cd /tmp/below; touch workflows/ci.yml post-commit plain; touch /tmp/done; exec sleep 100")
    c("exec", "box", "--", "sh", "-c", "while [ ! -e /tmp/done ]; do sleep 0.02; done")
    r = c("cp", "box:/tmp/tree", "out")
    parts = [p for p in ("HEAD", "objects", "refs") if exists(c, f"out/tree/sub/{p}")]
    tap.ok(r.code == 1 and exists(c, "out/tree/plain.txt") and exists(c, "out/tree/sub/plain.txt") and
           not any(exists(c, f"out/tree/{n}") for n in (".envrc", ".github/workflows/ci.yml", ".mcp.json")),
           "cp of a directory leaves triggers behind", r)
    tap.ok(len(parts) < 3 or not exists(c, "out/tree/sub/config"), "cp of a directory makes no repository with a configuration", parts, r)
    tap.ok(text(c, "out/tree/policy.yaml") == POLICY and marked(r.err, "tree/policy.yaml"),
           "cp of a directory does not replace a policy", r)
    r = c("cp", "--allow", "tree/.envrc", "--allow", "tree/policy.yaml", "box:/tmp/tree", "out")
    tap.ok(r.code == 1 and exists(c, "out/tree/.envrc") and text(c, "out/tree/policy.yaml") == "evil\n",
           "cp copies triggers and policies that have a yes", r)
    parts = "echo x > HEAD; mkdir objects refs;"
    c("exec", "box", "--", "sh", "-c", f"mkdir -p /tmp/parts/first /tmp/parts/last; cd /tmp/parts/first; echo x > config; {parts} "
      f"cd ../last; {parts} echo x > config")
    r = c("cp", "box:/tmp/parts", "out")
    order = {d: c("exec", "box", "--", "ls", "-U", f"/tmp/parts/{d}").out.split() for d in ("first", "last")}
    late = [d for d, names in order.items() if names[-1:] == ["config"]]
    tap.ok(r.code == 1 and late and not any(exists(c, f"out/parts/{d}/config") for d in late),
           "cp lets out no configuration of a repository whose other parts it holds back", order, r)
    r = c("cp", "--allow", "parts", "box:/tmp/parts", "out")
    whole = [d for d in order if all(exists(c, f"out/parts/{d}/{n}") for n in ("HEAD", "objects", "refs", "config"))]
    tap.ok(r.code == 1 and not whole, "a yes for the directory copies no configuration of a repository, in any order of the files", whole, r)
    r = c("cp", "--allow", "parts", *(x for d in order for x in ("--allow", f"parts/{d}/config")), "box:/tmp/parts", "out")
    tap.ok(r.code == 0 and all(exists(c, f"out/parts/{d}/{n}") for d in order for n in ("HEAD", "objects", "refs", "config")),
           "a yes for the directory and one for the configuration make the repository", r)
    cp_part_by_part(c)
    for where, wanted in (("into/hooks", []), ("into/.github", ["workflows/ci.yml"]), ("into/.git/hooks", BELOW)):
        os.makedirs(os.path.join(c.work, where))
        r = c("cp", "box:/tmp/below/.", where)
        held = [n for n in BELOW if not exists(c, f"{where}/{n}")]
        tap.ok(held == wanted and r.code == (1 if wanted else 0), f"cp to {where} also judges by the names of the directories above", held, r)
    r = c("cp", "--allow", "post-commit", "box:/tmp/below/.", "into/.git/hooks")
    tap.ok(exists(c, "into/.git/hooks/post-commit"), "cp copies a hook that has a yes into .git", r)
    r = c("cp", "box:/tmp/tree/.envrc", "named")
    tap.ok(r.code == 0 and exists(c, "named"), "cp copies a file that is named itself", r)
    c("stop", "box")


UNSEEN = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u115f\u3164\u180e\u2800\ufe0f\U000e0041\u0301"


def test_unseen(c):
    """Two names that look the same on a terminal are not shown the same."""
    fresh(c)
    inside(c, "mkdir d; " + " ".join(f"echo x > 'd/a{ch}b'; ln -s /etc 'd/l{ch}';" for ch in UNSEEN))
    for args in (("diff", "@last"), ("apply", "--dry-run", "@last"), ("apply", "-y", "@last")):
        r = c(*args)
        shown = r.out + r.err
        tap.eq([f"{ord(ch):04x}" for ch in UNSEEN if ch in shown], [], f"{' '.join(args)} shows no invisible character as it is", r)
        if "-y" not in args:
            tap.eq([f"{ord(ch):04x}" for ch in UNSEEN if f"a\\u{{{ord(ch):04x}}}b" not in shown], [], f"{' '.join(args)} shows each by its number", r)
    c("run", "-d", "-q", "--name", "box", "--", "sh", "-c", "mkdir /tmp/t; ln -s /etc '/tmp/t/l\u200b'; touch /tmp/done; exec sleep 100")
    c("exec", "box", "--", "sh", "-c", "while [ ! -e /tmp/done ]; do sleep 0.02; done")
    r = c("cp", "box:/tmp/t", "seen")
    tap.ok("\u200b" not in r.err and "not copied: seen/l\\u{200b}: " in r.err and "[--allow-special $'seen/l\\xe2\\x80\\x8b']" in r.err,
           "cp shows no invisible character as it is", r)
    c("stop", "box")


def test_log(c):
    """Every name is in the log, however many there are."""
    fresh(c)
    many, long = 3000, "a long name " * 18
    inside(c, f"mkdir d; cd d; i=0; while [ $i -lt {many} ]; do : > \"{long}$i\"; i=$((i+1)); done; "
           "printf x > \"$(printf 'odd\\377\\nname')\"; printf x > \"$(printf '\\303\\244')\"")
    names = {f"d/{long}{i}" for i in range(many)} | {"d", "d/\u00e4"}
    r = c("apply", "@last")
    tap.eq(r.code, 0, "thousands of files go out", r.err[-500:])
    events = [json.loads(line) for line in c("audit", "--json", "-n", "20").out.splitlines()]
    while events and not (events[0]["type"] == "workspace.apply" and events[0]["going"] > 100):
        events.pop(0)
    tap.ok([e["type"] for e in events[:3]] == ["workspace.apply", "workspace.apply.more", "workspace.applied"],
           "the files that one line of the log cannot hold are in the next", [e["type"] for e in events])
    logged = [n for e in events if e["type"].startswith("workspace.apply") for n in e.get("paths", []) + e.get("by_hand", [])]
    odd = [n for e in events for n in e.get("paths_bytes", [])]
    tap.ok(len(logged) == len(set(logged)) and set(logged) == names, "the log names each of thousands of files once",
           len(logged), sorted(names ^ set(logged))[:5])
    tap.eq(odd, ["d/odd\xff\nname"], "a name that is no text is in the log byte by byte")
    tap.eq(events[0]["going"] if events else None, len(logged) + len(odd), "the first event of an apply says how many files there are")
    tap.eq(c("audit", "verify").code, 0, "the log verifies")


with Coffer("root" if os.getuid() == 0 else "user", "ns") as coffer:
    if shutil.which("git"):
        test_repositories(coffer)
    else:
        tap.skip("repositories", "git is not installed")
    test_own_files(coffer)
    test_shared(coffer)
    test_above(coffer)
    test_cp(coffer)
    test_unseen(coffer)
    test_log(coffer)
tap.done()
