#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One table feeds parser, --help, man pages and completions: each command and option must be in all of them."""

import json
import os
import pty
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import BUILD, ROOT, Coffer, Tap  # noqa: E402

LINES_MAX = {"call": 60, "mcp": 56, "run": 73, "secret": 40}  # others: 24
COLUMNS_MAX = 100

SRC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src")
tap = Tap()
coffer = Coffer()


def shown(option):
    """The option as --help shows it."""
    return f"--{option['name']}" + (f" {option['arg']}" if option["arg"] else "")


def check_overview(verbs):
    long = coffer("--help")
    tap.eq(long.code, 0, "--help exits 0", long)
    tap.ok(len(long.out.splitlines()) <= 60, "the overview fits a screen", long)
    for v in verbs:
        tap.like(long.out, rf"^  {v['name']} +{re.escape(v['help'])}$", f"the overview has {v['name']}")
    for args in (["-h"], ["help"]):
        tap.eq(coffer(*args).out, long.out, f"coffer {args[0]} prints the overview")
    none = coffer()
    tap.eq((none.code, none.out, none.err), (2, "", long.out), "coffer without a command prints the overview on stderr and exits 2", none)
    version = coffer("--version")
    tap.like(version.out, r"^coffer \d+\.\d+\.\d+\n$", "--version prints the version", version)
    tap.eq(coffer("version").out, version.out, "coffer version prints the same as --version")


def check_help(verb):
    name = verb["name"]
    r = coffer(name, "--help")
    lines = r.out.splitlines()
    tap.eq((r.code, r.err), (0, ""), f"{name} --help exits 0", r)
    tap.eq(lines[0] if lines else "", f"usage: coffer {name} {verb['synopsis']}", f"{name} --help begins with the usage")
    tap.ok(len(lines) <= LINES_MAX.get(name, 24), f"{name} --help is short", f"{len(lines)} lines", r.out)
    tap.ok(all(len(l) <= COLUMNS_MAX for l in lines), f"{name} --help is narrow", r.out)
    tap.eq(coffer("help", name).out, r.out, f"help {name} prints the same as {name} --help")
    tap.eq(coffer(name, "-h").out, r.out, f"{name} -h prints the same as {name} --help")
    for o in verb["options"]:
        if o["name"]:
            tap.ok(shown(o) in r.out and o["help"] in r.out, f"{name} --help shows --{o['name']}", r.out)


def check_parser(verb):
    """Each option of the table is taken: the error is about what follows it, not about the option."""
    name = verb["name"]
    for o in verb["options"]:
        if not o["name"]:
            continue
        for word in [f"--{o['name']}"] + ([f"-{o['short']}"] if o["short"] else []):
            r = coffer(name, word) if o["arg"] else coffer(name, word, "--no-such-option")
            wanted = f"--{o['name']} needs a value" if o["arg"] else "has no option --no-such-option"
            tap.ok(r.code == 2 and wanted in r.err, f"{name} takes {word}", r)


def swapped(name):
    """A slip of the hand: two letters in the wrong order, or one too many where all are the same."""
    for i in range(1, len(name) - 1):
        if name[i] != name[i + 1] and "-" not in name[i:i + 2]:
            return name[:i] + name[i + 1] + name[i] + name[i + 2:]
    return name + name[-1]


def check_nearest(verb):
    names = [o["name"] for o in verb["options"] if o["name"]] + ["help"]
    for name in names:
        slip = swapped(name)
        if slip in names:
            continue
        r = coffer(verb["name"], f"--{slip}")
        tap.ok(r.code == 2 and f"has no option --{slip}" in r.err and f"try: --{name}" in r.err and
               f"usage: coffer {verb['name']}" in r.err, f"{verb['name']} --{slip} names --{name}", r)


def check_errors():
    r = coffer("rnu")
    tap.ok(r.code == 2 and "there is no command 'rnu'" in r.err and "try: coffer run" in r.err, "rnu names run", r)
    r = coffer("frobnicate")
    tap.ok(r.code == 2 and "coffer help" in r.err, "an unknown command points to help", r)
    r = coffer("\x1b[31mred\x07")
    tap.ok(r.code == 2 and "\x1b" not in r.err and "\\x1b[31mred" in r.err, "an escape sequence is made harmless", r)
    r = coffer("version", "x" * 100000)
    tap.ok(r.code == 2 and len(r.err) < 3000, "a huge argument makes a short error", r)
    r = coffer("help", "dotcor")
    tap.ok(r.code == 2 and "coffer help doctor" in r.err, "help names the nearest command", r)
    with open("/dev/full", "wb") as full:
        p = coffer.popen("version", stdout=full)
        err = p.communicate(timeout=90)[1].decode()
    tap.ok(p.returncode == 125 and "cannot write to standard output" in err, "coffer version on a full disk is an error", err)
    p = coffer.popen(program=["sh", "-c", f"exec {coffer.exe} version >&- 2>&- <&-"])
    p.communicate(timeout=90)
    tap.eq(p.returncode, 0, "coffer with closed stdio exits without a crash")


# Words before an option with a wrong value, and options whose values only the host can judge: paths, names of other things, text.
WORDS = {"run": ["--", "true"], "call": ["--", "true"], "exec": ["x", "--", "true"], "cp": ["a", "x:/b"], "secret": ["set", "x"],
         "policy": ["check", "/x"], "image": ["ls"], "net": ["log"], "ask": ["ls"], "token": ["ls"], "gateway": ["status"],
         "notify": ["test"], "audit": [], "fork": ["x"]}
ANY = {"workspace", "show", "root", "policy", "report", "read", "from", "entrypoint", "digest", "reason", "label", "file",
       "command", "key-file", "key-credential", "sandbox", "type", "env-file", "runsc", "config", "to", "title"}
ANY_OF = {("run", "workdir"), ("call", "workdir"), ("apply", "allow"), ("cp", "allow"), ("cp", "allow-special"), ("apply", "allow-special"), ("apply", "force"),
          ("secret", "user"), ("policy", "allow"), ("policy", "graphql"), ("policy", "push"), ("policy", "preset")}


def check_values(verbs):
    """A value that can never be right is a wrong command line, whichever room notices it."""
    tried = 0
    for v in verbs:
        name = v["name"]
        ref = ["x"] if "REF" in v["synopsis"] else []
        for o in v["options"]:
            if not o["name"] or not o["arg"] or o["name"] in ANY or (name, o["name"]) in ANY_OF:
                continue
            tried += 1
            r = coffer(name, f"--{o['name']}=*/ ?\x01", *WORDS.get(name, ref))
            tap.ok(r.code == 2 and f"usage: coffer {name}" in r.err, f"{name} --{o['name']} with a wrong value exits 2", r)
    tap.ok(tried > 60, "the table has options with values to try", tried)
    for args in (["run", "-v", "x", "--", "true"], ["run", "-p", "0.0.0.0:80:80", "--", "true"], ["run", "-e", "A B=1", "--", "true"],
                 ["run", "--net", "none", "--allow", "x.test", "--", "true"], ["call", "--args", "{}", "--", "true"],
                 ["run", "--allow", "@policy", "--", "true"], ["run", "--allow", "@no-such", "--", "true"],
                 ["run", "--engine", "ns", "--runsc", "/x", "--", "true"], ["run", "--runsc", "/x@sha256:00", "--", "true"],
                 ["run"], ["call"], ["apply"], ["diff"], ["discard"], ["rm"], ["stop"], ["wait"], ["inspect"], ["start"],
                 ["restart"], ["logs"], ["prune", "x"], ["completion", "csh"], ["rm", "--all-ended", "x"]):
        r = coffer(*args)
        tap.ok(r.code == 2 and "usage: coffer" in r.err, f"coffer {' '.join(args)} exits 2", r)
    r = coffer("run", "-v", "/no/such:/x", "--", "true")
    tap.eq(r.code, 125, "a valid command line with a path that does not exist exits 125", r)
    r = coffer("run")
    tap.ok("run needs a command" in r.err and "try: coffer run -- " in r.err, "run without a command shows an example", r)


def check_habits(verbs):
    """Words of docker, git and systemctl get the command or option of ours that does it."""
    for word, ours in (("kill", "stop -t 0"), ("images", "image ls"), ("pull", "image pull"), ("rmi", "image rm"), ("top", "stats"),
                       ("attach", "logs -f"), ("commit", "checkpoint"), ("ls", "ps -a"), ("events", "audit -f")):
        r = coffer(word)
        tap.ok(r.code == 2 and f"coffer {ours}" in r.err, f"{word} points to coffer {ours}", r)
    for verb, option, ours in (("run", "read-only", "-C .:ro"), ("run", "label", "--name"), ("run", "hostname", "--name"),
                               ("run", "tmpfs", "--tmp-size"), ("run", "security-opt", "no-new-privileges"),
                               ("rm", "all", "--all-ended"), ("ps", "size", "ps -a"), ("exec", "user", "run --user")):
        r = coffer(verb, f"--{option}")
        tap.ok(r.code == 2 and f"has no option --{option}" in r.err and ours in r.err, f"{verb} --{option} points to {ours}", r)
    for option in ("foo", "bar", "xyz"):
        r = coffer("run", f"--{option}")
        tap.ok(r.code == 2 and "try:" not in r.err, f"run --{option}, which is like no option, has no suggestion", r)
    tap.eq(coffer("-v").out, coffer("version").out, "-v prints the version")
    # Taken for ours, or passed over: the error is about what follows.
    for args in (["-i"], ["-it"], ["--interactive"], ["--init"], ["--cap-drop", "ALL"], ["--cap-drop=ALL"], ["--cap-drop", "ALL", "--cap-drop", "NET_RAW"], ["--network", "none"],
                 ["--pids-limit", "99"], ["-u", "0"], ["--cap-add", "chown"]):
        r = coffer("run", *args, "--no-such-option")
        tap.ok(r.code == 2 and "has no option --no-such-option" in r.err, f"run takes {' '.join(args)}", r)
    r = coffer("run", "--network", "bridge", "--", "true")
    tap.ok(r.code == 2 and "--net cannot be 'bridge'" in r.err, "--network is --net, with its values", r)
    r = coffer("run", "--pids-limit", "many", "--", "true")
    tap.ok(r.code == 2 and "--pids" in r.err, "--pids-limit is --pids, with its values", r)
    known = {v["name"] for v in verbs}
    with open(os.path.join(SRC, "cli", "core", "habit.c"), encoding="utf-8") as f:
        named = set(re.findall(r"coffer ([a-z]+)", f.read()))
    tap.eq(named - known, set(), "every command that a hint names is there")


def check_mixed():
    """Options after the sandbox, where no command follows."""
    for args in (["stop", "x", "-t", "1"], ["logs", "x", "-f", "--tail", "5"], ["rm", "x", "-f"], ["shell", "x", "-w", "/"],
                 ["cp", "a", "x:/b", "-L"], ["restart", "x", "-t", "1"], ["stats", "x", "--no-stream"]):
        after = coffer(*args)
        before = coffer(args[0], *[a for a in args[1:] if a not in ("x", "a", "x:/b")],
                        *[a for a in args[1:] if a in ("x", "a", "x:/b")])
        tap.eq((after.code, after.err), (before.code, before.err), f"coffer {' '.join(args)} is the same with its options first")
        tap.ok(after.code != 2, f"coffer {' '.join(args)} is a valid command line", after)
    r = coffer("stop", "--", "-t")
    tap.ok(r.code == 125 and "'-t'" in r.err, "after -- an option is a name", r)
    r = coffer("logs", "x", "--no-such")
    tap.ok(r.code == 2 and "has no option --no-such" in r.err, "a wrong option after the name is noticed", r)


def check_completion():
    exe = os.path.join(BUILD, "coffer")
    for shell in ("bash", "zsh", "fish"):
        r = coffer(program=[exe, "completion", shell])
        with open(f"{BUILD}/dist/completion-{shell}", encoding="utf-8") as f:
            tap.eq((r.code, r.out), (0, f.read()), f"completion {shell} prints the script", r.err)


def on_terminal(env):
    """The look of an error on a terminal."""
    master, slave = pty.openpty()
    p = coffer.popen("nonsense-command", stderr=slave, env=env)
    p.wait(timeout=90)
    os.close(slave)
    text = os.read(master, 65536).decode()
    os.close(master)
    return text


def check_color():
    tap.ok("\x1b[" in on_terminal({"TERM": "xterm"}), "errors are coloured on a terminal")
    tap.ok("\x1b[" not in on_terminal({"TERM": "xterm", "NO_COLOR": "1"}), "errors are not coloured with NO_COLOR")
    tap.ok("\x1b[" not in on_terminal({"TERM": "dumb"}), "errors are not coloured on a dumb terminal")
    tap.ok("\x1b[" not in coffer("nonsense-command", env={"TERM": "xterm"}).err, "errors are not coloured in a pipe")


def roff_text(path):
    """A man page's source with the escapes that hide words taken out."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    return re.sub(r"\\f[BIRP]|\\&|\\(?=-)", "", text)


def literals(verb, option):
    """Words that people type as they are: the values of an option, and what the command does."""
    values = option["values"] or ""
    return set(re.findall(r"[a-z][a-z-]+", verb["synopsis"])) | (set(values.split()) if " " in values else set())


def check_capitals(verb, page):
    texts = [o["help"] for o in verb["options"] if o["name"] and re.match(r"[\w-]*", o["help"]).group() in literals(verb, o)]
    wrong = [t for t in texts if f"\n{t[0].upper()}{t[1:20]}" in page]
    tap.eq(wrong, [], f"coffer-{verb['name']}(1) begins no value and no act with a capital")
    return len(texts)


def check_man(verbs):
    literal = 0
    made = {f[:-2] for f in os.listdir(os.path.join(BUILD, "doc/man")) if f.endswith(".1")}
    if not made:
        tap.skip("man pages", "built without scdoc")
        return
    tap.eq(made, {"coffer"} | {f"coffer-{v['name']}" for v in verbs}, "each command has a man page, and no other page exists")
    main = roff_text(os.path.join(BUILD, "doc/man/coffer.1"))
    for v in verbs:
        tap.like(main, rf"coffer-{v['name']}\(1\)", f"coffer(1) names coffer-{v['name']}(1)")
        page = roff_text(os.path.join(BUILD, f"doc/man/coffer-{v['name']}.1"))
        missing = [o["name"] for o in v["options"] if o["name"] and f"--{o['name']}" not in page]
        tap.eq(missing, [], f"coffer-{v['name']}(1) has every option")
        tap.like(page, r"^\.SH DESCRIPTION", f"coffer-{v['name']}(1) describes the command")
        literal += check_capitals(v, page)
    tap.ok(literal > 20, "there are options whose text begins with a value or an act", literal)
    run = roff_text(os.path.join(BUILD, "doc/man/coffer-run.1"))
    tap.ok("\nnone, observe or enforce" in run and "\nSet or copy an environment" in run, "coffer-run(1) writes values as they are typed")
    form = roff_text(os.path.join(BUILD, "doc/man/coffer-policy.5"))
    with open(os.path.join(ROOT, "doc/policy.md"), encoding="utf-8") as f:
        keys = re.findall(r"^\| `(\w+)`", f.read(), re.M)
    tap.eq([k for k in keys if not re.search(rf"^{k}\b", form, re.M)], [], "coffer-policy(5) has every key of doc/policy.md")
    tap.ok(len(keys) > 20 and form.count("version: 1") >= 3, "coffer-policy(5) has its examples", keys)
    tap.eq([line for line in form.split("\n") if re.search(r"`(--|\w+ \w+ \w+)", line)], [], "code that is bold or in two lines of doc/policy.md is bold in coffer-policy(5)")
    tap.like(roff_text(os.path.join(BUILD, "doc/man/coffer-policy.1")), r"coffer-policy\(5\)", "coffer-policy(1) names coffer-policy(5)")


def words(verb):
    out = {"--help", "-h"}
    for o in verb["options"]:
        if o["name"]:
            out.add(f"--{o['name']}")
            if o["short"]:
                out.add(f"-{o['short']}")
    return out


def bash_completes(*line):
    script = (f"source {BUILD}/dist/completion-bash\nCOMP_WORDS=({' '.join(line)} \"$0\")\n"
              f"COMP_CWORD={len(line)}\n_coffer\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"")
    return script


def check_bash(verbs):
    def complete(*line, word=""):
        r = subprocess.run(["bash", "-c", bash_completes(*line), word], capture_output=True, text=True, check=False,
                           env=coffer.env({"PATH": f"{coffer.bin}:/usr/bin:/bin"}))
        return set(r.stdout.split()), r.stderr

    got, err = complete("coffer")
    tap.eq(got, {v["name"] for v in verbs} | {"--help", "--version"}, "bash completes commands", err)
    for v in verbs:
        got, err = complete("coffer", v["name"], word="-")
        tap.eq((got, err), (words(v), ""), f"bash completes the options of {v['name']}")
        for o in v["options"]:
            if o["name"] and o["arg"] and o["values"] and o["values"] not in ("file", "dir", "sandbox", "name"):
                got, _ = complete("coffer", v["name"], f"--{o['name']}")
                tap.eq(got, set(o["values"].split()), f"bash completes the values of {v['name']} --{o['name']}")


def check_fish(verbs):
    path = f"{BUILD}/dist/completion-fish"
    for v in verbs:
        r = subprocess.run(["fish", "--no-config", "-c", f"source {path}; complete -C 'coffer {v['name']} -'"],
                           capture_output=True, text=True, check=False,
                           env=coffer.env({"PATH": f"{coffer.bin}:/usr/bin:/bin"}))
        got = {l.split("\t")[0] for l in r.stdout.splitlines()}
        tap.ok(words(v) <= got and not r.stderr, f"fish completes the options of {v['name']}",
               sorted(words(v) - got), r.stderr)


def check_zsh(verbs):
    path = f"{BUILD}/dist/completion-zsh"
    r = subprocess.run(["zsh", "-f", "-n", path], capture_output=True, text=True, check=False)
    tap.eq((r.returncode, r.stderr), (0, ""), "zsh can read its completion")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    for v in verbs:
        part = re.search(rf"^\t{v['name']}\)$(.*?)^\t\t;;$", text, re.M | re.S)
        have = set(re.findall(r"'\*(--?[a-zA-Z-]+?)[=+]?\[", part.group(1))) if part else set()
        tap.eq(have, words(v), f"zsh completes the options of {v['name']}")


def check_shells(verbs):
    for shell, check in (("bash", check_bash), ("fish", check_fish), ("zsh", check_zsh)):
        if subprocess.run(["sh", "-c", f"command -v {shell}"], stdout=subprocess.DEVNULL, check=False).returncode:
            tap.skip(f"completion for {shell}", f"{shell} is not installed")
        else:
            check(verbs)


def main():
    dump = coffer("help", "--dump-json")
    verbs = json.loads(dump.out)["verbs"]
    tap.ok(len(verbs) >= 15, "every command is in the table", [v["name"] for v in verbs])
    check_overview(verbs)
    for v in verbs:
        tap.ok(v["text"] and len(v["text"]) > 20, f"{v['name']} is described")
        check_help(v)
        check_parser(v)
        check_nearest(v)
    check_errors()
    check_values(verbs)
    check_habits(verbs)
    check_mixed()
    check_completion()
    check_color()
    check_man(verbs)
    check_shells(verbs)
    coffer.check_clean(tap)


try:
    main()
finally:
    coffer.close()
tap.done()
