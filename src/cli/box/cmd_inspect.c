/* SPDX-License-Identifier: Apache-2.0 */
/* coffer inspect: prints all that is known about sandboxes as JSON, from the run's record, its launcher and
 * the audit log. The value of a secret is in none of them. */
#include "base/cleanup.h"
#include "base/str.h"
#include "cli/common/look.h"
#include "cli/common/run_json.h"
#include "cli/common/run_size.h"
#include "cli/core/ref.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"
#include "run/supervise/usage.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define SIZE_BUDGET 1000000u /* files */

/* Adds the members of the newest event of that type; null if the log has none (any more). */
static int add_logged_event(struct json *j, struct state *st, const char *key, const char *id,
			    const char *type, struct err *e)
{
	autobuf struct buf fields = BUF_INIT;
	struct err why = ERR_INIT;
	int r = cli_look_event(st, id, type, &fields, &why);

	if (r == -ENOENT) {
		json_none(j, key);
		return 0;
	}
	if (r < 0) {
		*e = why;
		return r;
	}
	json_obj(j, key);
	buf_add(j->out, buf_cstr(&fields), fields.len);
	json_end_obj(j);
	return 0;
}

static void add_run_usage(struct json *j, int run_fd, bool alive)
{
	CLEANUP(procs_release) struct procs procs = { 0 };
	struct err ignored = ERR_INIT;
	struct usage u;

	if (!alive || usage_read(run_fd, &procs, &u, &ignored) < 0) {
		json_none(j, "usage");
		return;
	}
	json_obj(j, "usage");
	cli_run_json_add_usage(j, &u);
	json_end_obj(j);
}

static void add_run_files(struct json *j, const struct ref *ref)
{
	static const char *const names[] = { "upper",	 "root-upper",	"from",
					     "disk.img", "checkpoints", "output.log" };
	autobuf struct buf dir = BUF_INIT;
	uint64_t budget = SIZE_BUDGET;
	struct run_size size;
	struct stat st;

	buf_addf(&dir, "%s/runs/%s", ref->st.path, ref->id);
	json_str(j, "directory", buf_cstr(&dir));
	json_arr(j, "layers");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (fstatat(ref->run_fd, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			json_str(j, NULL, names[i]);
	}
	json_end_arr(j);
	cli_run_size_read(ref->run_fd, &budget, &size);
	json_u64(j, "size", size.bytes);
	json_bool(j, "size_is_part", size.is_part);
}

static int inspect_one(struct json *j, const char *text, struct err *e)
{
	CLEANUP(state_meta_release) struct run_meta m = { 0 };
	autoref struct ref ref = REF_INIT;
	int r = ref_open(&ref, text, e);

	if (r < 0)
		return r;
	r = state_meta_read(ref.run_fd, &m, e);
	if (r < 0 && r != -ENOENT)
		return r;
	snprintf(m.id, sizeof(m.id), "%s", ref.id);
	json_obj(j, NULL);
	cli_run_json_add(j, &m, ref.alive);
	json_str(j, "home", m.home);
	add_run_files(j, &ref);
	add_run_usage(j, ref.run_fd, ref.alive);
	r = add_logged_event(j, &ref.st, "start", ref.id, "run.start", e);
	if (r == 0)
		r = add_logged_event(j, &ref.st, "end", ref.id, "run.end", e);
	json_end_obj(j);
	return r;
}

static int cmd_inspect(int argc, char **argv)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, NULL, 0);
	autobuf struct buf out = BUF_INIT;
	struct json j = JSON_INIT(&out);
	struct err e = ERR_INIT;
	const char *value;
	int id = opt_next(&p, &value, &e), code = 0;

	if (id == OPT_HELP)
		return verb_print_help(&verb_inspect);
	if (id == 0 && p.index >= p.argc)
		id = err_set(&e, -EINVAL, "inspect needs a sandbox: its name, id or @last");
	if (id < 0)
		return say_usage(&verb_inspect, &e);
	json_arr(&j, NULL);
	for (int i = p.index; i < p.argc; i++) {
		e = ERR_INIT;
		if (inspect_one(&j, p.argv[i], &e) < 0)
			code = say_error(&e);
	}
	json_end_arr(&j);
	buf_addc(&out, '\n');
	return code ? code : say_out(&out);
}

const struct verb verb_inspect = {
	.name = "inspect",
	.group = VERB_MANAGE,
	.synopsis = "REF…",
	.help = "show all details of sandboxes, as JSON",
	.run = cmd_inspect,
	.args = "sandbox",
	.text = "Prints a JSON array with one object for each sandbox: the members of *coffer ps "
		"--json*, its directory, layers and size, the resources that it uses now (_usage_), "
		"and the audit log's records of its start (_start_: command, engine, limits and how "
		"each is enforced, policy, allowed hosts, names of secrets, ports, binds, "
		"capabilities) and of its end (_end_). It never contains the value of a secret.",
	.examples = "coffer inspect web | jq '.[0].start.limits'\n",
};
