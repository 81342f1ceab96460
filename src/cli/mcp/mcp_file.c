/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tools read_file and write_file. The host never opens a path that a model names: coffer-init opens it
 * inside a fresh sandbox (sandbox/init/init_file.c), where masked files are masked. The response from
 * inside is hostile input.
 */
#include "base/str.h"
#include "cli/mcp/mcp_pump.h"
#include "cli/mcp/mcp_tools.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define READ_MAX (1u << 20)
#define WRITE_MAX (4u << 20)
#define PATH_LONGEST 4096
#define HEAD_MAX 24 /* "SIZE\n" */

char *cli_mcp_path(const char *path, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	const char *p = path;

	if (str_starts(p, "/workspace/"))
		p += strlen("/workspace/");
	if (*p == '/' || !*p) {
		err_set(e, -EINVAL, "path: expected a path in the workspace, relative to /workspace");
		return NULL;
	}
	while (*p) {
		size_t n = strcspn(p, "/");

		if (n == 2 && p[0] == '.' && p[1] == '.') {
			err_set(e, -EINVAL, "path: '..' is not allowed");
			return NULL;
		}
		if (n && !(n == 1 && p[0] == '.')) {
			if (b.len)
				buf_addc(&b, '/');
			buf_add(&b, p, n);
		}
		p += n + (p[n] == '/');
	}
	if (!b.len && !buf_error(&b)) {
		err_set(e, -EISDIR, "path: that is the workspace itself");
		return NULL;
	}
	p = buf_take(&b);
	if (!p)
		err_set(e, -ENOMEM, "out of memory");
	return (char *)p;
}

/* Checks the result of coffer-init's file function, which is hostile like all output from inside. */
static int judge_file_call(const struct mcp_box_end *end, const struct mcp_pump *p, struct err *e)
{
	autobuf struct buf text = BUF_INIT, safe = BUF_INIT;
	size_t len;

	if (end->cause == CAUSE_EXIT && end->exit_code == 0)
		return 0;
	if (end->cause != CAUSE_EXIT)
		return err_set(e, -EIO, "the sandbox ended by %s%s%s",
			       run_cause_name((enum run_cause)end->cause), end->msg[0] ? ": " : "", end->msg);
	cli_mcp_stream_add(&p->err, &text);
	for (len = text.len < 600 ? text.len : 600; len && text.data[len - 1] == '\n';)
		len--;
	str_add_safe(&safe, buf_cstr(&text), len, false);
	return err_set(e, -EIO, "%s", safe.len ? buf_cstr(&safe) : "the file could not be read or written");
}

/* --- read_file ---------------------------------------------------------------------------------------------------------- */

/*
 * Is the data UTF-8 text? If it was cut in the middle of a character, *len is reduced to drop that
 * character.
 */
static bool is_utf8_text(const char *data, size_t *len, bool cut)
{
	for (unsigned back = 0; back <= (cut ? 3u : 0u) && back <= *len; back++) {
		/* json_stringn() fails for invalid UTF-8. */
		json_t *v = json_stringn(data, *len - back);

		if (!v)
			continue;
		json_decref(v);
		*len -= back;
		return !memchr(data, 0, *len);
	}
	return false;
}

static void add_content_json(struct json *j, const char *data, size_t len, bool cut, uint64_t at,
			     uint64_t size)
{
	bool text = is_utf8_text(data, &len, cut);

	json_str(j, "encoding", text ? "utf-8" : "base64");
	json_u64(j, "offset", at);
	json_u64(j, "length", len);
	json_bool(j, "truncated", at + len < size);
	if (text) {
		json_strn(j, "content", data, len);
	} else {
		size_t max = sodium_base64_ENCODED_LEN(len, sodium_base64_VARIANT_ORIGINAL);
		autofree char *out = malloc(max);

		if (!out) {
			j->out->error = -ENOMEM;
			return;
		}
		sodium_bin2base64(out, max, (const unsigned char *)data, len, sodium_base64_VARIANT_ORIGINAL);
		json_str(j, "content", out);
	}
}

static int add_file_result(const char *path, const struct mcp_box_end *end, const struct buf *got,
			   uint64_t at, uint64_t max, struct buf *result, struct err *e)
{
	const char *nl = memchr(buf_cstr(got), '\n', got->len < HEAD_MAX ? got->len : HEAD_MAX);
	struct json j = JSON_INIT(result);
	char number[HEAD_MAX] = "";
	uint64_t size;
	size_t len;

	if (nl)
		memcpy(number, got->data, (size_t)(nl - got->data));
	if (!nl || str_to_u64(number, &size) < 0)
		return err_set(e, -EPROTO, "the sandbox sent a malformed response");
	len = got->len - (size_t)(nl + 1 - got->data);
	if (len > max)
		return err_set(e, -EPROTO, "the sandbox sent more bytes than were requested");
	json_obj(&j, NULL);
	json_str(&j, "path", path);
	json_u64(&j, "size", size);
	json_bool(&j, "hidden", end->hidden);
	add_content_json(&j, nl + 1, len, at + len < size, at, size);
	json_end_obj(&j);
	return 0;
}

static int tool_read_file(void *ctx, const json_t *args, const struct mcp_job *job, struct buf *result,
			  struct err *e)
{
	autofree char *path = cli_mcp_path(mcp_text(args, "path"), e);
	uint64_t at = mcp_integer(args, "offset", 0), max = mcp_integer(args, "length", READ_MAX);
	char at_text[24], max_text[24];
	char *const argv[] = { (char *)"file-read", path, at_text, max_text, NULL };
	struct mcp_box_cmd c = { .argv = argv, .builtin = true, .alive = job->alive, .path = path };
	static struct mcp_pump p; /* large */
	struct mcp_box_end end = { 0 };
	int r;

	if (!path)
		return e->code;
	snprintf(at_text, sizeof(at_text), "%llu", (unsigned long long)at);
	snprintf(max_text, sizeof(max_text), "%llu", (unsigned long long)max);
	p.out.keep_head = READ_MAX + HEAD_MAX;
	p.err.keep_head = MCP_KEEP_HEAD;
	r = cli_mcp_pump_run(&p, ctx, &c, &end, e);
	if (r == 0)
		r = judge_file_call(&end, &p, e);
	return r < 0 ? r : add_file_result(path, &end, &p.out.head, at, max, result, e);
}

static const struct mcp_param read_params[] = {
	{ "path", MCP_TEXT, true, PATH_LONGEST, "Path of a file in the workspace. Symlinks are not followed.",
	  NULL },
	{ "offset", MCP_INTEGER, false, 1ULL << 50, "First byte to read; 0 by default.", NULL },
	{ "length", MCP_INTEGER, false, READ_MAX, "How many bytes at most; 1 MiB by default, and at most.",
	  NULL },
};

const struct mcp_tool mcp_tool_read = {
	.name = "read_file",
	.title = "Read a file of the workspace",
	.help = "Reads a file of the workspace: as text, or as base64 where it is not UTF-8. A file that is hidden for its "
		"credentials is empty, and marked.",
	.params = read_params,
	.n_params = ARRAY_SIZE(read_params),
	.output =
		"{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},\"size\":{\"type\":\"integer\"},"
		"\"hidden\":{\"type\":\"boolean\"},\"encoding\":{\"type\":\"string\",\"enum\":[\"utf-8\",\"base64\"]},"
		"\"offset\":{\"type\":\"integer\"},\"length\":{\"type\":\"integer\"},\"truncated\":{\"type\":\"boolean\"},"
		"\"content\":{\"type\":\"string\"}},\"required\":[\"path\",\"size\",\"encoding\",\"content\"]}",
	.read_only = true,
	.run = tool_read_file,
};

/* --- write_file --------------------------------------------------------------------------------------------------------- */

static int decode_content(const json_t *args, struct buf *out, struct err *e)
{
	const char *text = mcp_text(args, "content"), *enc = mcp_text(args, "encoding"), *end;
	size_t len = strlen(text), got;
	char *at;

	if (!enc || !str_eq(enc, "base64")) {
		buf_add(out, text, len);
		return buf_error(out) ? err_set(e, -ENOMEM, "out of memory") : 0;
	}
	at = buf_reserve(out, len + 1);
	if (!at)
		return err_set(e, -ENOMEM, "out of memory");
	if (sodium_base642bin((unsigned char *)at, len + 1, text, len, "\r\n", &got, &end,
			      sodium_base64_VARIANT_ORIGINAL) < 0 ||
	    *end)
		return err_set(e, -EINVAL, "content: not valid base64");
	out->len += got;
	return 0;
}

static int tool_write_file(void *ctx, const json_t *args, const struct mcp_job *job, struct buf *result,
			   struct err *e)
{
	autofree char *path = cli_mcp_path(mcp_text(args, "path"), e);
	char *const argv[] = { (char *)"file-write", path, NULL };
	struct mcp_box_cmd c = { .argv = argv, .builtin = true, .alive = job->alive, .path = path };
	static struct mcp_pump p; /* large */
	autobuf struct buf content = BUF_INIT;
	struct json j = JSON_INIT(result);
	struct mcp_changes ch = { 0 };
	struct mcp_box_end end = { 0 };
	char label[100], name[16] = "";
	int r = path ? decode_content(args, &content, e) : e->code;

	if (r < 0)
		return r;
	p.input = buf_cstr(&content);
	p.left = content.len;
	p.out.keep_head = p.err.keep_head = MCP_KEEP_HEAD;
	r = cli_mcp_pump_run(&p, ctx, &c, &end, e);
	if (r == 0)
		r = judge_file_call(&end, &p, e);
	if (r < 0)
		return r;
	snprintf(label, sizeof(label), "write_file: ");
	str_safe(path, label + strlen(label), sizeof(label) - strlen(label));
	r = cli_mcp_note_changes(ctx, label, &ch, e);
	if (r < 0)
		return r;
	if (ch.number)
		snprintf(name, sizeof(name), "c%u", ch.number);
	buf_release(&ch.list);
	json_obj(&j, NULL);
	json_str(&j, "path", path);
	json_u64(&j, "bytes", content.len);
	json_str(&j, "checkpoint", name);
	json_end_obj(&j);
	return 0;
}

static const struct mcp_param write_params[] = {
	{ "path", MCP_TEXT, true, PATH_LONGEST,
	  "Path of a file in the workspace. Directories on the way are made.", NULL },
	{ "content", MCP_TEXT, true, WRITE_MAX, "The whole new content.", NULL },
	{ "encoding", MCP_WORD, false, 0, "Encoding of content: utf-8 (default) or base64.", "utf-8 base64" },
};

const struct mcp_tool mcp_tool_write = {
	.name = "write_file",
	.title = "Write a file of the workspace",
	.help = "Makes or replaces a file of the workspace with the content given.",
	.params = write_params,
	.n_params = ARRAY_SIZE(write_params),
	.output =
		"{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},\"bytes\":{\"type\":\"integer\"},"
		"\"checkpoint\":{\"type\":\"string\"}},\"required\":[\"path\",\"bytes\"]}",
	.destructive = true,
	.run = tool_write_file,
};
