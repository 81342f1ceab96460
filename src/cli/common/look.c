/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the state directory and searches the audit log for verbs that only read. They have to work on a full
 * or read-only disk, so an error in cleaning up after crashed runs is a warning here, never a failure.
 */
#include "cli/common/look.h"

#include "audit/audit.h"
#include "audit/query.h"
#include "base/cleanup.h"
#include "cli/core/say.h"
#include "run/run.h"

#include <errno.h>
#include <jansson.h>
#include <sys/statvfs.h>

#define ROOM_LEAST (64u << 10) /* bytes: enough for an event of the log and for a run's record */

bool cli_look_has_room(const struct state *st)
{
	struct statvfs f;

	return fstatvfs(st->fd, &f) == 0 && !(f.f_flag & ST_RDONLY) &&
	       (uint64_t)f.f_bavail * f.f_frsize >= ROOM_LEAST && (f.f_files == 0 || f.f_favail > 0);
}

int cli_look_open(struct state *st, struct err *e)
{
	CLEANUP(audit_freep) struct audit *a = NULL;
	struct err why = ERR_INIT;
	int r = state_open(st, e);

	if (r < 0 || !cli_look_has_room(st))
		return r;
	if (audit_open(&a, st->fd, &why) < 0 || run_sweep(st, a, &why) < 0)
		say_warn("a run that crashed may be shown as running, because its end cannot be logged: %s",
			 why.msg);
	return 0;
}

int cli_look_event(struct state *st, const char *id, const char *type, struct buf *ret, struct err *e)
{
	const struct audit_filter f = { .sandbox = id, .type = type };
	CLEANUP(audit_back_freep) struct audit_back *b = NULL;
	struct audit_record rec;
	int r = audit_back_open(&b, st->fd, &f, UINT64_MAX, e);

	do
		r = r < 0 ? r : audit_back_next(b, &rec, e);
	while (r > 0 && !(rec.is_event && line_is_type(&rec.line, type)));
	if (r <= 0)
		return r < 0 ? r : err_set(e, -ENOENT, "the audit log has no %s of %s", type, id);
	buf_add(ret, rec.line.fields, rec.line.fields_len);
	return buf_error(ret) ? err_set(e, -ENOMEM, "out of memory") : 0;
}

int cli_look_end(struct state *st, const char *id, struct look_end *ret, struct err *e)
{
	autobuf struct buf text = BUF_INIT;
	const json_t *code, *changes;
	json_t *o;
	int r;

	buf_addc(&text, '{');
	r = cli_look_event(st, id, "run.end", &text, e);
	if (r < 0)
		return r;
	buf_addc(&text, '}');
	o = json_loadb(buf_cstr(&text), text.len, 0, NULL);
	code = json_object_get(o, "exit");
	changes = json_object_get(o, "changes");
	if (json_is_integer(code) && json_is_integer(changes))
		*ret = (struct look_end){ (int)json_integer_value(code),
					  (uint64_t)json_integer_value(changes) };
	else
		r = err_set(e, -EBADMSG, "the audit log does not say how %s ended", id);
	json_decref(o);
	return r;
}
