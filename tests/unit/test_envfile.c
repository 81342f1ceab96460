/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "tap.h"
#include "vault/common/envfile.h"

#include <errno.h>

/* All entries as "NAME=value|", or the error's message. */
static const char *all(const char *text)
{
	static char copy[1024], out[2048];
	struct envfile_entry v;
	struct envfile f;
	struct err e = ERR_INIT;
	size_t n = 0;
	int r;

	snprintf(copy, sizeof(copy), "%s", text);
	out[0] = '\0';
	envfile_init(&f, copy, strlen(copy));
	while ((r = envfile_next(&f, &v, &e)) > 0)
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%s=%.*s|", v.name, (int)v.len, v.value);
	if (r < 0)
		snprintf(out, sizeof(out), "%s", e.msg);
	return out;
}

int main(void)
{
	CHECK_STR(all(""), "");
	CHECK_STR(all("# only\n\n  # comments"), "");
	CHECK_STR(all("A=b"), "A=b|");
	CHECK_STR(all("A=b\r\nC=d\r\n"), "A=b|C=d|");
	CHECK_STR(all("\xef\xbb\xbf"
		      "export A = b # why\n"),
		  "A=b|");
	CHECK_STR(all("A=b#c\nD=#e\n"), "A=b#c|D=|");
	CHECK_STR(all("A='b # c' # d\nE=\"f\\\"g\\nh\"\n"), "A=b # c|E=f\"g\nh|");
	CHECK_STR(all("A=\"two\nlines\"\nB=c"), "A=two\nlines|B=c|");
	CHECK_STR(all("A=$HOME/`x`\n"), "A=$HOME/`x`|");
	CHECK_STR(all("A='b\n"), "line 1: a quote is never closed");
	CHECK_STR(all("A=b\n=c\n"), "line 2: expected NAME=value");
	CHECK_STR(all("A b\n"), "line 1: expected '=' after A");
	CHECK_STR(all("A='b' c\n"), "line 1: unexpected text after the closing quote");
	CHECK_STR(all("A=\"x\ny\"\nB c"), "line 3: expected '=' after B");
	return tap_done();
}
