/* SPDX-License-Identifier: Apache-2.0 */
/* The list of breaks that verify found, and which of them an operator has accepted. */
#ifndef AUDIT_FINDING_H
#define AUDIT_FINDING_H

#include "audit/verify.h"
#include "base/buf.h"
#include "base/err.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* One break that an audit.accept event names. */
struct accepted {
	struct audit_finding f;
	bool matched; /* verify still finds it */
};

struct accepted_list {
	struct accepted *v;
	size_t n;
};

struct finding_what {
	enum audit_break kind;
	uint64_t from, to;
	/* distinguish this change from another one in the same place; may be NULL */
	const char *want, *found;
};

/* Adds a finding and returns it, valid until the next one is added; NULL if the list is full (it is
 * counted). */
struct audit_finding *finding_add(struct audit_verdict *v, const struct finding_what *w, const char *fmt, ...)
	PRINTF_LIKE(3, 4);

/* Reads the breaks of an audit.accept event. -ENOMEM, or 0: an unreadable part accepts nothing. */
int finding_accept(struct accepted_list *l, uint64_t seq, const json_t *event) MUST_CHECK;

/* Drops findings that turned out to be none, assigns ids, and marks accepted ones. An accepted break that is
 * not found any more (a cut tail leaves no trace once the log has continued) is added, so that it is always
 * reported. */
int finding_settle(struct audit_verdict *v, struct accepted_list *l) MUST_CHECK;

/* The member "breaks" of an audit.accept event: every finding that was not accepted yet. */
void finding_format(const struct audit_verdict *v, struct buf *out);

#endif
