/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that cofferd starts to serve one request of the API (daemon/broker/webd.h): `coffer web-work
 * OP name=value…`. It prints one JSON document, or fails with exit code 3 and three lines on stderr: code,
 * message, hint. Not a command for people.
 */
#ifndef CLI_WEB_WORK_H
#define CLI_WEB_WORK_H

#include "base/err.h"
#include "base/json.h"
#include "sandbox/state/state.h"

/*
 * The maximum length of a page of a list; the next page continues from there. The first item is always
 * included, however long, or no client could get past it.
 */
#define WEB_PAGE_BYTES (1u << 20)
#define WEB_PAGE_REST 80 /* bytes of it reserved for what surrounds the items */

struct web_args {
	struct state st;
	int argc;
	char **argv;
	struct buf out;
	const char *code; /* API code of the failure; NULL: derived from the errno */
};

const char *cli_web_arg(const struct web_args *a, const char *name); /* NULL: not given */
uint64_t cli_web_arg_num(const struct web_args *a, const char *name, uint64_t otherwise);

typedef int web_work_fn(struct web_args *a, struct err *e);
web_work_fn web_work_sandboxes, web_work_sandbox; /* web_work_run.c */
web_work_fn web_work_policy, web_work_explain;	  /* web_work_policy.c */
web_work_fn web_work_audit, web_work_egress, web_work_timeline, web_work_backlog,
	web_work_feed; /* web_work_log.c */
web_work_fn web_work_asks, web_work_ask, web_work_answer, web_work_revoke,
	web_work_submit; /* web_work_asks.c */

web_work_fn web_work_secrets; /* web_work_secret.c */
web_work_fn web_work_series;  /* web_work_series.c */

int cli_web_work(int argc, char **argv);

#endif
