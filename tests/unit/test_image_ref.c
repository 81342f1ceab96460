/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/image/image_ref.h"
#include "sandbox/image/passwd.h"
#include "tap.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

int main(void)
{
	static const struct {
		const char *text, *name; /* NULL: refused */
	} tries[] = {
		{ "debian", "debian:latest" },
		{ "debian:12", "debian:12" },
		{ "docker.io/library/debian:12", "debian:12" },
		{ "library/index.docker.io/x:1", "library/index.docker.io/x:1" },
		{ "docker.io/index.docker.io/x:1", "docker.io/index.docker.io/x:1" },
		{ "library/library/x:1", "library/library/x:1" },
		{ "docker.io/me/app", "me/app:latest" },
		{ "localhost:5000/a/b", "localhost:5000/a/b:latest" },
		{ "localhost:5000/a/b:c@sha256:" HEX, "localhost:5000/a/b:c" },
		{ "debian@sha256:" HEX, "debian@sha256:" HEX },
		{ "", NULL },
		{ "/abs", NULL },
		{ "../up", NULL },
		{ "a/../b", NULL },
		{ "a//b", NULL },
		{ "a/", NULL },
		{ "-x", NULL },
		{ "a b", NULL },
		{ "a:", NULL },
		{ "a:.x", NULL },
		{ "a@sha256:12", NULL },
		{ "a@md5:" HEX, NULL },
		{ "a\x1b", NULL },
	};
	char text[] = "x:y\nroot:x:0:0:r:/root:/bin/sh\n::\nbad:x:12a:1\nbob:x:1000:5:B:/h:/s\n",
	     *f[7] = { 0 };
	char again[sizeof(text)], cut[] = "long:x:1:1:Long:/home/long:/bin/sh\nshort:x:2\n";

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		struct image_ref r;
		char name[IMAGE_NAME_MAX + 1];
		int ret = image_ref_parse(tries[i].text, &r, NULL);

		CHECKF((ret == 0) == (tries[i].name != NULL), "the reference '%s' is accepted or refused",
		       tries[i].text);
		if (ret == 0)
			CHECK_STR(image_ref_name(&r, name), tries[i].name);
	}
	memcpy(again, text, sizeof(text));
	CHECK(passwd_find(text, "bob", 0, f, 7));
	CHECK_STR(f[2], "1000");
	CHECK_STR(f[5], "/h");
	memcpy(text, again, sizeof(text));
	CHECK(passwd_find(text, NULL, 0, f, 7));
	CHECK_STR(f[0], "root");
	memcpy(text, again, sizeof(text));
	CHECK(!passwd_find(text, "bad", 0, f, 7));
	CHECK(passwd_find(cut, "short", 0, f, 7));
	CHECKF(!f[3] && !f[4] && !f[5] && !f[6], "a line with too few fields has none of the line before");
	return tap_done();
}
