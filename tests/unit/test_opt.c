/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/opt.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "tap.h"

#include <errno.h>

enum { ENV = 1, INTERACTIVE, TTY, MEMORY, MEMORY_LOW, QUIET, ENGINE };

static const struct opt table[] = {
	OPT_SECTION("Process"),
	{ "env", 'e', "NAME[=VALUE]", "give it a variable", ENV, .many = true },
	{ "interactive", 'i', NULL, "keep stdin open", INTERACTIVE },
	{ "tty", 't', NULL, "give it a terminal", TTY },
	OPT_SECTION("Limits"),
	{ "memory", 'm', "SIZE", "bytes it may use", MEMORY },
	{ "memory-reservation", 0, "SIZE", "bytes it is sure of", MEMORY_LOW },
	{ "quiet", 'q', NULL, "no notes", QUIET },
	{ "engine", 0, "NAME", "how it is isolated", ENGINE, "auto ns gvisor" },
};

#define MAX_WORDS 16

/* Parses the words and writes what happened as text: "1=A=b 2 3 | rest of words". */
static const char *parse(const char *const *words, size_t n)
{
	static char out[2048];
	struct err e = ERR_INIT;
	char *argv[MAX_WORDS] = { (char *)"run" };
	struct optparse p;
	const char *value;
	size_t len = 0;
	int id;

	for (size_t i = 0; i < n; i++)
		argv[i + 1] = (char *)words[i];
	p = OPTPARSE_INIT((int)n + 1, argv, table, ARRAY_SIZE(table));
	out[0] = '\0';
	while ((id = opt_next(&p, &value, &e)) > 0)
		len += (size_t)snprintf(out + len, sizeof(out) - len, "%d%s%s ", id, value ? "=" : "",
					value ? value : "");
	if (id < 0) {
		snprintf(out, sizeof(out), "%s / %s", e.msg, e.hint);
		return out;
	}
	len += (size_t)snprintf(out + len, sizeof(out) - len, "|");
	for (int i = p.index; i < p.argc; i++)
		len += (size_t)snprintf(out + len, sizeof(out) - len, " %s", p.argv[i]);
	return out;
}

#define PARSE(...)                                  \
	parse((const char *const[]){ __VA_ARGS__ }, \
	      sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static void test_accepts(void)
{
	CHECK_STR(PARSE("ls", "-i", "--quiet"), "| ls -i --quiet");
	CHECK_STR(PARSE("-e", "A=b", "-eC", "--env", "D", "--env=E=f=g", "ls"), "1=A=b 1=C 1=D 1=E=f=g | ls");
	CHECK_STR(PARSE("-it", "ls"), "2 3 | ls");
	CHECK_STR(PARSE("-iteA=1", "ls"), "2 3 1=A=1 | ls");
	CHECK_STR(PARSE("-ite", "A=1", "ls"), "2 3 1=A=1 | ls");
	CHECK_STR(PARSE("-m=3g", "-"), "4=3g | -");
	CHECK_STR(PARSE("-i", "--", "-t", "--", "x"), "2 | -t -- x");
	CHECK_STR(PARSE("--"), "|");
	CHECK_STR(PARSE("--memory=", "x"), "4= | x");
	CHECK_STR(PARSE("--memory", "-5"), "4=-5 |");
	CHECK_STR(PARSE("--memory", ""), "4= |");
	CHECK_STR(PARSE("--env", "--not-an-option"), "1=--not-an-option |");
	CHECK_STR(PARSE("--env=--quiet"), "1=--quiet |");
	CHECK_STR(PARSE(""), "| ");
	CHECKF(str_starts(PARSE("-h"), "65536 |"), "the option -h is built in");
	CHECKF(str_starts(PARSE("-i", "--help"), "2 65536 |"), "the option --help is built in");
}

static void test_refuses(void)
{
	CHECK_STR(PARSE("--memroy", "3g"), "run has no option --memroy / --memory");
	CHECK_STR(PARSE("--quite"), "run has no option --quite / --quiet");
	CHECK_STR(PARSE("--hlep"), "run has no option --hlep / --help");
	CHECK_STR(PARSE("--frobnicate"), "run has no option --frobnicate / ");
	CHECK_STR(PARSE("--memory-"), "run has no option --memory- / --memory");
	CHECK_STR(PARSE("--mem=3"), "run has no option --mem / ");
	CHECK_STR(PARSE("-x"), "run has no option -x / ");
	CHECK_STR(PARSE("-M", "3g"), "run has no option -M / -m (--memory)");
	CHECK_STR(PARSE("-ix"), "run has no option -x / ");
	CHECK_STR(PARSE("--memory"), "--memory needs a value / --memory SIZE: bytes it may use");
	CHECK_STR(PARSE("-m"), "--memory needs a value / --memory SIZE: bytes it may use");
	CHECK_STR(PARSE("--memory", "--quiet"),
		  "--memory needs a value, but --quiet follows / --memory SIZE: bytes it may use");
	CHECK_STR(PARSE("--memory", "--env=A"),
		  "--memory needs a value, but --env=A follows / --memory SIZE: bytes it may use");
	CHECK_STR(PARSE("--memory", "--", "ls"),
		  "--memory needs a value, but -- follows / --memory SIZE: bytes it may use");
	CHECK_STR(PARSE("--quiet=yes"), "--quiet takes no value / ");
	CHECK_STR(PARSE("--=x"), "run has no option -- / ");
	CHECK_STR(PARSE("--memory", "1g", "--memory=2g"),
		  "--memory takes one value and is given two, '1g' and '2g' / leave one of them out");
	CHECK_STR(PARSE("--engine=gvisor", "-m1g", "-i", "--engine", "ns"),
		  "--engine takes one value and is given two, 'gvisor' and 'ns' / leave one of them out");
	CHECK_STR(PARSE("-m1g", "--memory=2g", "x"),
		  "--memory takes one value and is given two, '1g' and '2g' / leave one of them out");
	CHECK_STR(PARSE("-m1g", "--memory=1g", "x"), "4=1g 4=1g | x");
}

static void test_long_garbage(void)
{
	static char word[1 << 20];

	memset(word, 'a', sizeof(word) - 1);
	word[0] = word[1] = '-';
	CHECKF(str_starts(PARSE(word), "run has no option --aaaa"), "a megabyte of option is refused");
}

static void test_interleaved(void)
{
	char *argv[] = { (char *)"cp", (char *)"a",  (char *)"-q", (char *)"b",
			 (char *)"--", (char *)"-i", NULL };
	struct optparse p = OPTPARSE_INIT(6, argv, table, ARRAY_SIZE(table));
	struct err e = ERR_INIT;
	const char *value;

	CHECK(opt_next(&p, &value, &e) == 0);
	CHECK_STR(opt_take(&p), "a");
	CHECK(opt_next(&p, &value, &e) == QUIET);
	CHECK(opt_next(&p, &value, &e) == 0);
	CHECK_STR(opt_take(&p), "b");
	CHECK(opt_next(&p, &value, &e) == 0);
	CHECK_STR(opt_take(&p), "-i");
	CHECK(opt_next(&p, &value, &e) == 0);
	CHECK(opt_take(&p) == NULL);
}

static void test_one_of(void)
{
	struct err e = ERR_INIT;

	CHECK(opt_one_of("--engine", "auto", "auto ns gvisor", &e) == 0);
	CHECK(opt_one_of("--engine", "gvisor", "auto ns gvisor", &e) == 2);
	CHECK(opt_one_of("--engine", "gvisr", "auto ns gvisor", &e) == -EINVAL);
	CHECK_STR(e.msg, "--engine cannot be 'gvisr'");
	CHECK_STR(e.hint, "gvisor (one of: auto ns gvisor)");
	CHECK(opt_one_of("--engine", "", "auto ns gvisor", &e) == -EINVAL);
	CHECK(opt_one_of("--engine", "auto ns", "auto ns gvisor", &e) == -EINVAL);
}

int main(void)
{
	test_accepts();
	test_refuses();
	test_long_garbage();
	test_interleaved();
	test_one_of();
	return tap_done();
}
