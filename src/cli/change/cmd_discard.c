/* SPDX-License-Identifier: Apache-2.0 */
/* coffer discard: throws a run's changes away. The audit log has an event before anything is removed, and one
 * with the number of removed files after that. The original directory is not touched. */
#include "base/json.h"
#include "cli/common/changed.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"

#include <errno.h>

static int log_discarded_run(struct audit *a, const struct changed *run, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	json_str(&j, "workspace", run->meta.workspace);
	json_u64(&j, "changes", run->meta.changes);
	return buf_error(&b) ? err_set(e, -ENOMEM, "out of memory")
			     : audit_append(a, "workspace.discard", run->id, &b, e);
}

static int discard_run(const char *ref)
{
	CLEANUP(cli_changed_release) struct changed run = CHANGED_INIT;
	CLEANUP(audit_freep) struct audit *a = NULL;
	struct err e = ERR_INIT;
	uint64_t n = 0;
	int r = cli_changed_audit(&a, &e);

	r = r < 0 ? r : cli_changed_open(&run, ref, true, &e);
	if (r == -ENOENT && cli_changed_nothing(ref, run.id)) {
		say_note("nothing to discard: run %s changed nothing", run.id);
		return 0;
	}
	if (r < 0 || cli_changed_has_layer(&run, &e) < 0 || log_discarded_run(a, &run, &e) < 0 ||
	    cli_changed_remove(&run, a, &n, &e) < 0)
		return say_error(&e);
	say_note("discarded %s: %llu %s wiped", run.id, (unsigned long long)n,
		 n == 1 ? "file or directory" : "files and directories");
	return 0;
}

static int cmd_discard(int argc, char **argv)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, NULL, 0);
	struct err e = ERR_INIT;
	const char *value;
	int id, code = 0;

	while ((id = opt_next(&p, &value, &e)) > 0) {
		if (id == OPT_HELP)
			return verb_print_help(&verb_discard);
	}
	if (id == 0 && p.index >= p.argc) {
		err_set(&e, -EINVAL, "discard needs a sandbox: its name, id or @last");
		id = err_hint(&e, -EINVAL, "coffer discard @last (the last run's), or an id of coffer ps -a");
	}
	if (id < 0)
		return say_usage(&verb_discard, &e);
	for (int i = p.index; i < p.argc; i++) {
		int one = discard_run(p.argv[i]);

		code = one ? one : code;
	}
	return code;
}

const struct verb verb_discard = {
	.name = "discard",
	.group = VERB_WORKSPACE,
	.synopsis = "REF…",
	.help = "throw a run's changes away",
	.run = cmd_discard,
	.args = "sandbox",
	.text = "Wipes the layer of a run and removes the run. The original directory stays unchanged. "
		"The audit log records the act and the number of files.\n"
		"\n"
		"REF is an id, the beginning of one, a name, or @last.",
	.examples = "coffer discard @last\n"
		    "\t# throw the changes of the last run away\n",
};
