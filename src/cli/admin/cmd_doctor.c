/* SPDX-License-Identifier: Apache-2.0 */
/* coffer doctor: prints the findings of posture/doctor.c, as text or as JSON. It runs no check itself. */
#include "posture/doctor.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/admin/doctor_processes.h"
#include "cli/core/docs.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"

#include <errno.h>
#include <unistd.h>

#define EXIT_CANNOT_RUN 1

enum { OPT_JSON = 1, OPT_VERBOSE, OPT_PROCESSES };

static const struct opt doctor_opts[] = {
	{ "processes", 0, NULL, "list the processes of Cofferdam and what confines each", OPT_PROCESSES },
	{ "json", 0, NULL, "print JSON, with the fixes for every distribution", OPT_JSON },
	{ "verbose", 'v', NULL, "explain each check, also those that pass", OPT_VERBOSE },
};

static void add_labelled_text(struct buf *out, const char *label, const char *text)
{
	buf_addf(out, "        %s ", label);
	str_add_safe(out, text, strlen(text), false);
	buf_addc(out, '\n');
}

/* The fixes for this distribution; all three lists if the distribution is unknown. */
static void add_fixes(struct buf *out, const struct doctor *d, const struct doctor_check *c)
{
	for (int i = 0; i < DISTRO_COUNT; i++) {
		char label[32] = "fix:";

		if ((d->distro >= 0 && d->distro != i) || !c->fix[i])
			continue;
		if (d->distro < 0)
			snprintf(label, sizeof(label),
				 "fix (%s):", doctor_distro_name((enum doctor_distro)i));
		add_labelled_text(out, label, c->fix[i]);
	}
}

static void add_doctor_finding(struct buf *out, const struct doctor *d, const struct finding *f, bool color,
			       bool verbose)
{
	static const enum say_color colors[] = {
		[DOCTOR_OK] = SAY_GREEN,
		[DOCTOR_INFO] = SAY_DIM,
		[DOCTOR_WARN] = SAY_YELLOW,
		[DOCTOR_FAIL] = SAY_RED,
	};
	bool bad = f->status == DOCTOR_WARN || f->status == DOCTOR_FAIL;

	buf_adds(out, "  ");
	say_add(out, color, colors[f->status], doctor_status_name(f->status));
	buf_addf(out, "%*s%-24s ", (int)(6 - strlen(doctor_status_name(f->status))), "", f->check->title);
	str_add_safe(out, f->detail, strlen(f->detail), false);
	buf_addc(out, '\n');
	if (bad || verbose)
		add_labelled_text(out, "means:", f->check->meaning);
	if (bad)
		add_fixes(out, d, f->check);
}

static void format_findings_text(struct buf *out, const struct doctor *d, bool verbose)
{
	bool color = say_colors(STDOUT_FILENO);
	size_t count[DOCTOR_STATUS_COUNT] = { 0 };

	str_add_safe(out, d->system, strlen(d->system), false);
	buf_addf(out, ", Linux %s, as %s\n", d->kernel, d->who);
	for (size_t i = 0; i < d->n; i++) {
		add_doctor_finding(out, d, &d->findings[i], color, verbose);
		count[d->findings[i].status]++;
	}
	if (!doctor_can_run(d))
		say_add(out, color, SAY_RED, "coffer run cannot work here");
	else if (count[DOCTOR_WARN])
		say_add(out, color, SAY_YELLOW, "coffer run works here, with less than it could have");
	else
		say_add(out, color, SAY_GREEN, "coffer run works here");
	buf_addf(out, ": %zu ok, %zu warn, %zu fail\n", count[DOCTOR_OK], count[DOCTOR_WARN],
		 count[DOCTOR_FAIL]);
}

static void format_findings_json(struct buf *out, const struct doctor *d)
{
	struct json j = JSON_INIT(out);

	json_obj(&j, NULL);
	json_str(&j, "version", COFFER_VERSION);
	json_str(&j, "system", d->system);
	json_str(&j, "distribution",
		 d->distro >= 0 ? doctor_distro_name((enum doctor_distro)d->distro) : NULL);
	json_str(&j, "kernel", d->kernel);
	json_str(&j, "identity", d->who);
	json_bool(&j, "can_run", doctor_can_run(d));
	json_arr(&j, "checks");
	for (size_t i = 0; i < d->n; i++) {
		const struct finding *f = &d->findings[i];

		json_obj(&j, NULL);
		json_str(&j, "id", f->check->id);
		json_str(&j, "title", f->check->title);
		json_str(&j, "status", doctor_status_name(f->status));
		json_str(&j, "detail", f->detail);
		json_str(&j, "meaning", f->check->meaning);
		json_obj(&j, "fix");
		for (int k = 0; k < DISTRO_COUNT; k++)
			json_str(&j, doctor_distro_name((enum doctor_distro)k), f->check->fix[k]);
		json_end_obj(&j);
		json_end_obj(&j);
	}
	json_end_arr(&j);
	json_end_obj(&j);
	buf_addc(out, '\n');
}

static int cmd_doctor(int argc, char **argv)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, doctor_opts, ARRAY_SIZE(doctor_opts));
	CLEANUP(doctor_release) struct doctor d = { 0 };
	autobuf struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	bool as_json = false, verbose = false, processes = false;
	const char *value;
	int id, r;

	while ((id = opt_next(&p, &value, &e)) > 0) {
		if (id == OPT_HELP)
			return verb_print_help(&verb_doctor);
		as_json = as_json || id == OPT_JSON;
		verbose = verbose || id == OPT_VERBOSE;
		processes = processes || id == OPT_PROCESSES;
	}
	if (id == 0 && p.index < p.argc)
		id = err_set(&e, -EINVAL, "doctor takes no arguments");
	if (id == 0 && processes && verbose)
		id = err_set(&e, -EINVAL, "--verbose explains checks, and --processes makes none");
	if (id < 0)
		return say_usage(&verb_doctor, &e);
	if (processes)
		return cli_doctor_processes(as_json);
	if (doctor_run(&d, &e) < 0)
		return say_error(&e);
	if (as_json)
		format_findings_json(&out, &d);
	else
		format_findings_text(&out, &d, verbose);
	r = say_out(&out);
	if (r != 0)
		return r;
	return doctor_can_run(&d) ? 0 : EXIT_CANNOT_RUN;
}

const struct verb verb_doctor = {
	.name = "doctor",
	.group = VERB_HOST,
	.synopsis = "[--processes] [--json] [-v]",
	.help = "check what this machine supports, and how to fix what is missing",
	.opts = doctor_opts,
	.n_opts = ARRAY_SIZE(doctor_opts),
	.run = cmd_doctor,
	.text = "Tests the parts that a sandbox needs: it makes and uses each namespace, mounts an "
		"overlay, installs a filter. Each test runs in its own process, which is ended after "
		"ten seconds and leaves nothing behind.\n"
		"\n"
		"Each line begins with *ok*, *info* (missing, without any effect), *warn* (coffer run "
		"works with one layer or limit less, which it reports) or *fail* (coffer run cannot "
		"work), followed by what was found. After *warn* and *fail* it also shows the effect, "
		"and the commands that fix it on this distribution.\n"
		"\n"
		"The exit code is 0 if coffer run can work, otherwise 1.\n"
		"\n"
		"With *--processes* it makes no check, and lists the processes of Cofferdam that run now, in "
		"sandboxes and outside: the kind of each, its user, capabilities, seccomp mode, namespaces, "
		"sockets, and the files that it has open for writing, as the kernel shows them, and what its "
		"kind may open and whose bytes it reads. Who may not look into a process learns less about it: "
		"such a part is *not visible to this user*, and root sees all. Landlock is never visible; what "
		"the code of a kind does is marked as declared. A process is known by the file that it executes, "
		"by the state directory or by its parent, never by its name alone, and *unknown* where there is "
		"no more than a name. " DOCS_PROCESSES " has the keys of the JSON array.",
};
