#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profiles without a server: an agent is found by its name from everywhere inside, its first start is prepared, the user's settings come
along without credentials, and what a profile and a policy file say together. The agents are shell scripts under the real ones' names."""

import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from coffertest import ENGINES, Tap, coffer_as, identities  # noqa: E402

AGENT = """#!/bin/sh
echo "agent: $0 $*"
echo "dir: $(pwd)"
[ "$1" != wait ] || sleep 600
"""
TOKEN = "ghp_" + "Ab3dEf6hIj9lMn2pQr5tUv8xYz1Bc4De7Gh0"
WORD = "correct-horse-battery-7"
SETTINGS = {
    "model": "opus", "theme": "dark", "maxTokens": 12, "apiKeyHelper": f"/bin/echo {WORD}", "oauthAccount": {"uuid": WORD},
    "env": {"ANTHROPIC_API_KEY": WORD, "EDITOR": "vi", "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "32000", "FROM": "${GITHUB_TOKEN}"},
    "mcpServers": {"a": {"command": "npx", "args": ["-y", "server", "--api-key", WORD, "--verbose", f"--token={WORD}"],
                         "headers": {"Authorization": f"Bearer {WORD}", "X-Kind": "plain"}, "env": {"GH_PAT": WORD}},
                   "b": {"url": f"https://x.example/?k={TOKEN}"}},
    "hooks": {"Stop": [{"hooks": [{"type": "command", "command": f"curl -H 'Authorization: Bearer {WORD}' https://x.example"},
                                  {"type": "command", "command": "echo done"}]}]},
}
TOML = f"""# key was {TOKEN}
model = "gpt-6"
api_key = "{WORD}"
model_context_window = 1000
max_output_tokens = 2000
[model_providers.corp]
env_key = "OPENAI_API_KEY"
http_headers = {{ Authorization = "Bearer {WORD}" }}
base_url = "https://x.example/v1"
[mcp_servers.a]
command = "npx"
args = ["-y",
  "server", "--token", "{WORD}"]
env = {{ "GITHUB_TOKEN" = "{WORD}" }}
[mcp_servers.b]
command = 'other'
[auth.oauth]
value = "{WORD}"
[tui]
notes = \"\"\"
api_key = "this is a text # not a comment"
\"\"\"
theme = "dark"
"""


class Bench:
    def __init__(self, tap, c):
        self.tap, self.c, self.who = tap, c, c.who
        for name in ("claude", "codex", "gemini", "openclaw"):
            c.put(f"agents/{name}", AGENT, 0o755)

    def env(self):
        return {"PATH": os.path.join(self.c.home, "agents") + ":" + self.c.env()["PATH"], "HOME": self.c.home}

    def run(self, profile, *args, command=()):
        return self.c("run", "--engine", self.c.engine, "--profile", profile, "--checkpoint", "off", *args, "--", *(command or [profile]),
                      env=self.env())

    def ok(self, good, name, *detail):
        self.tap.ok(good, f"{self.who}: {name}", *detail)


def by_name(b):
    c = b.c
    r = b.run("claude", command=["claude", "-p", "probe"])
    b.ok(r.code == 0 and "agent: /opt/agent/lib/claude -p probe" in r.out and "dir: /workspace" in r.out, "an agent runs under its own name", r)
    r = b.run("claude", command=["sh", "-c", "claude again; command -v claude"])
    b.ok(r.code == 0 and "again" in r.out and "/opt/agent/bin/claude" in r.out, "a shell inside finds the agent", r)
    r = b.run("claude", "-e", "PATH=/usr/bin:/bin", command=["claude", "x"])
    b.ok(r.code == 0 and " x" in r.out, "an agent is found when PATH is given with -e", r)
    r = c("run", "--engine", c.engine, "-d", "--name", "claw", "--profile", "openclaw", "--", "openclaw", "wait", env=b.env())
    b.ok(r.code == 0, "an agent's sandbox runs in the background", r)
    rows = [x for x in json.loads(c("ps", "--json").out) if x["name"] == "claw"]
    b.ok(rows and rows[0]["command"] == "openclaw wait" and rows[0].get("profile") == "openclaw", "ps has the command as typed and the profile", rows)
    r = c("exec", "claw", "--", "openclaw", "status")
    b.ok(r.code == 0 and "openclaw status" in r.out, "coffer exec finds the agent by its name", r)
    r = c("exec", "claw", "--", "sh", "-c", "cat ~/.openclaw/openclaw.json; echo $OPENCLAW_WORKSPACE_DIR")
    b.ok('"workspace":"/workspace"' in r.out and "\n/workspace" in r.out, "OpenClaw works in the workspace", r)
    c("stop", "claw")
    c("rm", "claw")
    for own in ("~/.openclaw/workspace", "/home/somebody/.openclaw/workspace", "/workspace/below"):
        c.put(".openclaw/openclaw.json", json.dumps({"agents": {"defaults": {"workspace": own}}, "ui": {"seamColor": "#112233"}}))
        r = b.run("openclaw", "--settings", command=["sh", "-c", "openclaw x >/dev/null; cat ~/.openclaw/openclaw.json"])
        got = json.loads(r.out[r.out.index("{"):])
        wanted = own if own.startswith("/workspace") else "/workspace"
        b.ok(got["agents"]["defaults"]["workspace"] == wanted and got["ui"] == {"seamColor": "#112233"},
             f"OpenClaw with settings that name the workspace {own} works in {wanted}", r)


def first_start(b):
    """The questions of each agent are answered in its home, and its own files there stay."""
    key = "sk-ant-" + "k" * 40 + "0123456789abcdefghij"
    r = b.run("claude", "-e", f"ANTHROPIC_API_KEY={key}", command=["sh", "-c", "claude; cat ~/.claude.json"])
    got = json.loads(r.out[r.out.index("{"):])
    b.ok(got["hasCompletedOnboarding"] and got["customApiKeyResponses"]["approved"] == [key[-20:]] and
         got["projects"]["/workspace"]["hasTrustDialogAccepted"], "Claude Code: key and directory are approved", r)
    own = '{\n  "numStartups": 3,\n  "customApiKeyResponses": {\n    "approved": [\n      "older"\n    ],\n    "rejected": []\n  }\n}\n'
    for text, approved in ((own, ["zzz" + key[-17:], "older"]), ('{"numStartups": 3}', ["zzz" + key[-17:]]),
                           ('{"numStartups": 3, "customApiKeyResponses": {"approved": []}}', ["zzz" + key[-17:]])):
        r = b.run("claude", "-e", f"ANTHROPIC_API_KEY={key[:-20]}zzz{key[-17:]}", "-e", f"OWN={text}",
                  command=["sh", "-c", 'printf %s "$OWN" > ~/.claude.json; claude; cat ~/.claude.json'])
        got = json.loads(r.out[r.out.index("{"):])
        b.ok(got["numStartups"] == 3 and got["customApiKeyResponses"]["approved"] == approved and got["hasCompletedOnboarding"],
             "Claude Code: another key is added to what the file has", r)
    r = b.run("codex", "-e", "OPENAI_API_KEY=sk-placeholder-1", command=["sh", "-c", "codex; codex; cat ~/.codex/auth.json ~/.codex/config.toml"])
    b.ok('"OPENAI_API_KEY":"sk-placeholder-1"' in r.out and r.out.count("danger-full-access") == 1 and r.out.count("trust_level") == 1,
         "Codex: key, directory and sandbox are settled, once", r)
    r = b.run("codex", "-e", "OPENAI_API_KEY=sk-placeholder-2", command=["sh", "-c", "codex; cat ~/.codex/auth.json"])
    b.ok("sk-placeholder-2" in r.out and "sk-placeholder-1" not in r.out, "Codex: the key of the last run does not stay", r)
    r = b.run("codex", "-e", "OPENAI_API_KEY=sk-placeholder-3",
              command=["sh", "-c", "echo '{\"tokens\": {\"id_token\": \"mine\"}}' > ~/.codex/auth.json; codex; cat ~/.codex/auth.json"])
    b.ok("mine" in r.out and "sk-placeholder-3" not in r.out, "Codex: a login stays", r)
    r = b.run("gemini", command=["sh", "-c", "gemini; cat ~/.gemini/settings.json; echo $GEMINI_CLI_TRUST_WORKSPACE"])
    b.ok("gemini-api-key" in r.out and "\ntrue" in r.out, "Gemini CLI: login and directory are settled", r)


def settings(b):
    c = b.c
    r = b.run("claude", "--home", "no-settings", "--settings")
    b.ok(r.code == 0 and "settings: 0 files" in r.err and "can't cd" not in r.err, "--settings without settings of one's own copies nothing and has no error", r)
    c.put(".claude/settings.json", json.dumps(SETTINGS))
    c.put(".claude/CLAUDE.md", "be brief\n")
    c.put(".claude/commands/deep/er/fix.md", "fix it\n")
    c.put(".claude/commands/leak.md", f"use {TOKEN}\n")
    c.put(".claude/commands/.credentials.json", json.dumps({"x": WORD}))
    c.put(".claude/commands/big.md", "x" * (300 << 10))
    c.put(".claude/.credentials.json", json.dumps({"claudeAiOauth": {"accessToken": WORD}}))
    c.put(".claude/keybindings.json", "{ not json, " + WORD)
    c.put("outside.txt", "within the home\n")
    os.symlink("/etc/hostname", os.path.join(c.home, ".claude/commands/out.md"))
    os.symlink("../../outside.txt", os.path.join(c.home, ".claude/commands/in.md"))
    os.symlink("../../../../../../etc/passwd", os.path.join(c.home, ".claude/commands/up.md"))
    c.put(".netrc", f"machine x.example login me password {WORD}\n", 0o600)
    c.put(".ssh/config", f"# {WORD}\n", 0o600)
    os.symlink("../../.netrc", os.path.join(c.home, ".claude/commands/notes.md"))
    os.symlink("../../.ssh", os.path.join(c.home, ".claude/commands/more"))
    os.symlink("loop.md", os.path.join(c.home, ".claude/commands/loop.md"))
    os.mkfifo(os.path.join(c.home, ".claude/commands/pipe.md"))
    show = ["sh", "-c", "claude; cd ~; find .claude -type f | sort; cat .claude/settings.json; cat .claude/CLAUDE.md .claude/commands/in.md"]
    r = b.run("claude", "--home", "with-settings", "--settings", command=show)
    text = r.out + r.err
    b.ok(r.code == 0 and WORD not in text and TOKEN not in text, "--settings: no credential comes along", r)
    kept = json.loads(r.out[r.out.index("{"):r.out.rindex("}") + 1])
    b.ok(kept["model"] == "opus" and kept["maxTokens"] == 12 and kept["env"] == {
        "EDITOR": "vi", "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "32000", "FROM": "${GITHUB_TOKEN}"} and
        kept["mcpServers"]["a"] == {"command": "npx", "args": ["-y", "server", "--verbose"], "headers": {"X-Kind": "plain"}, "env": {}} and
        kept["mcpServers"]["b"] == {} and kept["hooks"]["Stop"][0]["hooks"][1]["command"] == "echo done",
        "--settings: other values of a JSON file come along", r)
    files = [x for x in r.out.splitlines() if x.startswith(".claude/")]
    b.tap.eq(files, [".claude/CLAUDE.md", ".claude/commands/deep/er/fix.md", ".claude/commands/in.md", ".claude/settings.json"],
             f"{b.who}: --settings: files that are listed, safe and within the home come along", r)
    b.ok("be brief" in r.out and "within the home" in r.out, "--settings: the copied files have their content", r)
    for name, why in (("out.md", "leads out of your home"), ("up.md", "leads out of your home"), ("loop.md", "leads out"), ("pipe.md", "is not a regular file"),
                      ("notes.md", "leads to credentials"), ("commands/more", "leads to credentials"),
                      ("leak.md", "GitHub"), ("big.md", "too large"), (".credentials.json", "for credentials"), ("keybindings.json", "not JSON")):
        b.ok(any(name in x and why in x for x in r.err.splitlines()), f"--settings: the message says why {name} is left out", r)
    r = b.run("claude", "--home", "with-settings", "--settings", command=["sh", "-c", "claude; echo '{\"mine\": 1}' > ~/.claude/settings.json; claude; "
                                                                          "cat ~/.claude/settings.json"])
    b.ok('"mine"' in r.out, "--settings: settings are copied once for each sandbox", r)
    c.put(".codex/config.toml", TOML)
    c.put(".codex/auth.json", json.dumps({"OPENAI_API_KEY": WORD}))
    r = b.run("codex", "--settings", command=["sh", "-c", "codex; cat ~/.codex/config.toml; ls ~/.codex"])
    b.ok(WORD not in r.out + r.err and TOKEN not in r.out, "--settings: no credential of a TOML file comes along", r)
    for line in ('model = "gpt-6"', "model_context_window = 1000", "max_output_tokens = 2000", 'env_key = "OPENAI_API_KEY"', 'base_url = "https://x.example/v1"',
                 'command = "npx"', "command = 'other'", 'theme = "dark"', '[projects."/workspace"]'):
        b.ok(line in r.out, f"--settings: {line} of a TOML file comes along", r)
    c.put(".codex/config.toml", 'model = "unended\n' + WORD)
    r = b.run("codex", "--home", "other", "--settings", command=["sh", "-c", "codex; cat ~/.codex/config.toml"])
    b.ok("not TOML" in r.err and WORD not in r.out and "trust_level" in r.out, "--settings: a TOML file that cannot be parsed is left out", r)
    loops = os.path.join(c.home, ".claude/skills/loops")
    c.put(".claude/skills/loops/x.pem", "")
    for i in range(20):
        os.symlink(".", os.path.join(loops, f"l{i}"))
    r = b.run("claude", "--home", "with-loops", "--settings", command=["echo", "ran"])
    b.ok(r.code == 2 and "more than 10000" in r.err and not r.out, "--settings: a loop of links is refused", r)
    shutil.rmtree(loops)
    far_away(b)
    r = c("run", "--profile", "claude", "--settings", "--", "true", env={**b.env(), "HOME": "relative"})
    b.ok(r.code == 2 and "HOME is not an absolute path" in r.err, "--settings names the fault of a relative HOME", r)
    r = c("run", "--settings", "--", "true")
    b.ok(r.code == 2 and "--settings needs --profile" in r.err, "--settings without a profile is refused", r)


def far_away(b):
    """A link into a tree so deep that the kernel cannot name the file it leads to."""
    c = b.c
    deep = "/".join(["d" * 200] * 19)
    where = os.open(c.home, os.O_PATH)
    for name in deep.split("/"):
        os.mkdir(name, 0o755, dir_fd=where)
        where, above = os.open(name, os.O_PATH, dir_fd=where), where
        os.close(above)
    long_home = os.path.join(c.home, "h" * 200, "h" * 200)
    os.makedirs(long_home)
    for name, text in ((".netrc", WORD), ("plain", "be brief")):
        with open(os.open(name, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=where), "w", encoding="ascii") as f:
            f.write(text)
    os.close(where)
    os.rename(os.path.join(c.home, "d" * 200), os.path.join(long_home, "d" * 200))
    subprocess.run(["chown", "-R", f"{c.uid}:{c.gid}", os.path.dirname(long_home)], check=os.getuid() == 0, stderr=subprocess.DEVNULL)
    own = os.path.join(long_home, ".claude")
    for name in (".netrc", "plain"):
        os.makedirs(own, exist_ok=True)
        os.symlink(f"../{deep}/{name}", os.path.join(own, "CLAUDE.md"))
        c.own(own)
        env = {**b.env(), "HOME": long_home}
        r = c("run", "--engine", c.engine, "--profile", "claude", "--settings", "--checkpoint", "off", "--", "sh", "-c",
              "claude; cat ~/.claude/CLAUDE.md", env=env)
        b.ok(WORD not in r.out and "be brief" not in r.out and "cannot be determined" in r.err,
             f"--settings: a link to {name} at a path too long to resolve is left out", r)
        os.unlink(os.path.join(own, "CLAUDE.md"))
    shutil.rmtree(os.path.dirname(long_home))


def own_root(b):
    """An agent that is in the sandbox's own root: the profile's start and the settings are there too."""
    c = b.c
    root = os.path.join(c.home, "root")
    for d in ("bin", "lib", "lib64", "usr", "opt/tools", "opt/agent"):
        os.makedirs(os.path.join(root, d), exist_ok=True)
    busybox = shutil.which("busybox")
    if not busybox:
        b.tap.skip(f"{b.who}: a root of its own", "busybox is not installed")
        return
    shutil.copy(busybox, os.path.join(root, "bin", "busybox"))
    for name in ("sh", "cat", "find", "mkdir", "sed", "grep", "mv", "rm", "cp", "printf", "tail", "head", "awk", "tr", "test", "[", "chmod", "env"):
        os.symlink("busybox", os.path.join(root, "bin", name))
    c.put("root/opt/tools/claude", AGENT, 0o755)
    c.put("root/opt/agent/kept", "of the image\n")
    for where, dirs, _ in os.walk(root):
        for d in dirs:
            c.own(os.path.join(where, d))
    c.own(root)
    c.put(".claude/settings.json", json.dumps({"model": "opus", "apiKey": WORD}))
    path = "PATH=/opt/tools:/bin"
    show = "claude again; cat ~/.claude.json ~/.claude/settings.json; command -v claude"
    r = b.run("claude", "--root", root, "--home", "rooted", "--settings", "-e", path, command=["claude", "probe"])
    b.ok(r.code == 0 and "agent: /opt/tools/claude probe" in r.out, "with --root the agent of the root runs with PATH from -e", r)
    r = b.run("claude", "--root", root, "--home", "rooted2", "--settings", command=["sh", "-c", "export PATH=$PATH:/opt/tools; " + show])
    b.ok(r.code == 0 and "again" in r.out and "hasCompletedOnboarding" in r.out, "with --root a profile's start script runs before the agent", r)
    b.ok('"model"' in r.out and WORD not in r.out + r.err, "with --root the settings come along, without credentials", r)
    b.ok("/opt/agent/bin/claude" in r.out, "with --root a shell inside finds the agent with its start script", r)
    r = b.run("claude", "--root", root, "--home", "rooted3", command=["sh", "-c", "echo x > /opt/agent/bin/claude; cat /opt/agent/kept"])
    b.ok(r.code != 0 and "of the image" not in r.out, "with --root /opt/agent is read-only and covers the root's own", r)
    with open(os.path.join(root, "opt/agent/kept"), encoding="utf-8") as f:
        b.ok(f.read() == "of the image\n" and os.listdir(os.path.join(root, "opt/agent")) == ["kept"], "with --root the root directory is unchanged", r)
    shutil.rmtree(root)


def with_policy(b):
    """The file is the ceiling, the profile the need."""
    corp = b.c.put("corp.yaml", "version: 1\nallow:\n  - domain: api.anthropic.com\n    to: 127.0.0.1:9\n  - {domain: wiki.corp.test, to: \"127.0.0.1:9\"}\n")
    other = b.c.put("other.yaml", "version: 1\nallow: [wiki.corp.test]\n")
    look = ["sh", "-c", "getent hosts wiki.corp.test; getent hosts api.anthropic.com; getent hosts evil.test"]
    r = b.run("claude", "--policy", corp, command=look)
    b.ok("wiki.corp.test" not in r.out and "api.anthropic.com" in r.out, "a host of the policy file that the profile does not need stays closed", r)
    b.ok("corp.yaml allows wiki.corp.test:443, but profile claude does not. Both must allow it: add --allow wiki.corp.test" in r.err,
         "the denial names the file, the profile and the option", r)
    b.ok("warning" not in r.err, "no warning where the policy file allows what the profile needs", r)
    r = b.run("claude", "--policy", corp, "--allow", "wiki.corp.test", command=look)
    b.ok("wiki.corp.test" in r.out and "evil.test" not in r.out, "--allow HOST opens a host of the policy file", r)
    r = b.run("claude", "--policy", corp, "--allow", "@policy", command=look)
    b.ok("wiki.corp.test" in r.out and "evil.test" not in r.out, "--allow @policy opens all of the policy file, and no more", r)
    r = b.run("claude", "--policy", other, command=look)
    b.ok("warning: profile claude allows api.anthropic.com:443, but policy other.yaml does not, so it stays denied" in r.err and
         "api.anthropic.com" not in r.out, "a host of the profile that the policy file does not allow stays denied, with a warning", r)
    b.ok("profile claude allows api.anthropic.com:443, but other.yaml does not. Both must allow it: add it to that file" in r.err,
         "the denial says that the policy file lacks the host", r)
    r = b.run("claude", "--allow", "@policy", command=["true"])
    b.ok(r.code == 2 and "needs --policy" in r.err, "--allow @policy without a policy file is an error", r)


def main():
    tap = Tap()
    for who in identities(tap, ENGINES):
        # The inside is made by each engine; all else is decided outside.
        if (who, who.engine) not in (("root", "ns"), ("user", "gvisor"), ("user", "ns")):
            continue
        with coffer_as(who) as c:
            b = Bench(tap, c)
            by_name(b)
            if who.engine == "gvisor" or who == "root":
                first_start(b)
            if who == "user" and who.engine == "ns":
                settings(b)
                with_policy(b)
            own_root(b)
            c.check_clean(tap)
    tap.done()


main()
