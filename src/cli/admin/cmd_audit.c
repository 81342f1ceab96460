/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer audit: shows the audit log, follows it, verifies it, and accepts a break after a person has
 * examined it. Nothing from an event reaches a terminal unescaped: names and texts in it may come from
 * inside a sandbox.
 */
#include "audit/audit.h"

#include "audit/query.h"
#include "audit/verify.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/core/ref.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"
#include "sandbox/state/state.h"

#include <errno.h>
#include <jansson.h>
#include <unistd.h>

#define EXIT_BROKEN 1
#define FOLLOW_LINES 10
#define LINES_MAX 100000
#define FLUSH_AT 65536
#define OBJECT_SHOWN 200 /* bytes; a larger object (all limits of a run) is only in --json */

enum { OPT_FOLLOW = 1, OPT_JSON, OPT_SINCE, OPT_SANDBOX, OPT_TYPE, OPT_LINES, OPT_REASON };

static const struct opt audit_opts[] = {
	{ "follow", 'f', NULL, "continue with new events", OPT_FOLLOW },
	{ "lines", 'n', "N", "only the last N events (10 with --follow, else all)", OPT_LINES },
	{ "since", 0, "TIME", "only events since then: 2026-01-31, 2026-01-31T12:00:00Z, 2h", OPT_SINCE },
	{ "sandbox", 0, "REF", "only events of this sandbox: id, its beginning, name or @last", OPT_SANDBOX,
	  "sandbox" },
	{ "type", 0, "TYPE", "only events of this type; run includes run.start, run.end …", OPT_TYPE },
	{ "json", 0, NULL, "print the lines of the log unchanged; with verify, one object", OPT_JSON },
	{ "reason", 0, "TEXT", "with accept: why the break is accepted, which is logged", OPT_REASON },
};

enum audit_act { ACT_SHOW, ACT_VERIFY, ACT_ACCEPT };

struct audit_args {
	enum audit_act act;
	bool follow, json, has_lines;
	uint64_t lines;
	uint64_t since;
	const char *sandbox, *type, *reason;
};

/* How events are printed, and the output that is not written yet. */
struct printer {
	struct buf out;
	bool json, color, raw; /* raw: output is no terminal, so bytes need no escaping */
};

static void add_field_value(struct buf *out, const json_t *v)
{
	const char *s = json_string_value(v);
	size_t len = json_string_length(v);
	char *dump;

	if (s && len && strcspn(s, " \"=\\") == len) {
		str_add_safe(out, s, len, false);
		return;
	}
	dump = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
	if (dump && json_is_object(v) && strlen(dump) > OBJECT_SHOWN)
		buf_adds(out, "{…}");
	else if (dump)
		str_add_safe(out, dump, strlen(dump), false);
	else
		out->error = -ENOMEM;
	free(dump);
}

/* Adds " key=value" for each member. Fields that are no valid JSON are shown as text. */
static void add_event_fields(struct buf *out, const struct line *l)
{
	autobuf struct buf text = BUF_INIT;
	const char *key;
	json_t *obj, *v;

	if (l->fields_len == 0)
		return;
	buf_addc(&text, '{');
	buf_add(&text, l->fields, l->fields_len);
	buf_addc(&text, '}');
	obj = json_loadb(buf_cstr(&text), text.len, JSON_ALLOW_NUL, NULL);
	if (!obj) {
		buf_addc(out, ' ');
		str_add_safe(out, l->fields, l->fields_len, false);
		return;
	}
	json_object_foreach(obj, key, v)
	{
		buf_addc(out, ' ');
		str_add_safe(out, key, strlen(key), false);
		buf_addc(out, '=');
		add_field_value(out, v);
	}
	json_decref(obj);
}

/* Format: 2026-01-31T12:34:56.789Z  run.start  a1b2c3d4e5f6  key=value … seq=12 */
static void format_event(struct printer *p, const struct line *l)
{
	char type[80], seq[32];

	snprintf(type, sizeof(type), "%.*s", (int)l->type_len, l->type);
	snprintf(seq, sizeof(seq), " seq=%llu", (unsigned long long)l->seq);
	buf_add(&p->out, l->time, LINE_TIME_LEN - 4); /* cut after the milliseconds */
	buf_adds(&p->out, "Z  ");
	say_add(&p->out, p->color, SAY_BOLD, type);
	buf_addf(&p->out, "%*s  %.*s", (int)(l->type_len < 12 ? 12 - l->type_len : 0), "",
		 l->sandbox ? (int)l->sandbox_len : 12, l->sandbox ? l->sandbox : "-           ");
	buf_addc(&p->out, ' ');
	add_event_fields(&p->out, l);
	say_add(&p->out, p->color, SAY_DIM, seq);
	buf_addc(&p->out, '\n');
}

static void print_record(struct printer *p, const struct audit_record *rec)
{
	const char *text = rec->text ? rec->text : "(a line of more than 1 MiB)";
	size_t len = rec->text ? rec->len : strlen(text);

	if (!p->json && rec->is_event) {
		format_event(p, &rec->line);
		return;
	}
	if (!p->json)
		say_add(&p->out, p->color, SAY_RED, "not an event ('coffer audit verify' says more): ");
	if (p->raw)
		buf_add(&p->out, text, len);
	else
		str_add_safe(&p->out, text, len, false);
	buf_addc(&p->out, '\n');
}

static int flush_printer(struct printer *p)
{
	int r = say_out(&p->out);

	buf_clear(&p->out);
	return r;
}

/* The last lines of the log, read from its end. */
struct tail {
	char **v;
	size_t *len;
	size_t cap, n;
};

static void tail_release(struct tail *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->v[i]);
	free(t->v);
	free(t->len);
}

static int tail_add(struct tail *t, const struct audit_record *rec)
{
	if (!rec->text)
		return 0;
	if (!t->v) {
		t->v = calloc(t->cap, sizeof(*t->v));
		t->len = calloc(t->cap, sizeof(*t->len));
		if (!t->v || !t->len)
			return -ENOMEM;
	}
	t->v[t->n] = malloc(rec->len + 1);
	if (!t->v[t->n])
		return -ENOMEM;
	memcpy(t->v[t->n], rec->text, rec->len);
	t->v[t->n][rec->len] = '\0';
	t->len[t->n++] = rec->len;
	return 0;
}

/* Shows the last lines. Returns an exit code, or -1: continue after event number *ret_last. */
static int print_tail(int state_fd, const struct audit_filter *f, const struct audit_args *args,
		      struct printer *p, uint64_t *ret_last)
{
	CLEANUP(tail_release) struct tail t = { .cap = (size_t)args->lines };
	CLEANUP(audit_back_freep) struct audit_back *b = NULL;
	struct audit_record rec;
	struct err e = ERR_INIT;
	int r = audit_last_seq(state_fd, ret_last, &e);

	if (r == 0)
		r = audit_back_open(&b, state_fd, f, args->follow ? *ret_last + 1 : UINT64_MAX, &e);
	while (r >= 0 && t.n < t.cap && (r = audit_back_next(b, &rec, &e)) > 0)
		r = tail_add(&t, &rec);
	if (r == -ENOMEM)
		err_sys(&e, r, "cannot show the audit log");
	if (r < 0)
		return say_error(&e);
	for (size_t i = t.n; i-- > 0;) {
		struct audit_record one = { .text = t.v[i], .len = t.len[i] };

		one.is_event = line_parse(one.text, one.len, &one.line) == 0;
		print_record(p, &one);
	}
	return flush_printer(p) ? EXIT_OURS : -1;
}

/* Shows all events from the position of the query to the present end of the log. Returns an exit code, or -1: continue. */
static int print_logged_events(struct audit_query *q, struct printer *p)
{
	struct audit_record rec;
	struct err e = ERR_INIT;
	int r;

	while ((r = audit_query_next(q, &rec, &e)) > 0) {
		print_record(p, &rec);
		if (p->out.len > FLUSH_AT && flush_printer(p))
			return EXIT_OURS;
	}
	if (r < 0)
		return say_error(&e);
	return flush_printer(p) ? EXIT_OURS : -1;
}

/* Shows events as they are logged. Returns only an exit code. */
static int follow_events(struct audit_query *q, struct printer *p)
{
	struct err e = ERR_INIT;
	int r;

	while ((r = print_logged_events(q, p)) < 0) {
		if (audit_query_wait(q, 1000, &e) < 0)
			return say_error(&e);
	}
	return r;
}

static int show_events(struct state *st, const struct audit_args *args)
{
	CLEANUP(audit_query_freep) struct audit_query *q = NULL;
	struct audit_filter f = { .since = args->since, .type = args->type };
	struct printer p = { .json = args->json,
			     .color = say_colors(STDOUT_FILENO),
			     .raw = !isatty(STDOUT_FILENO) };
	char id[RUN_ID_LEN + 1];
	struct err e = ERR_INIT;
	uint64_t last = 0;
	int r;

	if (args->sandbox) {
		if (ref_resolve_logged(st, args->sandbox, id, &e) < 0)
			return say_error(&e);
		f.sandbox = id;
	}
	p.raw = p.raw && p.json; /* the text format is always escaped, wherever it is written */
	if (audit_query_open(&q, st->fd, &f, &e) < 0)
		return say_error(&e);
	r = args->has_lines ? print_tail(st->fd, &f, args, &p, &last) : print_logged_events(q, &p);
	if (r < 0 && last && audit_query_seek(q, last + 1, &e) < 0)
		r = say_error(&e);
	if (r < 0)
		r = args->follow ? follow_events(q, &p) : 0;
	buf_release(&p.out);
	return r;
}

static void format_verdict_json(const struct audit_verdict *v, struct buf *out)
{
	struct json j = JSON_INIT(out);

	json_obj(&j, NULL);
	json_bool(&j, "ok", v->ok);
	json_u64(&j, "events", v->events);
	json_u64(&j, "first", v->first_seq);
	json_u64(&j, "last", v->last_seq);
	json_str(&j, "hash", v->last_hash);
	json_u64(&j, "pruned_through", v->pruned_through);
	json_u64(&j, "heads", v->heads);
	json_u64(&j, "last_head", v->last_head);
	json_str(&j, "log", v->log);
	json_str(&j, "key", v->key);
	json_str(&j, "note", v->note[0] ? v->note : NULL);
	json_arr(&j, "breaks");
	for (size_t i = 0; i < v->n_findings; i++) {
		const struct audit_finding *f = &v->findings[i];

		json_obj(&j, NULL);
		json_str(&j, "kind", audit_break_name(f->kind));
		json_u64(&j, "from", f->from);
		json_u64(&j, "to", f->to);
		json_str(&j, "text", f->text);
		json_str(&j, "id", f->id);
		json_u64(&j, "accepted_by", f->accepted_by);
		json_end_obj(&j);
	}
	json_end_arr(&j);
	json_u64(&j, "more", v->more);
	json_end_obj(&j);
	buf_addc(out, '\n');
}

static void add_audit_finding(struct buf *out, const struct audit_finding *f, bool color)
{
	if (f->accepted_by)
		say_add(out, color, SAY_YELLOW, "accepted");
	else
		say_add(out, color, SAY_RED, "broken");
	buf_addf(out, " (%s): ", audit_break_name(f->kind));
	str_add_safe(out, f->text, strlen(f->text), false);
	if (f->accepted_by)
		buf_addf(out, "; accepted by event %llu", (unsigned long long)f->accepted_by);
	buf_addc(out, '\n');
}

static void format_verdict(const struct audit_verdict *v, struct buf *out)
{
	bool color = say_colors(STDOUT_FILENO);

	for (size_t i = 0; i < v->n_findings; i++)
		add_audit_finding(out, &v->findings[i], color);
	if (v->more)
		buf_addf(out, "and %llu more\n", (unsigned long long)v->more);
	if (v->note[0])
		buf_addf(out, "note: %s\n", v->note);
	if (v->ok)
		say_add(out, color, SAY_GREEN, "ok");
	else
		say_add(out, color, SAY_RED, "BROKEN");
	buf_addf(out, ": %llu events", (unsigned long long)v->events);
	if (v->events)
		buf_addf(out, " (%llu to %llu)", (unsigned long long)v->first_seq,
			 (unsigned long long)v->last_seq);
	if (v->pruned_through)
		buf_addf(out, ", pruned through %llu", (unsigned long long)v->pruned_through);
	if (v->heads)
		buf_addf(out, ", %llu signed heads up to event %llu", (unsigned long long)v->heads,
			 (unsigned long long)v->last_head);
	buf_addc(out, '\n');
}

static int verify_log(struct state *st, const struct audit_args *args)
{
	CLEANUP(audit_verdict_release) struct audit_verdict v = AUDIT_VERDICT_INIT;
	autobuf struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	if (audit_verify(st->fd, &v, &e) < 0)
		return say_error(&e);
	if (args->json)
		format_verdict_json(&v, &out);
	else
		format_verdict(&v, &out);
	if (say_out(&out))
		return EXIT_OURS;
	return v.ok ? 0 : EXIT_BROKEN;
}

static int accept_log_break(struct state *st, const struct audit_args *args)
{
	struct err e = ERR_INIT;
	uint64_t seq = 0;

	if (audit_accept(st->fd, args->reason, &seq, &e) < 0)
		return say_error(&e);
	say_note("the break is on record as accepted by event %llu; logging continues after it",
		 (unsigned long long)seq);
	return 0;
}

static int take_audit_option(struct audit_args *args, int id, const char *value, struct err *e)
{
	switch (id) {
	case OPT_FOLLOW:
		args->follow = true;
		return 0;
	case OPT_JSON:
		args->json = true;
		return 0;
	case OPT_SINCE:
		return opt_time("--since", value, &args->since, e);
	case OPT_SANDBOX:
		args->sandbox = value;
		return 0;
	case OPT_TYPE:
		args->type = value;
		return 0;
	case OPT_LINES:
		args->has_lines = true;
		if (str_to_u64(value, &args->lines) == 0 && args->lines <= LINES_MAX)
			return 0;
		return err_set(e, -EINVAL, "--lines takes a number from 0 to %d, not '%.64s'", LINES_MAX,
			       value);
	default:
		args->reason = value;
		return 0;
	}
}

static int take_audit_action(struct audit_args *args, const char *word, struct err *e)
{
	static const char *const acts[] = { "verify", "accept" };
	const char *near;

	for (size_t i = 0; i < ARRAY_SIZE(acts); i++) {
		if (str_eq(word, acts[i])) {
			args->act = (enum audit_act)(ACT_VERIFY + i);
			return 0;
		}
	}
	near = str_nearest(word, acts, ARRAY_SIZE(acts));
	err_set(e, -EINVAL, "audit has no action '%.64s'", word);
	return near ? err_hint(e, -EINVAL, "did you mean 'coffer audit %s'?", near)
		    : err_hint(e, -EINVAL, "it has 'verify' and 'accept'");
}

/* An option without effect on this action is a mistake, and refused. */
static int check_audit_args(const struct audit_args *args, struct err *e)
{
	bool filters = args->follow || args->has_lines || args->since || args->sandbox || args->type;

	if (args->act != ACT_SHOW && filters)
		return err_set(e, -EINVAL,
			       "%s takes the whole log: no --follow, --lines, --since, --sandbox or --type",
			       args->act == ACT_VERIFY ? "audit verify" : "audit accept");
	if (args->act == ACT_ACCEPT && (!args->reason || !*args->reason))
		return err_set(e, -EINVAL, "audit accept needs --reason TEXT, which is logged with it");
	if (args->act != ACT_ACCEPT && args->reason)
		return err_set(e, -EINVAL, "--reason belongs to 'coffer audit accept'");
	return 0;
}

/*
 * Returns 0, OPT_HELP, or a negative errno for a usage error. Options may come before and after the action.
 */
static int parse_audit_args(int argc, char **argv, struct audit_args *args, struct err *e)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, audit_opts, ARRAY_SIZE(audit_opts));
	const char *value, *word;
	int id, r = 0;

	while (r == 0 && (id = opt_next(&p, &value, e)) != 0) {
		if (id < 0 || id == OPT_HELP)
			return id;
		r = take_audit_option(args, id, value, e);
	}
	word = opt_take(&p);
	if (r == 0 && word)
		r = take_audit_action(args, word, e);
	if (r == 0 && (word = opt_take(&p)) != NULL)
		r = err_set(e, -EINVAL, "'%.64s' is one argument too many", word);
	if (r == 0)
		r = check_audit_args(args, e);
	if (args->follow && !args->has_lines) {
		args->has_lines = true;
		args->lines = FOLLOW_LINES;
	}
	return r;
}

static int cmd_audit(int argc, char **argv)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	struct audit_args args = { 0 };
	struct err e = ERR_INIT;
	int r = parse_audit_args(argc, argv, &args, &e);

	if (r == OPT_HELP)
		return verb_print_help(&verb_audit);
	if (r < 0)
		return say_usage(&verb_audit, &e);
	if (state_open(&st, &e) < 0)
		return say_error(&e);
	if (args.act == ACT_VERIFY)
		return verify_log(&st, &args);
	if (args.act == ACT_ACCEPT)
		return accept_log_break(&st, &args);
	return show_events(&st, &args);
}

const struct verb verb_audit = {
	.name = "audit",
	.group = VERB_HOST,
	.synopsis = "[OPTIONS] | verify [--json] | accept --reason TEXT",
	.help = "show and verify the audit log",
	.opts = audit_opts,
	.n_opts = ARRAY_SIZE(audit_opts),
	.run = cmd_audit,
	.text = "Shows the audit log: one line for each event, in UTC, oldest first. The log is "
		"written outside of every sandbox; each event has the hash of the event before it, and "
		"an anchor next to the log is updated with it. A long object, such as the limits of a "
		"run, is shown as {…}; *--json* prints it whole.\n"
		"\n"
		"*verify* reads the whole log and reports every event that was changed, deleted or "
		"moved, a cut end, a replaced anchor, and a signed head that does not match; traces of "
		"a crash are reported separately and do not count as a break. The exit code is 0 if "
		"the log is whole, 1 if it is broken.\n"
		"\n"
		"Nothing is written to a log that does not match its anchor, and no sandbox runs "
		"without a log. After a person has examined the break, *accept --reason* TEXT "
		"continues the log after it. The existing events are kept unchanged, the break and the "
		"reason are logged, and *verify* reports the break as accepted from then on. A power "
		"failure may lose the last seconds of the log, which then looks like a cut end.",
	.examples = "  coffer audit --sandbox @last\n"
		    "\t# what the last run did\n"
		    "  coffer audit -f --type run\n"
		    "\t# runs as they start and end\n"
		    "  coffer audit --since 2h --json | jq .type\n"
		    "\t# for other programs\n"
		    "  coffer audit verify\n"
		    "\t# is the log whole?\n",
};
