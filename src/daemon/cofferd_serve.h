/* SPDX-License-Identifier: Apache-2.0 */
/* cofferd itself: the daemon's entry point. Its promises to clients are in cofferdc/cofferd_client.h. */
#ifndef DAEMON_COFFERD_SERVE_H
#define DAEMON_COFFERD_SERVE_H

#include "base/err.h"
#include "base/str.h"
#include "sandbox/state/state.h"

#include <stdbool.h>

struct cofferd_how {
	int coffer_fd;		  /* the coffer program */
	int listen_fd;		  /* handed over by a service manager; -1: make one */
	bool stay;		  /* also without anything to do */
	const struct strv *first; /* a template to begin with; may be empty */
	void (*ready)(void);	  /* called once it serves */
};

/* Serves until idle or told to go. */
int cofferd_serve(struct state *st, const struct cofferd_how *how, struct err *e) MUST_CHECK;

#endif
