/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the list of commands at the start of a push. gitpkt_service.c tells which requests are pushes. The
 * bytes are hostile: a list in which anything is not understood is refused.
 */
#include "codec/body/gitpkt.h"

#include "base/hex.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>

enum { AT_COMMANDS, AT_OPTIONS, AT_DONE, AT_FAILED };
enum { PKT_HEAD = 4, SHA1_LEN = 40, SHA256_LEN = 64 };

static int push_is_malformed(struct gitpkt_push *g, const char *why)
{
	g->why = why;
	g->state = AT_FAILED;
	return -EBADMSG;
}

void gitpkt_push_release(struct gitpkt_push *g)
{
	free(g->commands);
	g->commands = NULL;
	buf_release(&g->text);
}

/* The length in the head of a pkt-line, which counts the head itself; -1 when it is no hexadecimal number. */
static long pkt_len(const char *p)
{
	long v = 0;

	for (int i = 0; i < PKT_HEAD; i++) {
		int d = hex_digit(p[i]);

		if (d < 0)
			return -1;
		v = v << 4 | d;
	}
	return v;
}

/* --- the parts of a line ------------------------------------------------------------------------------------ */

/* Takes an object id and the space after it, unless the line ends there; moves *line past both. */
static bool take_oid(struct gitpkt_push *g, struct slice *line, bool *ret_zero)
{
	size_t n = 0;
	bool zero = true;

	while (n < line->len && hex_digit(line->p[n]) >= 0) {
		zero = zero && line->p[n] == '0';
		n++;
	}
	if (n != SHA1_LEN && n != SHA256_LEN)
		return false;
	if (g->oid_len && g->oid_len != n)
		return false;
	if (n < line->len && line->p[n] != ' ')
		return false;
	g->oid_len = n;
	*ret_zero = zero;
	n += n < line->len;
	*line = (struct slice){ line->p + n, line->len - n };
	return true;
}

static bool is_component(struct slice s)
{
	if (s.len == 0 || s.p[0] == '.')
		return false;
	return s.len < 5 || memcmp(s.p + s.len - 5, ".lock", 5) != 0;
}

static bool has_ref_bytes(struct slice s)
{
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.p[i], next = i + 1 < s.len ? (unsigned char)s.p[i + 1] : 0;

		if (c < 0x21 || c == 0x7f || strchr("~^:?*[\\", c))
			return false;
		if ((c == '.' && (next == '.' || next == 0)) || (c == '@' && next == '{'))
			return false;
	}
	return true;
}

/* gitpkt.G3: the rules of git check-ref-format, for a ref below refs/. */
static bool is_ref(struct slice s)
{
	size_t start = 0;

	if (s.len > GITPKT_REF_MAX || !slice_starts(s, "refs/") || !has_ref_bytes(s))
		return false;
	for (size_t i = 0; i <= s.len; i++) {
		if (i < s.len && s.p[i] != '/')
			continue;
		if (!is_component((struct slice){ s.p + start, i - start }))
			return false;
		start = i + 1;
	}
	return true;
}

static int take_capability(struct gitpkt_push *g, struct slice s, bool *has_format)
{
	if (slice_eq(s, "push-options"))
		g->has_options = true;
	if (slice_eq(s, "atomic"))
		g->atomic = true;
	if (!slice_starts(s, "object-format="))
		return 0;
	g->sha256 = slice_eq(s, "object-format=sha256");
	if (*has_format || (!g->sha256 && !slice_eq(s, "object-format=sha1")))
		return push_is_malformed(g, "it names two object formats, or an unknown one");
	*has_format = true;
	return 0;
}

static int take_capabilities(struct gitpkt_push *g, struct slice s)
{
	bool has_format = false;
	size_t start = 0;
	int r;

	if (s.len > GITPKT_CAPS_MAX)
		return push_is_malformed(g, "its capabilities are too long");
	for (size_t i = 0; i <= s.len; i++) {
		if (i < s.len && (s.p[i] < 0x20 || s.p[i] > 0x7e))
			return push_is_malformed(g, "its capabilities contain an invalid byte");
		if (i < s.len && s.p[i] != ' ')
			continue;
		r = take_capability(g, (struct slice){ s.p + start, i - start }, &has_format);
		if (r < 0)
			return r;
		start = i + 1;
	}
	return 0;
}

/* --- lines -------------------------------------------------------------------------------------------------- */

static int add_ref_command(struct gitpkt_push *g, struct slice ref, bool is_create, bool is_delete)
{
	if (g->n_commands == GITPKT_COMMANDS_MAX)
		return push_is_malformed(g, "it has too many commands");
	if (VEC_ROOM(g->commands, g->n_commands, g->room, GITPKT_COMMANDS_MAX) < 0)
		return -ENOMEM;
	g->commands[g->n_commands++] = (struct gitpkt_command){
		.is_create = is_create,
		.is_delete = is_delete,
		.at = (uint32_t)g->text.len,
		.len = (uint32_t)ref.len,
	};
	buf_add(&g->text, ref.p, ref.len);
	return buf_error(&g->text);
}

static int take_command(struct gitpkt_push *g, struct slice line)
{
	const char *nul = memchr(line.p, 0, line.len);
	struct slice ref = line, caps = SLICE_NONE;
	bool is_create, is_delete;
	int r;

	if (nul) {
		ref.len = (size_t)(nul - line.p);
		caps = (struct slice){ nul + 1, line.len - ref.len - 1 };
	}
	if (nul && g->n_commands)
		return push_is_malformed(g, "capabilities follow a command that is not the first");
	if (!take_oid(g, &ref, &is_create) || !take_oid(g, &ref, &is_delete))
		return push_is_malformed(g, "a command does not begin with two object ids of one kind");
	if (!is_ref(ref))
		return push_is_malformed(g, "a command names a ref that git does not allow");
	r = nul ? take_capabilities(g, caps) : 0;
	if (r < 0)
		return r;
	if (g->oid_len != (g->sha256 ? SHA256_LEN : SHA1_LEN))
		return push_is_malformed(g, "object ids do not match the named object format");
	return add_ref_command(g, ref, is_create, is_delete);
}

static int take_command_line(struct gitpkt_push *g, struct slice line)
{
	bool zero;

	if (line.len && line.p[line.len - 1] == '\n')
		line.len--;
	if (line.len == 0)
		return push_is_malformed(g, "a line is empty");
	if (g->state == AT_OPTIONS) {
		if (!slice_eq(line, "ci.skip"))
			return push_is_malformed(
				g,
				"it has a push option that can make servers do more than accept a push; only "
				"ci.skip is allowed");
		return ++g->options > GITPKT_OPTIONS_MAX
			       ? push_is_malformed(g, "it has too many push options")
			       : 0;
	}
	if (slice_starts(line, "push-cert"))
		return push_is_malformed(g, "a signed push is not supported; push without --signed");
	if (!slice_starts(line, "shallow "))
		return take_command(g, line);
	line = (struct slice){ line.p + 8, line.len - 8 };
	if (g->n_commands || !take_oid(g, &line, &zero) || line.len)
		return push_is_malformed(g, "a shallow line is malformed or follows a command");
	return ++g->shallows > GITPKT_SHALLOW_MAX ? push_is_malformed(g, "it has too many shallow lines") : 0;
}

static void finish_commands(struct gitpkt_push *g)
{
	for (unsigned i = 0; i < g->n_commands; i++)
		g->commands[i].ref = (struct slice){ g->text.data + g->commands[i].at, g->commands[i].len };
	g->size = g->seen;
	g->state = AT_DONE;
}

static void take_flush(struct gitpkt_push *g)
{
	g->seen += PKT_HEAD;
	if (g->state == AT_COMMANDS && g->has_options)
		g->state = AT_OPTIONS;
	else
		finish_commands(g);
}

int gitpkt_push_feed(struct gitpkt_push *g, const char *data, size_t len)
{
	int r;

	BUG_ON(len < g->seen && g->state < AT_DONE);
	while (g->state < AT_DONE && len - g->seen >= PKT_HEAD) {
		const char *p = data + g->seen;
		long n = pkt_len(p);

		if (n == 0) {
			take_flush(g);
			continue;
		}
		if (n <= PKT_HEAD || n > (long)GITPKT_MAX)
			return push_is_malformed(g, "a line's length is wrong");
		if (g->seen + (size_t)n > GITPKT_LIST_MAX)
			return push_is_malformed(g, "the list of commands is too long");
		if (len - g->seen < (size_t)n)
			return 0;
		r = take_command_line(g, (struct slice){ p + PKT_HEAD, (size_t)n - PKT_HEAD });
		if (r < 0)
			return r;
		g->seen += (size_t)n;
	}
	return g->state == AT_FAILED ? -EBADMSG : g->state == AT_DONE;
}

int gitpkt_fetch_kind(const char *data, size_t len)
{
	static const struct {
		const char *line;
		enum gitpkt_fetch kind;
	} commands[] = {
		{ "command=fetch", GITPKT_FETCH_V2 },
		{ "command=ls-refs", GITPKT_FETCH_V2_REFS },
		{ "command=object-info", GITPKT_FETCH_V2_INFO },
		{ "command=bundle-uri", GITPKT_FETCH_V2_INFO },
	};
	struct slice line;
	long n;

	if (len < PKT_HEAD)
		return 0;
	n = pkt_len(data);
	if (n == 0)
		return GITPKT_FETCH_NOTHING;
	if (n <= PKT_HEAD || n > (long)GITPKT_MAX)
		return -EBADMSG;
	if (len < (size_t)n)
		return 0;
	line = (struct slice){ data + PKT_HEAD, (size_t)n - PKT_HEAD };
	if (line.p[line.len - 1] == '\n')
		line.len--;
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (slice_eq(line, commands[i].line))
			return commands[i].kind;
	}
	return slice_starts(line, "want ") ? GITPKT_FETCH_V0 : -EBADMSG;
}
