/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "posture/proc_text.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#define HEAD \
	"Umask:\t0022\nState:\tS (sleeping)\nTgid:\t4245\nNgid:\t0\nPid:\t4245\nPPid:\t4242\nTracerPid:\t0\n"
#define IDS \
	"Uid:\t7\t1000\t9\t10\nGid:\t0\t0\t0\t0\nFDSize:\t64\nGroups:\t1 2 3 \nNStgid:\t4245\t1\nNSpid:\t4245\t1\n"
#define CAPS \
	"CapInh:\t0000000000000000\nCapPrm:\t000001ffffffffff\nCapEff:\t0000000000000022\nCapBnd:\t0\nCapAmb:\t0\n"
#define TAIL "NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n"

static void test_status(void)
{
	struct proc_status s;

	CHECKF(proc_text_status("Name:\tcoffer-init\n" HEAD IDS CAPS TAIL, &s) == 0, "a status is parsed");
	CHECK_STR(s.name, "coffer-init");
	CHECKF(s.pid == 4245 && s.parent == 4242 && s.state == 'S', "a status has pid, parent and state");
	CHECKF(s.uid == 1000, "the user of a status is the effective one");
	CHECKF(s.permitted == 0x1ffffffffffULL && s.effective == 0x22, "a status has its capabilities");
	CHECKF(s.no_new_privs && s.seccomp == 2, "a status has no_new_privs and the seccomp mode");
	CHECKF(s.levels == 2 && s.innermost == 1, "a status has the pids in inner namespaces");
	/* As the kernel escapes a newline in a name. */
	CHECKF(proc_text_status("Name:\tx\\nSeccomp:\\t0\n" HEAD IDS CAPS TAIL, &s) == 0 && s.seccomp == 2,
	       "a name that looks like a line of a status is none");
	CHECK_STR(s.name, "x\\nSeccomp:\\t0");
	CHECKF(proc_text_status("Name:\t\n" HEAD IDS CAPS TAIL, &s) == 0 && !s.name[0],
	       "an empty name is parsed");
	CHECKF(proc_text_status("Name:\tx\n" HEAD IDS CAPS "NoNewPrivs:\t0\n", &s) == 0 && s.seccomp == -1 &&
		       !s.no_new_privs,
	       "a status of a kernel without seccomp is parsed");
}

static void test_bad_status(void)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{ "", "an empty status" },
		{ HEAD IDS CAPS TAIL, "a status without a name" },
		{ "Name:\tx\n" HEAD CAPS TAIL, "a status without ids" },
		{ "Name:\tx\n" HEAD IDS TAIL, "a status without capabilities" },
		{ "Name:\tx\n" HEAD IDS CAPS "Seccomp:\t2\n", "a status without no_new_privs" },
		{ "Name:\tx\n" HEAD IDS CAPS "NoNewPrivs:\t1\nSeccomp:\t3\n",
		  "a seccomp mode that does not exist" },
		{ "Name:\tx\n" HEAD IDS CAPS "NoNewPrivs:\t1\nSeccomp:\tx\n",
		  "a seccomp mode that is no number" },
		{ "Name:\tx\n" HEAD IDS CAPS "NoNewPrivs:\t\n", "an empty number" },
		{ "Name:\tx\nState:\tS\nPid:\t-5\nPPid:\t1\n" IDS CAPS TAIL, "a negative pid" },
		{ "Name:\tx\nState:\tS\nPid:\t99999999999999999999\nPPid:\t1\n" IDS CAPS TAIL,
		  "a pid that is too large" },
		{ "Name:\tx\nState:\tS\nPid:\t0\nPPid:\t1\n" IDS CAPS TAIL, "pid 0" },
		{ "Name:\tx\n" HEAD "Uid:\t7\nNSpid:\t1\n" CAPS TAIL, "a single uid" },
		{ "Name:\tx\n" HEAD "Uid:\t7\t7\nNSpid:\tx\n" CAPS TAIL, "a pid namespace without a pid" },
	};
	struct proc_status s = { .pid = 77 };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECKF(proc_text_status(bad[i].text, &s) == -EBADMSG && s.pid == 77,
		       "a status is refused: %s", bad[i].why);
}

static void test_numbers(void)
{
	uint64_t v = 0;
	unsigned flags = 0;

	CHECKF(proc_text_start("7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20\n", &v) ==
			       0 &&
		       v == 4711,
	       "the start time is found after a name with a bracket");
	CHECKF(proc_text_start("7 (a) S 1 2 3\n", &v) == -EBADMSG && proc_text_start("7 a", &v) == -EBADMSG,
	       "a stat that is cut is refused");
	CHECKF(proc_text_flags("pos:\t0\nflags:\t0102001\nmnt_id:\t9\n", &flags) == 0 && flags == 0102001,
	       "flags are read as octal");
	CHECKF(proc_text_flags("pos:\t0\n", &flags) == -EBADMSG, "an fdinfo without flags is refused");
	CHECKF(proc_text_flags("flags:\t9\n", &flags) == -EBADMSG, "flags that are not octal are refused");
	CHECKF(proc_flags_may_write(O_RDWR) && proc_flags_may_write(O_WRONLY | O_APPEND),
	       "O_RDWR and O_WRONLY write");
	CHECKF(!proc_flags_may_write(O_RDONLY | O_CLOEXEC) && !proc_flags_may_write(O_PATH | O_RDWR),
	       "O_RDONLY and O_PATH do not write");
	CHECKF(proc_text_ns("net:[4026531833]", "net", &v) == 0 && v == 4026531833ULL,
	       "a namespace's number is read");
	CHECKF(proc_text_ns("net:[4026531833]", "mnt", &v) == -EBADMSG &&
		       proc_text_ns("net:[12]x", "net", &v) == -EBADMSG &&
		       proc_text_ns("net:[]", "net", &v) == -EBADMSG &&
		       proc_text_ns("net", "net", &v) == -EBADMSG,
	       "a link that is no namespace of that type is refused");
}

static void test_links(void)
{
	uint64_t ino = 1;

	CHECKF(proc_text_sort("socket:[123]", &ino) == FD_SORT_SOCKET && ino == 123,
	       "a socket is known by its link");
	CHECKF(proc_text_sort("pipe:[5]", &ino) == FD_SORT_PIPE && ino == 0, "a pipe is known by its link");
	CHECKF(proc_text_sort("/memfd:x (deleted)", &ino) == FD_SORT_MEMFILE,
	       "a memory file is known by its link");
	CHECKF(proc_text_sort("/x/socket:[123]", &ino) == FD_SORT_FILE && ino == 0,
	       "a file that is named like a socket is a file");
	CHECKF(proc_text_sort("anon_inode:[eventpoll]", &ino) == FD_SORT_OTHER,
	       "an epoll descriptor is neither");
	CHECKF(proc_text_sort("socket:[x]", &ino) == FD_SORT_OTHER, "a socket without a number is none");
	for (int i = 0; i < FD_SORT_COUNT; i++)
		CHECKF(*fd_sort_name((enum fd_sort)i), "sort %d of descriptors has a name", i);
}

#define TCP \
	"   0: 020200C0:AD45 00000000:0000 %s 00000000:00000000 00:00000000 00000000 20012        0 910192 1 0000 100\n"
#define UNIX "0000000007be989c: 00000002 00000000 %s %s 01 1108293 /proc/self/fd/5/cofferd.sock\n"

static void check_socket(enum socket_table t, const char *line, uint64_t ino, enum socket_kind kind)
{
	enum socket_kind got = SOCKET_KIND_COUNT;
	uint64_t v = 0;

	CHECKF(proc_text_socket(t, line, &v, &got) == 0 && v == ino && got == kind, "a row of %s is read: %s",
	       socket_table_name(t), socket_kind_name(kind));
}

static void test_sockets(void)
{
	enum socket_kind kind;
	uint64_t ino;
	char line[256];

	snprintf(line, sizeof(line), TCP, "0A");
	check_socket(SOCKET_TABLE_TCP, line, 910192, SOCKET_TCP_LISTENING);
	snprintf(line, sizeof(line), TCP, "01");
	check_socket(SOCKET_TABLE_TCP6, line, 910192, SOCKET_TCP);
	check_socket(SOCKET_TABLE_UDP, line, 910192, SOCKET_UDP);
	snprintf(line, sizeof(line), UNIX, "00010000", "0005");
	check_socket(SOCKET_TABLE_UNIX, line, 1108293, SOCKET_UNIX_SEQPACKET_LISTENING);
	snprintf(line, sizeof(line), UNIX, "00000000", "0001");
	check_socket(SOCKET_TABLE_UNIX, line, 1108293, SOCKET_UNIX_STREAM);
	check_socket(SOCKET_TABLE_UNIX, "000000000: 00000002 00000000 00000000 0002 01 17\n", 17,
		     SOCKET_UNIX_DATAGRAM);
	check_socket(
		SOCKET_TABLE_NETLINK,
		"00000000ce1f9b5b 0   0          00000000 0        0        0     2        0        4       \n",
		4, SOCKET_NETLINK);
	check_socket(SOCKET_TABLE_PACKET,
		     "0000000000000000 3      3    0003   2     1       0      0      777\n", 777,
		     SOCKET_PACKET);
	CHECKF(proc_text_socket(SOCKET_TABLE_TCP, "  sl  local_address rem_address   st tx_queue\n", &ino,
				&kind) == -EBADMSG,
	       "the first line of a table is no row");
	CHECKF(proc_text_socket(SOCKET_TABLE_UNIX,
				"Num       RefCount Protocol Flags    Type St Inode Path\n", &ino,
				&kind) == -EBADMSG,
	       "the first line of the unix table is no row");
	CHECKF(proc_text_socket(SOCKET_TABLE_TCP, "", &ino, &kind) == -EBADMSG, "an empty line is no row");
	/* The next row has the columns that this one lacks. */
	snprintf(line, sizeof(line), "   0: 1 2 01\n" TCP, "01");
	CHECKF(proc_text_socket(SOCKET_TABLE_TCP, line, &ino, &kind) == -EBADMSG, "a row ends with its line");
}

static void test_locks(void)
{
	struct proc_lock l = { 0 };

	CHECKF(proc_text_lock("2: FLOCK  ADVISORY  WRITE 1580 fe:00:12632069 0 EOF\n", &l) == 0 &&
		       l.pid == 1580 && l.major == 0xfe && l.minor == 0 && l.ino == 12632069,
	       "an exclusive lock is read");
	CHECKF(proc_text_lock("2: FLOCK  ADVISORY  READ 1580 fe:00:12632069 0 EOF\n", &l) == -EBADMSG,
	       "a shared lock is passed over");
	CHECKF(proc_text_lock("2: -> FLOCK  ADVISORY  WRITE 1580 fe:00:12632069 0 EOF\n", &l) == -EBADMSG,
	       "a lock that is waited for is passed over");
	CHECKF(proc_text_lock("1: OFDLCK ADVISORY  WRITE -1 fe:00:10953772 4667 4667\n", &l) == -EBADMSG,
	       "a lock of another sort is passed over");
	CHECKF(proc_text_lock("", &l) == -EBADMSG &&
		       proc_text_lock("2: FLOCK  ADVISORY  WRITE x", &l) == -EBADMSG,
	       "a line that is no lock is passed over");
}

/* The kernel that this runs on. */
static void test_this_kernel(void)
{
	static const char *const files[] = { "/proc/self/status", "/proc/self/stat", "/proc/self/fdinfo/0" };
	struct proc_status s;
	char text[3][65536];
	unsigned flags;
	uint64_t v;

	for (int i = 0; i < 3; i++) {
		FILE *f = fopen(files[i], "re");
		size_t n = f ? fread(text[i], 1, sizeof(text[i]) - 1, f) : 0;

		text[i][n] = '\0';
		if (f)
			fclose(f);
	}
	CHECKF(proc_text_status(text[0], &s) == 0 && s.seccomp >= 0 && s.levels >= 1,
	       "the status that this kernel writes is parsed");
	CHECKF(proc_text_start(text[1], &v) == 0 && v > 0, "the stat that this kernel writes is parsed");
	CHECKF(proc_text_flags(text[2], &flags) == 0, "the fdinfo that this kernel writes is parsed");
}

int main(void)
{
	test_status();
	test_bad_status();
	test_numbers();
	test_links();
	test_sockets();
	test_locks();
	test_this_kernel();
	return tap_done();
}
