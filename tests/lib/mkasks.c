/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many runs with many questions each, all pending, served as a run's guard serves them:
 *
 *	mkasks STATE RUNS [BYTES]
 *
 * Each with a preview of so many BYTES. Makes the runs' directories, prints "ready", and serves until its stdin ends.
 */
#include "approval/server/askserve.h"
#include "base/cleanup.h"
#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int write_nothing(void *ctx, const char *type, const struct buf *fields, uint64_t *ret_seq)
{
	(void)ctx;
	(void)ret_seq;
	(void)type;
	(void)fields;
	return 0;
}

static void on_stdin(struct watch *w, uint32_t events)
{
	(void)events;
	loop_stop(w->ctx);
}

static int serve_one(struct askserve *s, struct loop *l, int runs, unsigned n, size_t bytes, struct err *e)
{
	const struct askserve_owner owner = { .event = write_nothing };
	char id[RUN_ID_LEN + 1], what[256], preview[ASK_PREVIEW_MAX + 1] = "";
	int dir, r;

	bytes = bytes < ASK_PREVIEW_MAX ? bytes : ASK_PREVIEW_MAX;
	memset(preview, '\033', bytes);
	/* As far from each other as those of real ones: a question's id has the beginning of its run's. */
	snprintf(id, sizeof(id), "%08x%04x", (n + 1) * 2654435761u, n);
	if (mkdirat(runs, id, 0700) < 0 || (dir = openat(runs, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return err_sys(e, -errno, "cannot make run %s", id);
	r = askserve_open(s, l, dir, id, 86400, &owner, e);
	if (r == 0)
		r = askserve_listen(s, e);
	for (unsigned i = 0; r == 0 && i < ASKS_PENDING_MAX; i++) {
		/* As an agent would like a person, a terminal or a page to read it. */
		const struct ask_question q = { .kind = ASK_QUESTION,
						.what = what,
						.host = "",
						.method = "",
						.path = "",
						.type = "",
						.rule = "",
						.reason = "<script>alert(1)</script>\033[2J\xe2\x80\xae",
						.preview = preview,
						.preview_len = bytes };

		snprintf(what, sizeof(what), "question %u of %s <img src=x onerror=alert(1)> \033]0;x\007", i,
			 id);
		askserve_put(s, &q, i + 1, NULL);
	}
	return r;
}

int main(int argc, char **argv)
{
	struct loop l = LOOP_INIT;
	struct watch in = { .fd = 0, .fn = on_stdin, .ctx = &l };
	struct err e = ERR_INIT;
	unsigned long n = argc == 3 || argc == 4 ? strtoul(argv[2], NULL, 10) : 0,
		      bytes = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
	struct askserve *s = n ? calloc(n, sizeof(*s)) : NULL;
	int state = s ? open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int runs = state < 0 ? -1 : openat(state, "runs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = runs < 0 ? -1 : loop_open(&l, &e);

	for (unsigned long i = 0; r == 0 && i < n; i++)
		r = serve_one(&s[i], &l, runs, (unsigned)i, bytes, &e);
	if (r == 0)
		r = loop_watch(&l, &in, EPOLLIN);
	if (r < 0) {
		fprintf(stderr, "mkasks STATE RUNS [BYTES]: %s\n", e.msg);
		return 1;
	}
	puts("ready");
	fflush(stdout);
	r = loop_run(&l, &e);
	return r < 0;
}
