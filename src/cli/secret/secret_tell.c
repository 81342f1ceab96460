/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifies people of failed rotations: a timer or cofferd started them, so nobody reads their output. Runs
 * after the session is closed and holds no vault lock.
 */
#include "base/cleanup.h"
#include "cli/core/say.h"
#include "cli/secret/cmd_secret.h"
#include "notify/notify.h"

#include <errno.h>

#define TRIES 3

static int notify_failures(const struct notify_conf *conf, const struct strv *failed, struct loop *loop,
			   struct err *e)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	CLEANUP(audit_freep) struct audit *audit = NULL;
	CLEANUP(notify_freep) struct notify *n = NULL;
	const struct notify_opts opts = { .tries = TRIES };
	struct notify_event ev = { .type = "secret.rotate.failed",
				   .title = failed->n == 1 ? "A secret could not be rotated"
							   : "Secrets could not be rotated",
				   .lines = (const char *const *)failed->v,
				   .n_lines = failed->n,
				   .answer = "coffer secret rotate --due" };
	int r = state_open(&st, e);

	r = r < 0 ? r : audit_open(&audit, st.fd, e);
	r = r < 0 ? r : loop_open(loop, e);
	r = r < 0 ? r : notify_new(&n, loop, conf, st.fd, audit, &opts, e);
	if (r == 0 && notify_post(n, &ev) < 0)
		r = err_set(e, -ENOMEM, "out of memory");
	while (r == 0 && notify_waiting(n))
		r = loop_round(loop, e);
	return r;
}

void cli_secret_tell_failed(const struct strv *failed)
{
	CLEANUP(config_notify_release) struct notify_conf conf = NOTIFY_CONF_INIT;
	struct loop loop = LOOP_INIT;
	struct err e = ERR_INIT;
	int r;

	if (!failed->n || !config_notify_is_there())
		return;
	r = config_notify_load(&conf, NULL, &e);
	if (r == 0)
		r = notify_failures(&conf, failed, &loop, &e);
	loop_close(&loop);
	if (r < 0)
		say_warn("no notification was sent: %s", e.msg);
}
