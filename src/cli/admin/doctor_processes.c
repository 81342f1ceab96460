/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer doctor --processes: prints what posture/processes.h found, as text or as JSON (doc/processes.md has its keys). It must
 * not print a name, an argument or a path as it came: a sandbox may have chosen it.
 */
#include "cli/admin/doctor_processes.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/core/say.h"
#include "posture/processes.h"
#include "sys/fence/caps.h"

#include <string.h>
#include <unistd.h>

#define NOT_VISIBLE "not visible to this user"

static void add_safe(struct buf *out, const char *text)
{
	str_add_safe(out, text, strlen(text), false);
}

/* --- text ------------------------------------------------------------------------------------------------------- */

static void add_label(struct buf *out, const char *label)
{
	buf_addf(out, "    %-12s ", label);
}

static void add_cap_names(struct buf *out, uint64_t caps)
{
	const char *before = "";

	if (!caps)
		buf_adds(out, "none");
	for (int c = 0; c < 64; c++) {
		const char *name = caps_name(c);

		if (!(caps & 1ULL << c))
			continue;
		buf_adds(out, before);
		/* A capability that is newer than this program has only its number. */
		if (name)
			buf_adds(out, name);
		else
			buf_addf(out, "%d", c);
		before = " ";
	}
}

static void add_caps(struct buf *out, const struct proc_status *s)
{
	add_label(out, "capabilities");
	add_cap_names(out, s->effective);
	if (s->permitted != s->effective) {
		buf_adds(out, "; permitted: ");
		add_cap_names(out, s->permitted);
	}
	buf_addc(out, '\n');
}

static void add_fences(struct buf *out, const struct process *p, bool landlock)
{
	static const char *const modes[] = { "no seccomp", "seccomp strict", "seccomp filter" };
	static const char *const dumps[] = { [PROCESS_DUMP_HIDDEN] = "dumpable not visible",
					     [PROCESS_DUMP_NO] = "not dumpable",
					     [PROCESS_DUMP_YES] = "dumpable" };
	const char *declared = process_kind_info(p->f.kind)->landlock;

	add_label(out, "fences");
	buf_addf(out, "%s, %s, %s, Landlock ",
		 p->f.st.seccomp < 0 ? "seccomp not visible" : modes[p->f.st.seccomp],
		 p->f.st.no_new_privs ? "no new privileges" : "may gain privileges", dumps[p->dumpable]);
	if (!declared)
		buf_adds(out, "not visible");
	else if (!landlock)
		buf_adds(out, "no (this kernel has none)");
	else
		buf_addf(out, "%s (declared: the kernel does not show it)", declared);
	buf_addc(out, '\n');
}

static void add_namespaces(struct buf *out, const struct process *p)
{
	add_label(out, "namespaces");
	if (!p->ns_visible)
		buf_adds(out, NOT_VISIBLE);
	else if (!p->differs)
		buf_adds(out, "those of the caller");
	else
		buf_adds(out, "its own:");
	for (int i = 0; p->ns_visible && i < PROCESS_NS_COUNT; i++) {
		if (p->differs & 1u << i)
			buf_addf(out, " %s", process_ns_name((enum process_ns)i));
	}
	buf_addc(out, '\n');
}

static void add_count(struct buf *out, const char **before, size_t n, const char *name)
{
	if (!n)
		return;
	buf_addf(out, "%s%zu %s", *before, n, name);
	*before = ", ";
}

static void add_descriptors(struct buf *out, const struct process *p)
{
	const char *before = "";

	add_label(out, "sockets");
	if (!p->fds_visible) {
		buf_adds(out, NOT_VISIBLE "\n");
		add_label(out, "may write to");
		buf_adds(out, NOT_VISIBLE "\n");
		return;
	}
	for (int i = 0; i < SOCKET_KIND_COUNT; i++)
		add_count(out, &before, p->socket_kinds[i], socket_kind_name((enum socket_kind)i));
	buf_adds(out, p->sockets ? "\n" : "none\n");
	add_label(out, "may write to");
	before = "";
	for (int i = 0; i < FD_SORT_COUNT; i++)
		add_count(out, &before, p->writable_sorts[i], fd_sort_name((enum fd_sort)i));
	buf_adds(out, p->writable ? "\n" : "none\n");
	for (size_t i = 0; i < p->paths.n; i++) {
		add_label(out, "");
		add_safe(out, p->paths.v[i]);
		buf_addc(out, '\n');
	}
	if (p->writable_sorts[FD_SORT_FILE] > p->paths.n) {
		add_label(out, "");
		buf_addf(out, "and %zu more\n", p->writable_sorts[FD_SORT_FILE] - p->paths.n);
	}
}

static void add_title(struct buf *out, const struct process *p, bool color)
{
	say_add(out, color, SAY_BOLD, process_kind_info(p->f.kind)->name);
	buf_addf(out, "  pid %d, uid %u", (int)p->f.st.pid, (unsigned)p->f.st.uid);
	if (p->f.run[0])
		buf_addf(out, ", run %s", p->f.run);
	if (p->f.kind == KIND_CLIENT && p->f.verb[0])
		buf_addf(out, ", coffer %s", p->f.verb);
	if (p->f.kind == KIND_COMMAND || p->f.kind == KIND_UNKNOWN) {
		buf_adds(out, ", calls itself ");
		add_safe(out, p->word && *p->word ? p->word : p->f.st.name);
	}
	buf_addf(out, ", known by: %s\n", process_by_name(p->f.by));
	if (p->f.exe == EXE_NAMESAKE) {
		add_label(out, "program");
		buf_adds(out, "not of this installation: ");
		add_safe(out, p->path ? p->path : "?");
		buf_addc(out, '\n');
	}
}

static void format_processes_text(struct buf *out, const struct processes *all)
{
	bool color = say_colors(STDOUT_FILENO);
	size_t hidden = 0;

	for (size_t i = 0; i < all->n; i++) {
		const struct process *p = all->v[i];
		const struct process_kind_info *info = process_kind_info(p->f.kind);

		add_title(out, p, color);
		add_caps(out, &p->f.st);
		add_fences(out, p, all->landlock);
		add_namespaces(out, p);
		add_descriptors(out, p);
		if (info->may_open) {
			add_label(out, "may open");
			buf_addf(out, "%s\n", info->may_open);
			add_label(out, "reads");
			buf_addf(out, "%s%s\n", info->reads, info->reads_hostile ? " (hostile)" : "");
		}
		hidden += !process_is_visible(p);
	}
	if (!all->n)
		buf_adds(out, "no process of Cofferdam runs\n");
	else
		buf_addf(out, "%zu process%s", all->n, all->n == 1 ? "" : "es");
	if (hidden)
		buf_addf(out, ", %zu of them in part " NOT_VISIBLE, hidden);
	if (all->n)
		buf_addc(out, '\n');
}

/* --- JSON ------------------------------------------------------------------------------------------------------- */

static void add_caps_array(struct json *j, const char *key, uint64_t caps)
{
	json_arr(j, key);
	for (int c = 0; c < 64; c++) {
		const char *name = caps_name(c);
		char number[16];

		if (!(caps & 1ULL << c))
			continue;
		snprintf(number, sizeof(number), "%d", c);
		json_str(j, NULL, name ? name : number);
	}
	json_end_arr(j);
}

static void add_identity_json(struct json *j, const struct process *p)
{
	json_str(j, "kind", process_kind_info(p->f.kind)->name);
	json_i64(j, "pid", p->f.st.pid);
	json_i64(j, "parent", p->f.st.parent);
	json_str(j, "run", p->f.run[0] ? p->f.run : NULL);
	json_bool(j, "inside", p->f.inside);
	json_str(j, "known_by", process_by_name(p->f.by));
	json_bool(j, "visible", process_is_visible(p));
	json_str(j, "program", p->path);
	if (p->f.exe == EXE_HIDDEN)
		json_none(j, "installed");
	else
		json_bool(j, "installed", p->f.exe == EXE_OURS);
	json_str(j, "name", p->f.st.name);
	json_str(j, "argument", p->word);
	json_str(j, "verb", p->f.verb[0] && !p->f.inside ? p->f.verb : NULL);
	json_u64(j, "uid", p->f.st.uid);
}

static void add_fences_json(struct json *j, const struct process *p, bool landlock)
{
	json_obj(j, "capabilities");
	add_caps_array(j, "effective", p->f.st.effective);
	add_caps_array(j, "permitted", p->f.st.permitted);
	json_end_obj(j);
	if (p->f.st.seccomp < 0)
		json_none(j, "seccomp");
	else
		json_i64(j, "seccomp", p->f.st.seccomp);
	json_bool(j, "no_new_privs", p->f.st.no_new_privs);
	json_obj(j, "landlock");
	json_bool(j, "visible", false);
	json_str(j, "declared", process_kind_info(p->f.kind)->landlock);
	json_bool(j, "kernel", landlock);
	json_end_obj(j);
	if (p->dumpable == PROCESS_DUMP_HIDDEN)
		json_none(j, "dumpable");
	else
		json_bool(j, "dumpable", p->dumpable == PROCESS_DUMP_YES);
	if (!p->ns_visible) {
		json_none(j, "namespaces");
		return;
	}
	json_arr(j, "namespaces");
	for (int i = 0; i < PROCESS_NS_COUNT; i++) {
		if (p->differs & 1u << i)
			json_str(j, NULL, process_ns_name((enum process_ns)i));
	}
	json_end_arr(j);
}

static void add_descriptors_json(struct json *j, const struct process *p)
{
	if (!p->fds_visible) {
		json_none(j, "descriptors");
		json_none(j, "sockets");
		json_none(j, "writable");
		return;
	}
	json_u64(j, "descriptors", p->descriptors);
	json_obj(j, "sockets");
	json_u64(j, "count", p->sockets);
	json_obj(j, "kinds");
	for (int i = 0; i < SOCKET_KIND_COUNT; i++) {
		if (p->socket_kinds[i])
			json_u64(j, socket_kind_name((enum socket_kind)i), p->socket_kinds[i]);
	}
	json_end_obj(j);
	json_end_obj(j);
	json_obj(j, "writable");
	json_u64(j, "count", p->writable);
	json_obj(j, "kinds");
	for (int i = 0; i < FD_SORT_COUNT; i++) {
		if (p->writable_sorts[i])
			json_u64(j, fd_sort_name((enum fd_sort)i), p->writable_sorts[i]);
	}
	json_end_obj(j);
	json_arr(j, "paths");
	for (size_t i = 0; i < p->paths.n; i++)
		json_str(j, NULL, p->paths.v[i]);
	json_end_arr(j);
	json_end_obj(j);
}

static void format_processes_json(struct buf *out, const struct processes *all)
{
	struct json j = JSON_INIT(out);

	json_arr(&j, NULL);
	for (size_t i = 0; i < all->n; i++) {
		const struct process *p = all->v[i];
		const struct process_kind_info *info = process_kind_info(p->f.kind);

		json_obj(&j, NULL);
		add_identity_json(&j, p);
		add_fences_json(&j, p, all->landlock);
		add_descriptors_json(&j, p);
		json_str(&j, "may_open", info->may_open);
		json_str(&j, "reads", info->reads);
		if (info->reads)
			json_bool(&j, "reads_hostile", info->reads_hostile);
		else
			json_none(&j, "reads_hostile");
		json_end_obj(&j);
	}
	json_end_arr(&j);
	buf_addc(out, '\n');
}

int cli_doctor_processes(bool as_json)
{
	CLEANUP(processes_release) struct processes all = PROCESSES_INIT;
	autobuf struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	if (processes_read(&all, &e) < 0)
		return say_error(&e);
	if (as_json)
		format_processes_json(&out, &all);
	else
		format_processes_text(&out, &all);
	return say_out(&out);
}
