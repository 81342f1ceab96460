/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tool call (toolcall.h): parsing its arguments, the decision, the question to a person, and the log. Runs
 * nothing itself.
 */
#include "approval/toolcall.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/vec.h"
#include "config/policy_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_COMMAND 900 /* bytes of the preview that the command may take */
/* Added to the length of a question whose preview was shortened. Without it the length is that of the
 * preview, so that readers can tell whether they see everything; the preview may take three bytes for each
 * byte that is not UTF-8. */
#define CUT (3ull * ASK_PREVIEW_MAX)

void toolcall_release(struct toolcall *t)
{
	free(t->args);
	free(t->v);
	strv_release(&t->texts);
	*t = TOOLCALL_INIT;
}

/* ---- Arguments. ---- */

static int toolcall_no_memory(struct err *e)
{
	return err_set(e, -ENOMEM, "out of memory");
}

static int add_argument(struct toolcall *t, const char *key, const char *value, struct err *e)
{
	if (t->n >= TOOLCALL_VALUES_MAX)
		return err_set(e, -E2BIG, "its arguments have more than %d values", TOOLCALL_VALUES_MAX);
	if (VEC_MORE(t->v, t->n, TOOLCALL_VALUES_MAX) < 0)
		return toolcall_no_memory(e);
	if (strv_add(&t->texts, key) < 0 || strv_add(&t->texts, value) < 0)
		return toolcall_no_memory(e);
	/* The strv may move its array, but never its texts. */
	t->v[t->n++] = (struct tool_arg){ t->texts.v[t->texts.n - 2], t->texts.v[t->texts.n - 1] };
	return 0;
}

static int add_scalar_argument(struct toolcall *t, const char *key, const json_t *v, struct err *e)
{
	autofree char *text = NULL;

	if (json_is_string(v))
		return add_argument(t, key, json_string_value(v), e);
	text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
	return text ? add_argument(t, key, text, e) : toolcall_no_memory(e);
}

static int flatten_argument(struct toolcall *t, const char *key, const json_t *v, unsigned depth,
			    struct err *e);

// NOLINTNEXTLINE(misc-no-recursion): TOOLCALL_DEPTH_MAX bounds it
static int flatten_object(struct toolcall *t, const char *key, const json_t *v, unsigned depth, struct err *e)
{
	const char *name;
	json_t *item;
	int r = 0;

	json_object_foreach((json_t *)v, name, item)
	{
		autobuf struct buf path = BUF_INIT;

		buf_addf(&path, "%s%s%s", key, key[0] ? "." : "", name);
		r = buf_error(&path) ? toolcall_no_memory(e)
				     : flatten_argument(t, buf_cstr(&path), item, depth + 1, e);
		if (r < 0)
			return r;
	}
	return 0;
}

// NOLINTNEXTLINE(misc-no-recursion): TOOLCALL_DEPTH_MAX bounds it
static int flatten_argument(struct toolcall *t, const char *key, const json_t *v, unsigned depth,
			    struct err *e)
{
	int r = 0;

	if (depth > TOOLCALL_DEPTH_MAX)
		return err_set(e, -E2BIG, "its arguments are nested deeper than %d", TOOLCALL_DEPTH_MAX);
	if (json_is_object(v))
		return flatten_object(t, key, v, depth, e);
	if (!json_is_array(v))
		return add_scalar_argument(t, key, v, e);
	for (size_t i = 0; r == 0 && i < json_array_size(v); i++)
		r = flatten_argument(t, key, json_array_get(v, i), depth + 1, e);
	return r;
}

int toolcall_from_json(struct toolcall *t, const char *name, const json_t *args, struct err *e)
{
	char shown[64];
	int r;

	if (!tool_name_is_valid(name, strnlen(name, TOOL_NAME_MAX + 1)))
		return err_set(e, -EINVAL,
			       "'%s' is not a valid name of a tool: 1 to %d letters, digits and _ - . / : @",
			       str_safe(name, shown, sizeof(shown)), TOOL_NAME_MAX);
	memcpy(t->name, name, strlen(name) + 1);
	if (!args)
		return 0;
	if (!json_is_object(args))
		return err_set(e, -EINVAL, "a tool's arguments are a JSON object");
	r = flatten_argument(t, "", args, 1, e);
	if (r < 0)
		return r;
	t->args = json_dumps(args, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII);
	if (!t->args)
		return toolcall_no_memory(e);
	return strlen(t->args) <= TOOLCALL_JSON_MAX
		       ? 0
		       : err_set(e, -E2BIG, "its arguments are longer than %u MiB", TOOLCALL_JSON_MAX >> 20);
}

int toolcall_parse(struct toolcall *t, const char *name, const char *args, size_t len, struct err *e)
{
	json_error_t why;
	char shown[160];
	json_t *o;
	int r;

	if (!args)
		return toolcall_from_json(t, name, NULL, e);
	if (len > TOOLCALL_ARGS_MAX)
		return err_set(e, -E2BIG, "its arguments are longer than %u KiB", TOOLCALL_ARGS_MAX >> 10);
	o = json_loadb(args, len, JSON_REJECT_DUPLICATES, &why);
	if (!o)
		return err_set(e, -EINVAL, "a tool's arguments are a JSON object: %s",
			       str_safe(why.text, shown, sizeof(shown)));
	r = toolcall_from_json(t, name, o, e);
	json_decref(o);
	return r;
}

/* ---- The acts section of a run's policy. ---- */

/* The file is missing: that is no permission if the run's policy had such a section. */
static int read_missing_acts(int run_fd, const char *run, struct err *e)
{
	CLEANUP(state_meta_release) struct run_meta m = { 0 };
	int r = state_meta_read(run_fd, &m, e);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	return m.acts ? err_set(e, -EBADMSG,
				"the policy of %s had rules for tools or apply, and the run's copy of them is missing",
				run)
		      : 0;
}

int toolcall_read_acts(int run_fd, const char *run, struct acts *ret, struct err *e)
{
	CLEANUP(config_policy_release) struct config_policy c = { 0 };
	autobuf struct buf b = BUF_INIT;
	char name[48];
	int r = fd_read_file(run_fd, TOOLCALL_FILE, CONFIG_FILE_MAX, &b);

	if (r == -ENOENT)
		return read_missing_acts(run_fd, run, e);
	snprintf(name, sizeof(name), "the policy of %s", run);
	if (r < 0)
		return err_sys(e, r, "cannot read %s", name);
	r = config_policy_parse(name, buf_cstr(&b), b.len, &c, e);
	if (r < 0)
		return r;
	*ret = c.acts;
	c.acts = ACTS_INIT;
	/* The file has one line only, so its line numbers mean nothing to people. */
	for (size_t i = 0; i < ret->n_rules; i++)
		ret->rules[i].line = 0;
	ret->apply_line = 0;
	return 0;
}

int toolcall_write_acts(int run_fd, const struct acts *a, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	int r;

	if (!acts_says_something(a)) {
		r = unlinkat(run_fd, TOOLCALL_FILE, 0) < 0 && errno != ENOENT ? -errno : 0;
		return r < 0 ? err_sys(e, r, "cannot remove an older policy's rules for tools") : 0;
	}
	config_acts_format(a, &b);
	r = buf_error(&b) ? -ENOMEM : fd_replace_file(run_fd, TOOLCALL_FILE, b.data, b.len, 0600);
	return r < 0 ? err_sys(e, r, "cannot store the policy's rules for tools") : 0;
}

/* True: not all of it fitted. */
static bool add_shortened(struct buf *out, const char *s, size_t max)
{
	size_t n = strlen(s), room = max > out->len ? max - out->len : 0;

	if (n <= room) {
		buf_add(out, s, n);
		return false;
	}
	/* Do not cut within a UTF-8 sequence. */
	n = room > 4 ? room - 4 : 0;
	while (n && ((unsigned char)s[n] & 0xc0) == 0x80)
		n--;
	buf_add(out, s, n);
	buf_adds(out, "…");
	return true;
}

static void hash_bound_text(struct hash_stream *h, uint64_t *total, const char *s)
{
	uint64_t n = strlen(s);

	hash_stream_add(h, &n, sizeof(n));
	hash_stream_add(h, s, n);
	*total += n;
}

int toolcall_question(const struct toolcall *t, const struct tool_verdict *v, const struct toolcall_bound *b,
		      struct toolcall_texts *x, struct ask_question *ret, struct err *e)
{
	autobuf struct buf rule = BUF_INIT;
	struct hash_stream h;
	uint64_t total = 0;
	bool is_cut = false;

	if (b->shown) {
		autobuf struct buf line = BUF_INIT;

		buf_adds(&x->preview, "$ ");
		str_add_safe(&line, b->shown, strlen(b->shown), false);
		is_cut = add_shortened(&x->preview, buf_cstr(&line), SHOWN_COMMAND);
		buf_addc(&x->preview, '\n');
	}
	is_cut |= add_shortened(&x->preview, t->args ? t->args : "{}", ASK_PREVIEW_MAX);
	/* The subject of a grant (asks.h): the tool, and the conditions of the rule that required asking. */
	if (v->rule)
		tool_rule_what(v->rule, t->name, &x->what);
	else
		buf_adds(&x->what, t->name);
	if (v->rule)
		tool_rule_text(v->rule, &rule);
	(void)add_shortened(&x->rule, buf_cstr(&rule), ASK_RULE_MAX);
	hash_stream_init(&h);
	hash_bound_text(&h, &total, t->name);
	hash_bound_text(&h, &total, t->args ? t->args : "{}");
	for (size_t i = 0; b->all && i < b->all->n; i++)
		hash_bound_text(&h, &total, b->all->v[i]);
	*ret = (struct ask_question){ .kind = ASK_TOOL,
				      .has_body = true,
				      .body_len = is_cut ? total + CUT : x->preview.len,
				      .host = "",
				      .method = "",
				      .path = "",
				      .what = buf_cstr(&x->what),
				      .type = "a tool's call",
				      .rule = buf_cstr(&x->rule),
				      .reason = "",
				      .preview = buf_cstr(&x->preview),
				      .preview_len = x->preview.len };
	hash_stream_end(&h, ret->body);
	return buf_error(&x->preview) || buf_error(&x->what) || buf_error(&x->rule) || buf_error(&rule)
		       ? toolcall_no_memory(e)
		       : 0;
}

void toolcall_texts_release(struct toolcall_texts *x)
{
	buf_release(&x->preview);
	buf_release(&x->what);
	buf_release(&x->rule);
}

int toolcall_log(const struct toolcall *t, const struct tool_verdict *v, bool allowed,
		 const char *ask_about_call, struct audit *a, const char *run, struct err *e)
{
	autobuf struct buf b = BUF_INIT, rule = BUF_INIT;
	struct json j = JSON_INIT(&b);
	const char *args = t->args ? t->args : "{}";
	char hex[HASH_HEX_LEN + 1], list[ACTS_DIGEST_LEN + 1];

	hash_sha256_hex(args, strlen(args), hex);
	json_str(&j, "tool", t->name);
	json_str(&j, "decision", policy_action_name(v->action));
	json_bool(&j, "allowed", allowed);
	if (v->rule)
		tool_rule_text(v->rule, &rule);
	if (v->rule)
		json_str(&j, "rule", buf_cstr(&rule));
	if (v->rule && v->rule->source[0])
		json_str(&j, "source", v->rule->source);
	if (v->has_opinion && v->acts) {
		acts_digest(v->acts, list);
		json_str(&j, "list", list);
	}
	json_str(&j, "args", hex);
	json_u64(&j, "args_len", strlen(args));
	if (ask_about_call && ask_about_call[0])
		json_str(&j, "ask", ask_about_call);
	if (t->by)
		json_str(&j, "by", t->by);
	return buf_error(&b) || buf_error(&rule) ? toolcall_no_memory(e)
						 : audit_append(a, "tool.call", run, &b, e);
}

void toolcall_decide(const struct toolcall *t, const struct acts *const *policies, size_t n,
		     struct tool_verdict *ret)
{
	*ret = (struct tool_verdict){ .action = POLICY_ALLOW };
	for (size_t i = 0; i < n; i++) {
		struct tool_verdict v;

		acts_decide_tool(policies[i], t->name, t->v, t->n, &v);
		tool_verdict_stricter(ret, &v);
	}
}

static int ask_about_call(const struct toolcall *t, const struct tool_verdict *v,
			  const struct toolcall_bound *b, struct askhold *h, struct buf *ret_why,
			  struct err *e)
{
	CLEANUP(toolcall_texts_release) struct toolcall_texts x = { 0 };
	struct ask_question q;
	int r = toolcall_question(t, v, b, &x, &q, e);

	return r < 0 ? r : askhold(h, &q, ret_why, e);
}

int toolcall_pass(const struct toolcall *t, const struct tool_verdict *v, const struct toolcall_bound *b,
		  struct askhold *h, struct buf *ret_why, struct err *e)
{
	int r = v->action == POLICY_ALLOW;

	if (v->action == POLICY_ASK) {
		buf_addf(ret_why, "the tool %s was not allowed: ", t->name);
		r = ask_about_call(t, v, b, h, ret_why, e);
	} else if (!r) {
		tool_verdict_text(v, t->name, ret_why);
	}
	/* A denial stands whether or not it can be logged. */
	if (r <= 0)
		(void)!toolcall_log(t, v, false, h->id, h->audit, h->run, NULL);
	return r;
}
