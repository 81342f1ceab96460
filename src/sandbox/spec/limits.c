/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses and formats limits by a table: each row has a limit's syntax, its least and greatest value, and whether it can
 * be lifted. Invariant: a value that limits_set() accepted is LIMIT_NONE or within its row's bounds. It must not
 * enforce a limit: run/run_limits.c does.
 */
#include "sandbox/spec/limits.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#define KIB (1ULL << 10)
#define MIB (1ULL << 20)
#define GIB (1ULL << 30)
#define PIB (1ULL << 50)

enum unit { UNIT_SIZE, UNIT_MILLI, UNIT_COUNT, UNIT_TIME };

struct limit_row {
	const char *name; /* on the command line */
	const char *key;  /* in a report */
	enum unit unit;
	uint64_t least, most;
	const char *least_text, *most_text; /* as a user would type them */
	bool may_lift;			    /* "none" makes sense */
};

/* A sandbox needs two processes (its init and the command), and some files to start anything. pid_max cannot
 * be above 4194304, nor nr_open above 1073741816: greater limits would have no effect. A tmpfs without a size may
 * take half of the RAM, so the two limits of tmpfs cannot be lifted. */
static const struct limit_row rows[] = {
	[LIMIT_MEMORY] = { "memory", "memory", UNIT_SIZE, MIB, PIB, "1m", "1024t", true },
	[LIMIT_MEMORY_LOW] = { "memory-reservation", "memory_reservation", UNIT_SIZE, MIB, PIB, "1m", "1024t",
			       true },
	[LIMIT_CPUS] = { "cpus", "cpus", UNIT_MILLI, 10, 10000000, "0.01", "10000", true },
	[LIMIT_PIDS] = { "pids", "pids", UNIT_COUNT, 2, 4194304, "2", "4194304", false },
	[LIMIT_NOFILE_SOFT] = { "nofile", "nofile", UNIT_COUNT, 16, 1073741816, "16", "1073741816", false },
	[LIMIT_NOFILE_HARD] = { "nofile", "nofile_hard", UNIT_COUNT, 16, 1073741816, "16", "1073741816",
				false },
	[LIMIT_TIMEOUT] = { "timeout", "timeout", UNIT_TIME, NSEC_PER_MSEC, 3650ULL * 86400 * NSEC_PER_SEC,
			    "1ms", "3650d", true },
	[LIMIT_TMP] = { "tmp-size", "tmp_size", UNIT_SIZE, 64 * KIB, PIB, "64k", "1024t", false },
	[LIMIT_SHM] = { "shm-size", "shm_size", UNIT_SIZE, 64 * KIB, PIB, "64k", "1024t", false },
	[LIMIT_OUTPUT] = { "output-limit", "output_limit", UNIT_SIZE, 1, PIB, "1", "1024t", true },
	[LIMIT_DISK] = { "disk", "disk", UNIT_SIZE, MIB, PIB, "1m", "1024t", true },
	[LIMIT_INODES] = { "disk", "inodes", UNIT_COUNT, 16, 4294967295, "16", "4294967295", true },
};
static_assert(ARRAY_SIZE(rows) == LIMIT_COUNT, "each limit has its row");

/* Options of the command line, in the order of enum limit_kind; a second number is the limit `second`. */
static const struct option {
	enum limit_kind first;
	enum limit_kind second; /* LIMIT_COUNT: takes one number */
	char separator;
} options[] = {
	{ LIMIT_MEMORY, LIMIT_COUNT, 0 },
	{ LIMIT_MEMORY_LOW, LIMIT_COUNT, 0 },
	{ LIMIT_CPUS, LIMIT_COUNT, 0 },
	{ LIMIT_PIDS, LIMIT_COUNT, 0 },
	{ LIMIT_NOFILE_SOFT, LIMIT_NOFILE_HARD, ':' },
	{ LIMIT_TIMEOUT, LIMIT_COUNT, 0 },
	{ LIMIT_TMP, LIMIT_COUNT, 0 },
	{ LIMIT_SHM, LIMIT_COUNT, 0 },
	{ LIMIT_OUTPUT, LIMIT_COUNT, 0 },
	{ LIMIT_DISK, LIMIT_INODES, ',' },
};

const char *limit_name(enum limit_kind k)
{
	return rows[k].name;
}

const char *limit_key(enum limit_kind k)
{
	return rows[k].key;
}

static uint64_t smaller_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The CPUs that this process may run on. */
static uint64_t count_cpus(void)
{
	uint64_t mask[128] = { 0 }; /* the kernel refuses a mask shorter than its own: room for 8192 CPUs */
	uint64_t n = 0;

	if (sched_getaffinity(0, sizeof(mask), (cpu_set_t *)mask) < 0)
		return 1;
	for (size_t i = 0; i < ARRAY_SIZE(mask); i++)
		n += (uint64_t)__builtin_popcountll(mask[i]);
	return n ? n : 1;
}

/* The default values for this machine. */
static void machine_defaults(uint64_t v[LIMIT_COUNT])
{
	struct sysinfo si = { 0 };
	struct rlimit nofile = { RLIM_INFINITY, RLIM_INFINITY };
	uint64_t cpus = count_cpus(), ram;

	sysinfo(&si);
	ram = (uint64_t)si.totalram * (si.mem_unit ? si.mem_unit : 1);
	getrlimit(RLIMIT_NOFILE, &nofile);

	v[LIMIT_MEMORY] = smaller_u64(ram / 2, 8 * GIB);
	v[LIMIT_MEMORY_LOW] = LIMIT_NONE;
	v[LIMIT_CPUS] = (cpus > 1 ? cpus - 1 : 1) * 1000;
	v[LIMIT_PIDS] = 1024;
	v[LIMIT_NOFILE_SOFT] = smaller_u64(8192, nofile.rlim_max);
	v[LIMIT_NOFILE_HARD] = smaller_u64(65536, nofile.rlim_max);
	v[LIMIT_TIMEOUT] = LIMIT_NONE;
	v[LIMIT_TMP] = smaller_u64(ram / 4, 2 * GIB);
	v[LIMIT_SHM] = 256 * MIB;
	v[LIMIT_OUTPUT] = 64 * MIB;
	v[LIMIT_DISK] = 10 * GIB;
	v[LIMIT_INODES] = 1000000;
}

void limits_defaults(struct limits *l)
{
	uint64_t v[LIMIT_COUNT];

	*l = (struct limits){ 0 };
	machine_defaults(v);
	for (int k = 0; k < LIMIT_COUNT; k++)
		l->l[k].value = v[k];
}

/* May a preset set this limit? Its own option always overrides a preset. */
static bool preset_may_set(const struct limit *l)
{
	return !l->named || l->preset;
}

static void apply_preset_strict(struct limits *l)
{
	static const struct {
		enum limit_kind k;
		uint64_t value;
	} strict[] = { { LIMIT_MEMORY, 3 * GIB }, { LIMIT_CPUS, 1800 }, { LIMIT_PIDS, 256 } };

	for (size_t i = 0; i < ARRAY_SIZE(strict); i++) {
		struct limit *one = &l->l[strict[i].k];

		if (!preset_may_set(one))
			continue;
		one->value = strict[i].value;
		one->named = true;
		one->preset = true;
	}
}

static void apply_preset_default(struct limits *l)
{
	uint64_t v[LIMIT_COUNT];

	machine_defaults(v);
	for (int k = 0; k < LIMIT_COUNT; k++) {
		if (!preset_may_set(&l->l[k]))
			continue;
		l->l[k].value = v[k];
		l->l[k].named = false;
		l->l[k].preset = false;
	}
	l->best_effort = false;
}

static void apply_preset_best_effort(struct limits *l)
{
	l->best_effort = true;
}

int limits_preset(struct limits *l, const char *preset, struct err *e)
{
	static const char *const names[] = { "strict", "default", "best-effort" };
	static void (*const apply[])(struct limits *) = { apply_preset_strict, apply_preset_default,
							  apply_preset_best_effort };
	struct limits changed = *l;
	char word[32];

	for (;;) {
		size_t len = strcspn(preset, ","), i = 0;
		const char *near;

		snprintf(word, sizeof(word), "%.*s", len < sizeof(word) ? (int)len : (int)sizeof(word) - 1,
			 preset);
		while (i < ARRAY_SIZE(names) && !str_eq(word, names[i]))
			i++;
		if (i == ARRAY_SIZE(names)) {
			near = str_nearest(word, names, ARRAY_SIZE(names));
			err_set(e, -EINVAL, "--limits '%s': there is no such set", word);
			return near ? err_hint(e, -EINVAL, "did you mean %s?", near)
				    : err_hint(
					      e, -EINVAL,
					      "write strict, default or best-effort, or two of them with a comma");
		}
		apply[i](&changed);
		if (!preset[len])
			break;
		preset += len + 1;
	}
	*l = changed;
	return 0;
}

/* Thousandths of a decimal number; further digits are cut. */
static int parse_milli(const char *s, uint64_t *ret)
{
	uint64_t whole = 0, frac = 0, scale = 100;
	const char *start = s;

	for (; *s >= '0' && *s <= '9'; s++) {
		if (whole > UINT64_MAX / 100000)
			return -ERANGE;
		whole = whole * 10 + (uint64_t)(*s - '0');
	}
	if (*s == '.') {
		for (s++; *s >= '0' && *s <= '9'; s++, scale /= 10)
			frac += scale * (uint64_t)(*s - '0');
	}
	if (*s || s == start || (s == start + 1 && *start == '.'))
		return -EINVAL;
	*ret = whole * 1000 + frac;
	return 0;
}

static int parse_limit_unit(enum unit u, const char *text, uint64_t *ret)
{
	switch (u) {
	case UNIT_SIZE:
		return str_to_size(text, ret);
	case UNIT_MILLI:
		return parse_milli(text, ret);
	case UNIT_TIME:
		return str_to_nsec(text, ret);
	case UNIT_COUNT:
		break;
	}
	return str_to_u64(text, ret);
}

static const char *limit_syntax_text(enum unit u)
{
	static const char *const shape[] = {
		[UNIT_SIZE] = "a size: a number with k, m, g or t, such as 512m or 3g",
		[UNIT_MILLI] = "a number of CPUs, such as 2 or 1.5",
		[UNIT_COUNT] = "a whole number, such as 256",
		[UNIT_TIME] = "a span of time, such as 90s, 10m or 2h",
	};

	return shape[u];
}

/* The error for a value that is malformed or out of range, with the nearest legal value. */
static int refuse_limit(const struct limit_row *row, const char *text, int code, bool too_much, struct err *e)
{
	if (*text == '-')
		err_set(e, -EINVAL, "--%s %.40s: a limit cannot be negative; the least is %s", row->name,
			text, row->least_text);
	else if (code == -EINVAL)
		err_set(e, -EINVAL, "--%s '%.40s': not %s", row->name, text, limit_syntax_text(row->unit));
	else if (too_much)
		err_set(e, -EINVAL, "--%s %.40s: too much; the most is %s", row->name, text, row->most_text);
	else
		err_set(e, -EINVAL, "--%s %.40s: too little; the least is %s", row->name, text,
			row->least_text);
	return row->may_lift ? err_hint(e, -EINVAL, "--%s none lifts this limit", row->name) : -EINVAL;
}

static int parse_limit_value(enum limit_kind k, const char *text, uint64_t *ret, struct err *e)
{
	const struct limit_row *row = &rows[k];
	uint64_t v = 0;
	int r;

	if (str_eq(text, "none")) {
		if (!row->may_lift)
			return err_set(e, -EINVAL, "--%s none: this limit cannot be lifted; the most is %s",
				       row->name, row->most_text);
		*ret = LIMIT_NONE;
		return 0;
	}
	r = parse_limit_unit(row->unit, text, &v);
	if (r < 0)
		return refuse_limit(row, text, r, r == -ERANGE, e);
	if (v < row->least || v > row->most)
		return refuse_limit(row, text, -ERANGE, v > row->most, e);
	*ret = v;
	return 0;
}

static int refuse_unknown_limit(const char *option, struct err *e)
{
	const char *names[ARRAY_SIZE(options)];
	const char *near;

	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		names[i] = rows[options[i].first].name;
	near = str_nearest(option, names, ARRAY_SIZE(names));
	err_set(e, -EINVAL, "there is no limit called '%.40s'", option);
	return near ? err_hint(e, -EINVAL, "did you mean --%s?", near) : -EINVAL;
}

static void set_named_limit(struct limits *l, enum limit_kind k, uint64_t value)
{
	l->l[k].value = value;
	l->l[k].named = true;
	l->l[k].preset = false;
}

/* SOFT[:HARD] and BYTES[,FILES] */
static int set_limit_pair(struct limits *l, const struct option *o, const char *text, struct err *e)
{
	const char *sep = strchr(text, o->separator);
	char first[64];
	uint64_t a = 0, b = 0;
	int r;

	if (!sep)
		sep = text + strlen(text);
	if ((size_t)(sep - text) >= sizeof(first))
		return refuse_limit(&rows[o->first], text, -EINVAL, false, e);
	memcpy(first, text, (size_t)(sep - text));
	first[sep - text] = '\0';
	r = parse_limit_value(o->first, first, &a, e);
	if (r == 0 && *sep)
		r = parse_limit_value(o->second, sep + 1, &b, e);
	if (r < 0)
		return r;
	if (o->first == LIMIT_NOFILE_SOFT) {
		b = *sep ? b : a;
		if (b < a)
			return err_set(
				e, -EINVAL,
				"--nofile %.40s: the soft limit is above the hard one; did you mean %.20s:%s?",
				text, sep + 1, first);
	}
	set_named_limit(l, o->first, a);
	if (*sep || o->first == LIMIT_NOFILE_SOFT)
		set_named_limit(l, o->second, b);
	return 0;
}

int limits_set(struct limits *l, const char *option, const char *text, struct err *e)
{
	uint64_t v = 0;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		const struct option *o = &options[i];

		if (!str_eq(option, rows[o->first].name))
			continue;
		if (o->second != LIMIT_COUNT)
			return set_limit_pair(l, o, text, e);
		r = parse_limit_value(o->first, text, &v, e);
		if (r == 0)
			set_named_limit(l, o->first, v);
		return r;
	}
	return refuse_unknown_limit(option, e);
}

int limits_check(const struct limits *l, struct err *e)
{
	uint64_t low = l->l[LIMIT_MEMORY_LOW].value, max = l->l[LIMIT_MEMORY].value;
	char a[32], b[32];

	if (low == LIMIT_NONE || low <= max)
		return 0;
	err_set(e, -EINVAL, "--memory-reservation (%s) is above the memory limit (%s)",
		limit_format(LIMIT_MEMORY_LOW, low, a), limit_format(LIMIT_MEMORY, max, b));
	return err_hint(e, -EINVAL, "lower it, or raise the limit with --memory");
}

char *limit_format(enum limit_kind k, uint64_t value, char out[32])
{
	unsigned milli;

	if (value == LIMIT_NONE)
		return memcpy(out, "none", sizeof("none"));
	switch (rows[k].unit) {
	case UNIT_SIZE:
		return str_from_size(value, out);
	case UNIT_TIME:
		return clock_span(value, out);
	case UNIT_COUNT:
		snprintf(out, 32, "%llu", (unsigned long long)value);
		return out;
	case UNIT_MILLI:
		break;
	}
	milli = (unsigned)(value % 1000);
	if (milli == 0)
		snprintf(out, 32, "%llu", (unsigned long long)(value / 1000));
	else if (milli % 100 == 0)
		snprintf(out, 32, "%llu.%u", (unsigned long long)(value / 1000), milli / 100);
	else
		snprintf(out, 32, "%llu.%03u", (unsigned long long)(value / 1000), milli);
	return out;
}
