/* SPDX-License-Identifier: Apache-2.0 */
/* A run as every verb that starts a sandbox prepares it: state, audit log, spec, network, engine and
 * report. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "cli/run/run_args.h"
#include "run/obeys.h"
#include "run/run.h"
#include "run/supervise/ports.h"

struct session {
	struct state st;
	struct spec spec;
	struct audit *audit;
	struct choice choice;
	struct run_spec_note note;
	struct net_plan net;
	struct ports ports;
	struct obeys obeys;
	struct run run;
	int report; /* -1: none */
	bool usage; /* cli_session_open() failed because of the command line */
};

#define SESSION_INIT                              \
	((struct session){ .st = STATE_INIT,      \
			   .spec = SPEC_INIT,     \
			   .choice = CHOICE_INIT, \
			   .net = NET_PLAN_INIT,  \
			   .obeys = OBEYS_INIT,   \
			   .report = -1 })

/* Refuses all that can be refused; no part of a run exists yet. *s must not be moved afterwards: s->run
 * points into it. */
int cli_session_open(struct session *s, const struct run_args *a, struct err *e) MUST_CHECK;
void cli_session_release(struct session *s);

/* Prints the notes after the run, writes the report if --report names one, and returns the exit code. */
int cli_session_end(struct session *s, const struct run_args *a);

#endif
