/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "sandbox/spec/limits.h"
#include "tap.h"

#include <errno.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#define MIB (1ULL << 20)
#define GIB (1ULL << 30)

static void test_defaults(void)
{
	struct limits l;
	struct sysinfo si;
	struct rlimit rl;
	cpu_set_t set;
	uint64_t half, cpus;

	limits_defaults(&l);
	sysinfo(&si);
	half = (uint64_t)si.totalram * si.mem_unit / 2;
	sched_getaffinity(0, sizeof(set), &set);
	cpus = (uint64_t)CPU_COUNT(&set);
	getrlimit(RLIMIT_NOFILE, &rl);
	CHECK(l.l[LIMIT_MEMORY].value == (half < 8 * GIB ? half : 8 * GIB));
	CHECK(l.l[LIMIT_CPUS].value == (cpus > 1 ? cpus - 1 : 1) * 1000);
	CHECK(l.l[LIMIT_PIDS].value == 1024);
	CHECK(l.l[LIMIT_NOFILE_SOFT].value <= l.l[LIMIT_NOFILE_HARD].value);
	CHECK(l.l[LIMIT_NOFILE_HARD].value <= rl.rlim_max);
	CHECK(l.l[LIMIT_TIMEOUT].value == LIMIT_NONE);
	CHECK(l.l[LIMIT_MEMORY_LOW].value == LIMIT_NONE);
	CHECK(l.l[LIMIT_TMP].value <= 2 * GIB && l.l[LIMIT_TMP].value <= half);
	CHECK(l.l[LIMIT_DISK].value == 10 * GIB && l.l[LIMIT_INODES].value == 1000000);
	for (int k = 0; k < LIMIT_COUNT; k++)
		CHECKF(!l.l[k].named && !l.l[k].enforced && !l.l[k].how, "default %s is unmarked",
		       limit_key(k));
	CHECK(!l.best_effort);
	CHECK(limits_check(&l, NULL) == 0);
}

/* With one CPU there is no "all but one": the least is one. */
static void test_one_cpu(void)
{
	cpu_set_t before, one;
	struct limits l;

	sched_getaffinity(0, sizeof(before), &before);
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (CPU_ISSET(i, &before)) {
			CPU_SET(i, &one);
			break;
		}
	}
	CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
	limits_defaults(&l);
	CHECK(l.l[LIMIT_CPUS].value == 1000);
	CHECK(sched_setaffinity(0, sizeof(before), &before) == 0);
}

/* The default never asks for more files than the caller itself may open. */
static void test_low_nofile(void)
{
	struct rlimit before, low;
	struct limits l;

	getrlimit(RLIMIT_NOFILE, &before);
	low = (struct rlimit){ .rlim_cur = 512, .rlim_max = before.rlim_max };
	CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
	limits_defaults(&l);
	CHECK(l.l[LIMIT_NOFILE_SOFT].value > 512 || before.rlim_max <= 512); /* the hard limit counts */
	CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
}

static void test_set(void)
{
	static const struct {
		const char *option, *text;
		enum limit_kind k;
		uint64_t value;
		const char *shown;
	} good[] = {
		{ "memory", "3g", LIMIT_MEMORY, 3 * GIB, "3.0 GiB" },
		{ "memory", "1m", LIMIT_MEMORY, MIB, "1.0 MiB" },
		{ "memory", "1048576", LIMIT_MEMORY, MIB, "1.0 MiB" },
		{ "memory", "none", LIMIT_MEMORY, LIMIT_NONE, "none" },
		{ "memory-reservation", "512m", LIMIT_MEMORY_LOW, 512 * MIB, "512.0 MiB" },
		{ "cpus", "1.8", LIMIT_CPUS, 1800, "1.8" },
		{ "cpus", "2", LIMIT_CPUS, 2000, "2" },
		{ "cpus", ".5", LIMIT_CPUS, 500, "0.5" },
		{ "cpus", "0.125", LIMIT_CPUS, 125, "0.125" },
		{ "cpus", "10000", LIMIT_CPUS, 10000000, "10000" },
		{ "pids", "256", LIMIT_PIDS, 256, "256" },
		{ "pids", "4194304", LIMIT_PIDS, 4194304, "4194304" },
		{ "nofile", "1024:4096", LIMIT_NOFILE_SOFT, 1024, "1024" },
		{ "nofile", "1024:4096", LIMIT_NOFILE_HARD, 4096, "4096" },
		{ "nofile", "512", LIMIT_NOFILE_HARD, 512, "512" },
		{ "timeout", "90", LIMIT_TIMEOUT, 90 * NSEC_PER_SEC, "1 min 30 s" },
		{ "timeout", "250ms", LIMIT_TIMEOUT, 250 * NSEC_PER_MSEC, "250 ms" },
		{ "timeout", "none", LIMIT_TIMEOUT, LIMIT_NONE, "none" },
		{ "tmp-size", "64k", LIMIT_TMP, 65536, "64.0 KiB" },
		{ "shm-size", "1g", LIMIT_SHM, GIB, "1.0 GiB" },
		{ "output-limit", "1", LIMIT_OUTPUT, 1, "1 B" },
		{ "output-limit", "none", LIMIT_OUTPUT, LIMIT_NONE, "none" },
		{ "disk", "2g,100000", LIMIT_DISK, 2 * GIB, "2.0 GiB" },
		{ "disk", "2g,100000", LIMIT_INODES, 100000, "100000" },
		{ "disk", "none,none", LIMIT_INODES, LIMIT_NONE, "none" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct limits l;
		struct err e = ERR_INIT;
		char out[32];

		limits_defaults(&l);
		CHECKF(limits_set(&l, good[i].option, good[i].text, &e) == 0 &&
			       l.l[good[i].k].value == good[i].value && l.l[good[i].k].named,
		       "the option --%s %s sets %s", good[i].option, good[i].text, limit_key(good[i].k));
		CHECK_STR(limit_format(good[i].k, good[i].value, out), good[i].shown);
	}
}

static void test_left_out(void)
{
	struct limits l;

	limits_defaults(&l);
	CHECK(limits_set(&l, "disk", "2g", NULL) == 0);
	CHECK(l.l[LIMIT_INODES].value == 1000000 && !l.l[LIMIT_INODES].named);
	CHECK(limits_set(&l, "nofile", "1024", NULL) == 0);
	CHECK(l.l[LIMIT_NOFILE_HARD].value == 1024 && l.l[LIMIT_NOFILE_HARD].named);
}

static bool is_unchanged(const struct limits *a, const struct limits *b)
{
	for (int k = 0; k < LIMIT_COUNT; k++) {
		if (a->l[k].value != b->l[k].value || a->l[k].named != b->l[k].named)
			return false;
	}
	return a->best_effort == b->best_effort;
}

static void test_refuse(void)
{
	static const struct {
		const char *option, *text;
		const char *says; /* the nearest right thing, in message or hint */
	} bad[] = {
		{ "memory", "0", "the least is 1m" },
		{ "memory", "0", "--memory none" },
		{ "memory", "-5", "negative" },
		{ "memory", "-1g", "the least is 1m" },
		{ "memory", "1e30", "such as 512m or 3g" },
		{ "memory", "1000000000000000000000000000000", "the most is 1024t" },
		{ "memory", "1025t", "the most is 1024t" },
		{ "memory", "512k", "the least is 1m" },
		{ "memory", "", "a size" },
		{ "memory", "3 g", "a size" },
		{ "memory", "3gg", "a size" },
		{ "memory", "nan", "a size" },
		{ "memory", "0x100000", "a size" },
		{ "memory-reservation", "0", "the least is 1m" },
		{ "cpus", "0", "the least is 0.01" },
		{ "cpus", "0.009", "the least is 0.01" },
		{ "cpus", "-1", "negative" },
		{ "cpus", "10001", "the most is 10000" },
		{ "cpus", "1e30", "such as 2 or 1.5" },
		{ "cpus", "999999999999999999999999999999", "the most is 10000" },
		{ "cpus", "1,5", "such as 2 or 1.5" },
		{ "cpus", ".", "such as 2 or 1.5" },
		{ "pids", "0", "the least is 2" },
		{ "pids", "1", "the least is 2" },
		{ "pids", "4194305", "the most is 4194304" },
		{ "pids", "none", "the most is 4194304" },
		{ "pids", "1.5", "a whole number" },
		{ "pids", "1e30", "a whole number" },
		{ "pids", "-1", "negative" },
		{ "nofile", "0", "the least is 16" },
		{ "nofile", "4096:1024", "did you mean 1024:4096?" },
		{ "nofile", "1024:", "a whole number" },
		{ "nofile", ":1024", "a whole number" },
		{ "nofile", "1024:4096:1", "a whole number" },
		{ "nofile", "none", "cannot be lifted" },
		{ "timeout", "0", "the least is 1ms" },
		{ "timeout", "-3s", "negative" },
		{ "timeout", "1e30", "90s" },
		{ "timeout", "4000d", "the most is 3650d" },
		{ "timeout", "99999999999999999999d", "the most is 3650d" },
		{ "tmp-size", "0", "the least is 64k" },
		{ "tmp-size", "none", "cannot be lifted" },
		{ "shm-size", "-1", "negative" },
		{ "output-limit", "0", "--output-limit none" },
		{ "disk", "0", "the least is 1m" },
		{ "disk", "2g,0", "the least is 16" },
		{ "disk", "2g,", "a whole number" },
		{ "disk", ",5", "a size" },
		{ "memroy", "1g", "did you mean --memory?" },
		{ "cpu", "1", "did you mean --cpus?" },
		{ "frobnicate", "1", "no limit called" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct limits l, before;
		struct err e = ERR_INIT;

		limits_defaults(&before);
		l = before;
		CHECKF(limits_set(&l, bad[i].option, bad[i].text, &e) == -EINVAL &&
			       (strstr(e.msg, bad[i].says) || strstr(e.hint, bad[i].says)),
		       "--%s %s is refused: %s / %s", bad[i].option, bad[i].text, e.msg, e.hint);
		CHECKF(is_unchanged(&l, &before), "--%s %s changes nothing", bad[i].option, bad[i].text);
	}
}

/* A text far longer than any number neither overflows a buffer nor floods the message. */
static void test_long(void)
{
	static char text[100000];
	struct limits l;
	struct err e = ERR_INIT;

	memset(text, '9', sizeof(text) - 1);
	limits_defaults(&l);
	CHECK(limits_set(&l, "memory", text, &e) == -EINVAL && strlen(e.msg) < 200);
	CHECK(limits_set(&l, "nofile", text, &e) == -EINVAL && strlen(e.msg) < 200);
	CHECK(limits_set(&l, text, "1", &e) == -EINVAL && strlen(e.msg) < 200);
	CHECK(limits_preset(&l, text, &e) == -EINVAL && strlen(e.msg) < 200);
}

static void test_presets(void)
{
	struct limits l;
	struct err e = ERR_INIT;
	uint64_t def;

	limits_defaults(&l);
	def = l.l[LIMIT_MEMORY].value;
	CHECK(limits_preset(&l, "strict", &e) == 0);
	CHECK(l.l[LIMIT_MEMORY].value == 3 * GIB && l.l[LIMIT_CPUS].value == 1800 &&
	      l.l[LIMIT_PIDS].value == 256);
	CHECK(l.l[LIMIT_MEMORY].named && l.l[LIMIT_CPUS].named && l.l[LIMIT_PIDS].named &&
	      !l.l[LIMIT_TMP].named);
	CHECK(limits_set(&l, "memory", "1g", &e) == 0 && l.l[LIMIT_MEMORY].value == GIB);
	CHECK(limits_preset(&l, "default", &e) == 0);
	CHECK(l.l[LIMIT_MEMORY].value == GIB && l.l[LIMIT_MEMORY].named);
	CHECK(l.l[LIMIT_PIDS].value == 1024 && !l.l[LIMIT_PIDS].named);

	/* the option of its own wins, in whatever order they stand */
	limits_defaults(&l);
	CHECK(limits_set(&l, "pids", "99", &e) == 0 && limits_preset(&l, "strict", &e) == 0);
	CHECK(l.l[LIMIT_PIDS].value == 99 && l.l[LIMIT_MEMORY].value == 3 * GIB);

	limits_defaults(&l);
	CHECK(limits_preset(&l, "strict,best-effort", &e) == 0 && l.best_effort &&
	      l.l[LIMIT_PIDS].value == 256);
	CHECK(limits_preset(&l, "strikt", &e) == -EINVAL && strstr(e.hint, "strict"));
	CHECK(limits_preset(&l, "", &e) == -EINVAL && limits_preset(&l, "strict,", &e) == -EINVAL);

	/* one wrong word and none of it counts */
	limits_defaults(&l);
	CHECK(limits_preset(&l, "strict,nonsense", &e) == -EINVAL && l.l[LIMIT_MEMORY].value == def);
}

static void test_check(void)
{
	struct limits l;
	struct err e = ERR_INIT;

	limits_defaults(&l);
	CHECK(limits_set(&l, "memory", "1g", &e) == 0 &&
	      limits_set(&l, "memory-reservation", "512m", &e) == 0);
	CHECK(limits_check(&l, &e) == 0);
	CHECK(limits_set(&l, "memory-reservation", "2g", &e) == 0 && limits_check(&l, &e) == -EINVAL);
	CHECK(strstr(e.msg, "2.0 GiB") && strstr(e.msg, "1.0 GiB") && e.hint[0]);
	CHECK(limits_set(&l, "memory", "none", &e) == 0 && limits_check(&l, &e) == 0);
}

static void test_names(void)
{
	CHECK(str_eq(limit_name(LIMIT_MEMORY_LOW), "memory-reservation") &&
	      str_eq(limit_name(LIMIT_INODES), "disk"));
	for (int a = 0; a < LIMIT_COUNT; a++) {
		for (int b = 0; b < a; b++) {
			if (str_eq(limit_key(a), limit_key(b)))
				CHECKF(false, "no two limits are called %s in a report", limit_key(a));
		}
	}
}

int main(void)
{
	test_defaults();
	test_one_cpu();
	test_low_nofile();
	test_set();
	test_left_out();
	test_refuse();
	test_long();
	test_presets();
	test_check();
	test_names();
	return tap_done();
}
