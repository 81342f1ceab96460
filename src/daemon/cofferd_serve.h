/* SPDX-License-Identifier: Apache-2.0 */
/* Entry point of the daemon cofferd. Its promises to clients are in cofferdc/cofferd_client.h. */
#ifndef DAEMON_COFFERD_SERVE_H
#define DAEMON_COFFERD_SERVE_H

#include "base/err.h"
#include "base/str.h"
#include "sandbox/state/state.h"

#include <stdbool.h>

struct cofferd_how {
	int coffer_fd;		  /* the coffer program */
	int listen_fd;		  /* passed by a service manager; -1: make one */
	bool stay;		  /* do not exit when idle */
	const struct strv *first; /* a template to make sandboxes of at once; may be empty */
	void (*ready)(void);	  /* called once clients are accepted */
};

/* Serves until it is idle or told to exit. */
int cofferd_serve(struct state *st, const struct cofferd_how *how, struct err *e) MUST_CHECK;

#endif
