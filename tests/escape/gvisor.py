# SPDX-License-Identifier: Apache-2.0
"""Differences where gVisor's kernel stands before the host's, and checks that only it allows."""

import glob
import os
import secrets
import subprocess
import time

# An object that a probe reaches there is gVisor's own, in the memory of one process without rights: said, and not counted as held.
# The effect on the host is looked at in any case.
OWN = {
    "a device of gVisor's making": "dev_sweep dev_fuse dev_tun dev_null_chmod mknod_char mknod_block",
    "gVisor does not hide pid 1, and nothing depends on it":
        "init_environ init_fds init_fd_open init_maps init_namespaces",
    "namespaces are free in gVisor": "unshare_user unshare_time clone_user clone_user_high clone3_user",
    "there is no filter of ours in gVisor that matters": "seccomp_by_tracer",
    "a setting of gVisor's kernel": "sysrq_trigger proc_sweep oom_score key_session nice_raise",
    "the log of gVisor's kernel": "kernel_log",
    "gVisor's kernel says that it has none": "call_sweep socketpair_sweep",
    "the network of gVisor's kernel, which has no wire": "netlink_kobject netlink_sweep transparent_socket socket_mark "
                                                         "tcp_repair protocol_sweep hop_options dest_options",
}
# The same for what a capability opens.
GRANTED = {
    "a mount of gVisor's kernel; the host's below stays read-only": "usr_create ro_remount mount_remount_proc",
    "a setting of gVisor's kernel": "sysctl_hostname sysctl_shm sysctl_ip_forward sys_sweep rlimit_raise",
    "the network of gVisor's kernel, which has no wire": "link_add link_change route_add address_add "
                                                         "socket_buffer_force rule_add neighbour_add qdisc_add link_move",
    "a terminal of gVisor's": "tty_steal",
    "the descriptor behind it was opened for reading": "init_exe_write",
}


def own(name, granted):
    """Why this probe may succeed in gVisor; None when it may not."""
    tables = [OWN, GRANTED] if granted else [OWN]
    return next((why for t in tables for why, names in t.items() if name in names.split()), None)


class Place:
    """Sandboxes of one identity, with a secret of the host's in them to be found nowhere."""

    def __init__(self, tap, setup):
        self.tap, self.setup, self.who = tap, setup, setup.identity.label()

    def run(self, script, *options, engine=None, timeout=300):
        w = self.setup.inside
        env = self.setup.env(w)
        if engine:
            env["COFFER_ENGINE"] = engine
        p = self.setup.identity.popen([self.setup.coffer, "run", "-q", "-C", w.at("ws"), *options, "--", "sh", "-c", script],
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      env=env, cwd=w.at("ws"), text=True, errors="replace")
        return p.communicate(timeout=timeout)[0]

    def outside(self, script):
        return subprocess.run(["sh", "-c", script], capture_output=True, text=True, errors="replace", check=False).stdout

    def coffer(self, *args):
        return self.setup.coffer_quietly(*args)[1]


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read().strip()
    except OSError:
        return ""


def host_facts():
    """Facts that identify this host, by where it is read."""
    facts = {"the kernel's version": os.uname().release, "the kernel's build": os.uname().version,
             "the host's name": os.uname().nodename, "the boot id": read("/proc/sys/kernel/random/boot_id"),
             "the kernel's command line": read("/proc/cmdline")}
    return {what: text for what, text in facts.items() if len(text) >= 8}


def check_kernel(p):
    asked = "uname -a; cat /proc/version /proc/cmdline /proc/sys/kernel/random/boot_id /etc/hostname; dmesg"
    inside, outside = p.run(asked), p.outside(asked)
    p.tap.ok("Starting gVisor" in inside, f"{p.who}: the kernel is gVisor's", inside)
    for what, text in host_facts().items():
        p.tap.ok(text not in inside and text in outside, f"{p.who}: {what} is not visible inside", text, inside)
    # everywhere: a file that can be read must not have it either
    facts = p.setup.inside.at("rw/facts")
    with open(facts, "w", encoding="utf-8") as f:
        f.write("".join(text + "\n" for text in host_facts().values()))
    os.chmod(facts, 0o644)
    found = p.run("grep -rlsF -f /facts /proc/[a-jl-z]* /proc/1 /sys 2>/dev/null | head -5", "-v", facts + ":/facts")
    control = p.outside(f"grep -lsF -f {facts} /proc/version /proc/cmdline")
    p.tap.ok(not found.strip() and control.strip(), f"{p.who}: no file of /proc and /sys has a fact of the host", found, control)


def check_surroundings(p):
    w = p.setup.inside
    bind = ["-v", w.at("ro") + ":/ro"]
    inside = p.run("cat /proc/self/cgroup /proc/self/mountinfo /proc/mounts /proc/partitions; ls -R /sys/fs/cgroup", *bind)
    top = os.path.basename(os.path.dirname(os.path.dirname(w.path)))
    p.tap.ok("/ro" in inside and top not in inside and "coffer" not in inside,
             f"{p.who}: no path and no control group of the host is visible", inside)
    control = p.run("cat /proc/self/mountinfo", *bind, engine="ns")
    p.tap.ok(top in control, f"{p.who}: control: engine ns shows where a bind is from", control)
    inside, outside = p.run("ps -e -o args"), p.outside("ps -e -o args")
    p.tap.ok(w.secret not in inside and w.secret in outside and len(inside.splitlines()) < 8,
             f"{p.who}: only processes of the sandbox are visible", inside)
    inside = p.run("cat /proc/devices /proc/partitions 2>&1; ls /dev /dev/block /sys/class/net /sys/block")
    disks = [os.path.basename(d) for d in glob.glob("/sys/block/*")]
    p.tap.ok(not any(d in inside.split() for d in disks) and "sda" not in inside, f"{p.who}: no disk of the host is visible", inside)
    inside = p.run("ls -d /state /bundle /guest /bind-0 /ws /mask-0 /workspace; find / -xdev -name config.json -path '*bundle*'",
                   "-v", w.at("ro") + ":/ro")
    p.tap.ok("/state\n" not in inside.replace("'", "") and "config.json" not in inside and "/workspace" in inside,
             f"{p.who}: nothing of runsc's own root is visible", inside)


def check_init(p):
    """gVisor lets a command look at pid 1, and end it, which ends the sandbox. Its stream and the engine's log are of the
    host, and for nobody."""
    mark, name = secrets.token_hex(8), f"init-{p.setup.identity.name}"
    script = (f"for fd in /proc/1/fd/*; do to=$(readlink $fd); (echo {mark} > $fd) && echo \"took $to\"; "
              "(exec < $fd) && echo \"opened $to\"; done 2>/dev/null; (echo x > /proc/1/mem) && echo memory; echo done")
    p.coffer("run", "-d", "--name", name, "-C", p.setup.inside.at("ws"), "--", "sleep", "60")
    said = p.coffer("exec", name, "--", "sh", "-c", script)
    kinds = {line.split()[1].split(":")[0] for line in said.splitlines() if line.startswith(("took ", "opened "))}
    p.tap.ok("done" in said and "memory" not in said and kinds <= {"/dev/null", "pipe", "anon_inode"},
             f"{p.who}: pid 1's stream cannot be opened", said)
    names = p.coffer("exec", name, "--", "ls", "-l", "/proc/1/fd")
    p.tap.ok("-> host:" in names and "/dev/null" in kinds, f"{p.who}: control: pid 1's stream exists, and its other descriptors can be opened", names)
    p.tap.ok("again" in p.coffer("exec", name, "--", "echo", "again"), f"{p.who}: the sandbox runs commands after the attempts at pid 1")
    log = p.coffer("logs", "--engine", name)
    p.tap.ok(mark not in log, f"{p.who}: no command can write to the engine's log", log)
    p.coffer("exec", name, "--", "sh", "-c", "kill -9 1; sleep 5")
    end = time.monotonic() + 90
    while "running" in p.coffer("ps", "-a") and time.monotonic() < end:
        time.sleep(0.1)
    p.tap.ok("running" not in p.coffer("ps", "-a"), f"{p.who}: a command that kills pid 1 ends the sandbox", p.coffer("ps", "-a"))
    p.coffer("rm", "-f", name)


def check_writes(p):
    """With every capability, what is read-only for the host stays so, whatever gVisor's kernel says of its mounts."""
    ro, caps = p.setup.inside.at("ro"), "sys_admin,dac_override,fowner,chown,setuid,setgid"
    said = p.run("mount -o remount,rw,bind /ro; echo x > /ro/file.txt && echo wrote; echo x > /usr/made && echo made; "
                 "echo x >> /proc/1/exe && echo init; rm -f /ro/file.txt; chmod 777 /ro && echo mode; true",
                 "--user", "0", "--cap", caps, "-v", ro + ":/ro")
    p.tap.ok("wrote" not in said and "made" not in said.replace("/usr/made", "") and not os.path.exists("/usr/made") and
             read(os.path.join(ro, "file.txt")) == "as it was", f"{p.who}: a read-only bind stays read-only with every capability", said)
    said = p.run("echo x > /rw/written && echo wrote", "-v", p.setup.inside.at("rw") + ":/rw:rw")
    p.tap.ok("wrote" in said and read(p.setup.inside.at("rw/written")) == "x", f"{p.who}: control: a writable bind can be written",
             said)
    p.tap.ok(p.setup.digest() == p.setup.programs, f"{p.who}: coffer's own programs are unchanged")


def check_sharing(p):
    """A file that the host may change is not cached; a home is shared by two sandboxes at once."""
    w, who = p.setup.inside, p.setup.identity.name
    shared = w.at("rw/shared.txt")

    def put(text):
        with open(shared, "w", encoding="utf-8") as f:
            f.write(text)
        p.setup.identity.own(shared)
    put("one")
    for name, options in ((f"v-{who}", ["-v", w.at("rw") + ":/rw", "-C", w.at("ws")]), (f"ro-{who}", ["-C", w.at("rw") + ":ro"])):
        path = "/rw/shared.txt" if name.startswith("v-") else "/workspace/shared.txt"
        put("one")
        p.coffer("run", "-d", "--name", name, *options, "--", "sleep", "60")
        before = p.coffer("exec", name, "--", "sh", "-c", f"cat {path}; stat -c %s {path}; ls $(dirname {path})")
        put("changed outside")
        os.rename(shared, shared + ".2")
        put("three and more")
        after = p.coffer("exec", name, "--", "sh", "-c", f"cat {path}; echo; cat {path}.2; stat -c %s {path}")
        p.tap.ok(before.startswith("one3") and "three and more" in after and "changed outside" in after and "14" in after,
                 f"{p.who}: {options[0]}: changes on the host are visible inside", before, after)
        p.coffer("rm", "-f", name)
        os.unlink(shared + ".2")
    names = [f"home{i}-{who}" for i in (1, 2)]
    for name in names:
        p.coffer("run", "-d", "--name", name, "--home", "both", "-C", w.at("ws"), "--", "sleep", "60")
    p.coffer("exec", names[1], "--", "sh", "-c", "ls -la ~; cat ~/f")
    for i in range(3):
        p.coffer("exec", names[0], "--", "sh", "-c", f"echo {'x' * i}-{i} > ~/f; mkdir -p ~/d{i}; mv ~/f ~/g; cp ~/g ~/f")
        got = p.coffer("exec", names[1], "--", "sh", "-c", f"cat ~/f ~/g; ls -d ~/d{i}; stat -c %s ~/f")
        p.tap.ok(got.count(f"{'x' * i}-{i}") == 2 and f"/d{i}" in got and str(3 + i) in got,
                 f"{p.who}: a home is the same in two sandboxes ({i})", got)
    for name in names:
        p.coffer("rm", "-f", name)
    time.sleep(0.1)


def run(tap, setup):
    p = Place(tap, setup)
    setup.inside.write_params(inside=True)
    for check in (check_kernel, check_surroundings, check_init, check_writes, check_sharing):
        check(p)
