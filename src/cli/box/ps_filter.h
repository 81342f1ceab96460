/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer ps --filter KEY=VALUE. As with docker, several values of one key are alternatives, and different
 * keys must all match.
 */
#ifndef CLI_PS_FILTER_H
#define CLI_PS_FILTER_H

#include "base/err.h"
#include "base/str.h"
#include "sandbox/state/state.h"

#include <stdbool.h>

struct ps_filter {
	struct strv terms; /* "KEY=VALUE", checked */
};

/* -EINVAL, with a message, for an unknown key or a value that can never match. */
int cli_ps_filter_add(struct ps_filter *f, const char *text, struct err *e) MUST_CHECK;
bool cli_ps_filter_fits(const struct ps_filter *f, const struct run_meta *m, bool alive);
/* Does the filter select runs that have ended? Then they are shown without -a, as docker does. */
bool cli_ps_filter_wants_ended(const struct ps_filter *f);
void cli_ps_filter_release(struct ps_filter *f);

#endif
