/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cofferd: maintains the warm pool, and restarts sandboxes. Started by coffer, with the coffer program open
 * on the first descriptor after those that a service manager passed.
 *
 *	cofferd [--stay] [--background] [--starting] [-- TEMPLATE...]
 *	cofferd --tokens     prints the tokens in the database, where nothing can be written, and exits
 */
#include "base/fd.h"
#include "base/signals.h"
#include "cofferdc/activate.h"
#include "cofferdc/cofferd_client.h"
#include "cofferdc/cofferd_int.h"
#include "daemon/broker/webd.h"
#include "daemon/cofferd_serve.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#ifdef COFFER_STATIC
/* SQLite could load extensions; this program must load nothing. */
void *dlopen(const char *file, int mode);
void *dlsym(void *handle, const char *name);
int dlclose(void *handle);
char *dlerror(void);

void *dlopen(const char *file, int mode)
{
	(void)file;
	(void)mode;
	return NULL;
}

void *dlsym(void *handle, const char *name)
{
	(void)handle;
	(void)name;
	return NULL;
}

int dlclose(void *handle)
{
	(void)handle;
	return -1;
}

char *dlerror(void)
{
	static char why[] = "nothing is loaded here";

	return why;
}
#endif

static bool in_background;
static int starting = -1;

/* The starter waits for the end of our stderr, or for a message on it. */
static void report_ready(void)
{
	int null = in_background ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;

	if (null >= 0)
		(void)!dup2(null, 2);
	fd_close(null);
	starting = fd_close(starting);
	activate_notify("READY=1");
}

static int print_tokens(void)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	autobuf struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	bool old = false;
	int r = state_open(&st, &e);

	if (r == 0)
		r = webd_read_creds(&st, &out, &old, &e);
	if (r == 0)
		r = fd_write_all(1, out.data, out.len);
	if (r < 0)
		fprintf(stderr, "coffer: %s\n", e.code ? e.msg : strerror(-r));
	else if (old)
		fprintf(stderr, "coffer: cofferd was killed: its last changes may be missing here\n");
	return r < 0;
}

int main(int argc, char **argv)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	struct strv first = STRV_INIT;
	unsigned given = activate_count();
	struct cofferd_how how = { .coffer_fd = ACTIVATE_FIRST + (int)given,
				   .listen_fd = -1,
				   .first = &first,
				   .ready = report_ready };
	struct err e = ERR_INIT;
	int r, i = 1;

	signals_begin();
	if (argc == 2 && str_eq(argv[1], "--tokens"))
		return print_tokens();
	r = fd_set_cloexec(how.coffer_fd, true);

	for (; i < argc && !str_eq(argv[i], "--"); i++) {
		how.stay = how.stay || str_eq(argv[i], "--stay");
		in_background = in_background || str_eq(argv[i], "--background");
		if (str_eq(argv[i], "--starting") && given == 0 &&
		    fd_set_cloexec(COFFERD_FD_STARTING, true) == 0)
			starting = COFFERD_FD_STARTING;
	}
	if (i < argc)
		first = (struct strv){ .v = argv + i + 1, .n = (size_t)(argc - i - 1) };
	if (r < 0) {
		fprintf(stderr,
			"cofferd: started by coffer when it is needed; by hand: coffer gateway start\n");
		return 2;
	}
	if (given)
		r = how.listen_fd = activate_take(&e);
	if (r >= 0)
		r = state_open(&st, &e);
	if (r >= 0)
		r = cofferd_serve(&st, &how, &e);
	if (r < 0)
		fprintf(stderr, "cofferd: %s%s%s\n", e.msg, *e.hint ? "; " : "", e.hint);
	return r < 0;
}
