/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tool exec: runs one command in a fresh sandbox over the session's workspace, and returns its output,
 * its exit code and the changed files. No process of the command may outlive the call (mcp_box.X4).
 */
#include "base/clock.h"
#include "cli/mcp/mcp_pump.h"
#include "cli/mcp/mcp_tools.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define STDIN_MAX (4u << 20)

static void add_stream_json(struct json *j, const char *name, const char *omitted_name,
			    const struct mcp_stream *s)
{
	autobuf struct buf text = BUF_INIT;
	uint64_t omitted = cli_mcp_stream_add(s, &text);

	json_strn(j, name, buf_cstr(&text), text.len);
	json_u64(j, omitted_name, omitted);
}

static void add_lines_json(struct json *j, const char *key, const char *text)
{
	json_arr(j, key);
	while (*text) {
		size_t n = strcspn(text, "\n");

		json_strn(j, NULL, text, n);
		text += n + (text[n] == '\n');
	}
	json_end_arr(j);
}

static void add_changes_json(struct json *j, const struct mcp_changes *ch)
{
	char name[16] = "";

	if (ch->number)
		snprintf(name, sizeof(name), "c%u", ch->number);
	json_str(j, "checkpoint", name);
	json_u64(j, "changed_count", ch->n);
	buf_addf(j->out, ",\"changed\":%s", ch->list.len ? buf_cstr(&ch->list) : "[]");
}

static int add_exec_result(const struct mcp_box_end *end, const struct mcp_pump *p,
			   const struct mcp_changes *ch, struct buf *out)
{
	struct json j = JSON_INIT(out);

	json_obj(&j, NULL);
	json_i64(&j, "exit_code", end->exit_code);
	json_str(&j, "cause", run_cause_name((enum run_cause)end->cause));
	json_u64(&j, "duration_ms", end->wall_ns / NSEC_PER_MSEC);
	add_stream_json(&j, "stdout", "stdout_omitted", &p->out);
	add_stream_json(&j, "stderr", "stderr_omitted", &p->err);
	json_bool(&j, "output_limit_reached", end->output_cut);
	if (end->msg[0])
		json_str(&j, "message", end->msg);
	add_lines_json(&j, "network_notes", end->notes);
	add_changes_json(&j, ch);
	json_end_obj(&j);
	return end->cause != CAUSE_EXIT && end->cause != CAUSE_SIGNAL;
}

static char **make_exec_argv(const json_t *args, struct err *e)
{
	const char *command = mcp_text(args, "command");
	const json_t *list = json_object_get(args, "argv");
	size_t n = command ? 4 : json_array_size(list);
	char **v;

	if (!command == !list) {
		err_set(e, -EINVAL, "give either command or argv");
		return NULL;
	}
	if (list && (n == 0 || !*json_string_value(json_array_get(list, 0)))) {
		err_set(e, -EINVAL, "argv: the command is missing");
		return NULL;
	}
	v = calloc(n + 1, sizeof(*v));
	if (!v) {
		err_set(e, -ENOMEM, "out of memory");
		return NULL;
	}
	for (size_t i = 0; i < n && list; i++)
		v[i] = (char *)json_string_value(json_array_get(list, i));
	if (command) {
		v[0] = (char *)"sh";
		v[1] = (char *)"-c";
		v[2] = (char *)"--";
		v[3] = (char *)command;
	}
	return v;
}

static void make_checkpoint_label(char *const *argv, bool shell, char *out, size_t size)
{
	snprintf(out, size, "exec: ");
	str_safe(argv[shell ? 3 : 0], out + strlen(out), size - strlen(out));
}

static int tool_exec(void *ctx, const json_t *args, const struct mcp_job *job, struct buf *result,
		     struct err *e)
{
	const struct mcp_box *b = ctx;
	autofree char **argv = make_exec_argv(args, e);
	struct mcp_box_cmd c = { .argv = argv,
				 .cwd = mcp_text(args, "cwd"),
				 .env = json_object_get(args, "env"),
				 .timeout = mcp_integer(args, "timeout_s", 0) * NSEC_PER_SEC,
				 .alive = job->alive };
	static struct mcp_pump p; /* large */
	struct mcp_changes ch = { 0 };
	struct mcp_box_end end = { 0 };
	char label[80];
	int r;

	if (!argv)
		return e->code;
	p.job = job;
	p.input = mcp_text(args, "stdin");
	p.left = p.input ? strlen(p.input) : 0;
	p.out.keep_head = p.err.keep_head = MCP_KEEP_HEAD;
	r = cli_mcp_pump_run(&p, b, &c, &end, e);
	if (r < 0)
		return r;
	make_checkpoint_label(argv, !json_object_get(args, "argv"), label, sizeof(label));
	r = cli_mcp_note_changes(b, label, &ch, e);
	return r < 0 ? r : add_exec_result(&end, &p, &ch, result);
}

static const struct mcp_param exec_params[] = {
	{ "command", MCP_TEXT, false, 1u << 20, "A shell command, run by sh -c. Either this or argv.", NULL },
	{ "argv", MCP_LIST, false, 4096, "A program and its arguments, run without a shell.", NULL },
	{ "cwd", MCP_TEXT, false, 4096, "Working directory; relative to /workspace, which is the default.",
	  NULL },
	{ "env", MCP_MAP, false, 256, "Environment variables to set.", NULL },
	{ "stdin", MCP_TEXT, false, STDIN_MAX, "Text for its standard input; empty by default.", NULL },
	{ "timeout_s", MCP_INTEGER, false, 86400,
	  "Seconds after which it is killed; no more than the session's limit.", NULL },
};

const struct mcp_tool mcp_tool_exec = {
	.name = "exec",
	.title = "Run a command in a sandbox",
	.help = "Runs one command in a fresh sandbox over the workspace at /workspace. Files written there stay for later "
		"calls; processes, /tmp and everything else do not. The network is closed unless the operator opened it. "
		"Returns exit code, cause of the end, output and the files it changed; each call that changed something "
		"makes a checkpoint.",
	.params = exec_params,
	.n_params = ARRAY_SIZE(exec_params),
	.output =
		"{\"type\":\"object\",\"properties\":{\"exit_code\":{\"type\":\"integer\"},\"cause\":{\"type\":\"string\"},"
		"\"duration_ms\":{\"type\":\"integer\"},\"stdout\":{\"type\":\"string\"},"
		"\"stdout_omitted\":{\"type\":\"integer\"},\"stderr\":{\"type\":\"string\"},"
		"\"stderr_omitted\":{\"type\":\"integer\"},\"output_limit_reached\":{\"type\":\"boolean\"},"
		"\"message\":{\"type\":\"string\"},\"network_notes\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"
		"\"checkpoint\":{\"type\":\"string\"},\"changed_count\":{\"type\":\"integer\"},"
		"\"changed\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"path\":{\"type\":"
		"\"string\"},\"kind\":{\"type\":\"string\"}},\"required\":[\"path\",\"kind\"]}}},"
		"\"required\":[\"exit_code\",\"cause\",\"stdout\",\"stderr\"]}",
	.destructive = true,
	.open_world = true,
	.run = tool_exec,
};
