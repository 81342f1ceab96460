/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the inject_*.c files: the pieces of a request in which a placeholder may be. */
#ifndef EGRESS_INJECT_INT_H
#define EGRESS_INJECT_INT_H

#include "egress/message/http_msg.h"
#include "vault/common/grants.h"

struct slice inject_path(const struct http_req *q);
/* The first placeholder in a text; NULL: none. */
const struct vault_grant *inject_placeholder(const struct vault_grants *g, struct slice s, size_t *ret_at);
/* The same text with encoded colons decoded; in `tmp` where it has any. */
struct slice inject_uncolon(struct slice s, struct buf *tmp);

bool inject_next_piece(struct slice *s, char sep, struct slice *ret);
struct slice inject_trim(struct slice s);
struct slice inject_param_name(struct slice pair); /* of "name=value" */
struct slice inject_param_value(struct slice pair);

bool inject_has_scheme(struct slice v, const char *scheme, struct slice *ret);
bool inject_basic_pair(struct slice value, struct buf *out);

#endif
