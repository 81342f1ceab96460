/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of `coffer run` and `coffer call` before and after the command. Only texts: nothing is decided
 * here, and stdout is never written to, because it belongs to the command.
 */
#include "cli/run/run_say.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/core/say.h"
#include "sandbox/image/image.h"
#include "sandbox/init/proto.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

void cli_run_say_masks(const struct spec *s)
{
	autobuf struct buf b = BUF_INIT;

	if (!s->n_masks)
		return;
	for (size_t i = 0; i < s->n_masks && i < 4; i++)
		buf_addf(&b, "%s%s", i ? ", " : "", s->masks[i].path);
	if (s->n_masks > 4)
		buf_addf(&b, " and %zu more", s->n_masks - 4);
	say_note("hidden inside, because they usually hold credentials: %s (--show PATH opens one)",
		 buf_cstr(&b));
}

static void say_engine(const struct choice *c)
{
	if (!c->by_itself)
		return;
	if (c->why[0])
		say_note("isolated by namespaces (engine ns): %s", c->why);
	else
		say_note("isolated by gVisor (runsc %s)", c->runsc.version);
}

void cli_run_say_before(const struct spec *s, const struct choice *c, const struct run_spec_note *note)
{
	say_engine(c);
	if (s->gv_hostnet && s->net != NET_NONE)
		say_note(
			"gVisor uses the Linux network stack in the sandbox's namespace, because its own (netstack) does not "
			"work here (%s)",
			c->runsc.hostnet);
	if (note->workspace[0])
		say_note("%s; the workspace is an empty one (-C DIR gives another)", note->workspace);
	if (s->net == NET_OBSERVE)
		say_note("network: observed; everything that no rule denies is let through (coffer net log)");
	if (s->ports && strstr(s->ports, "(public)"))
		say_warn("WARNING: published where other machines can reach it: %s", s->ports);
	else if (s->ports)
		say_note("published %s", s->ports);
	/* For a call over another sandbox's layer, the masks are known only after that layer was copied. */
	if (!s->over[0])
		cli_run_say_masks(s);
	if (s->ws_mode == WS_RW)
		say_warn(
			"WARNING: %s is mounted writable: what the command writes there is written on the host, and --disk "
			"does not limit it",
			s->ws_path);
	for (size_t i = 0; i < s->n_binds; i++) {
		if (s->binds[i].writable)
			say_warn(
				"WARNING: %s is mounted writable at %s: what the command writes there is written on the "
				"host, and --disk does not limit it",
				s->binds[i].src, s->binds[i].dst);
	}
}

void cli_run_say_conflicts(const struct net_plan *p)
{
	for (size_t i = 0; i < p->conflicts.n; i++)
		say_warn("%s", p->conflicts.v[i]);
}

void cli_run_say_net(enum net_level level, const char *text, struct buf *out)
{
	if (level == NET_LEVEL_WARN)
		say_add_warn(out, text);
	else
		say_add_note(out, text);
}

static void warn_of_limit(const struct run *r, enum limit_kind k, const char *what)
{
	char text[32];

	say_warn("%s: the limit of %s was reached (--%s raises it)", what,
		 limit_format(k, r->spec->limits.l[k].value, text), limit_name(k));
}

/* Can the words be typed as they are, without quotes for a shell? */
static bool is_typed_without_quotes(const char *words)
{
	for (const char *p = words; *p; p++) {
		if ((unsigned char)*p <= ' ' ? *p != ' ' : strchr("\"'`$\\|&;<>()*?[]{}~#!", *p) != NULL)
			return false;
		if ((unsigned char)*p >= 0x7f)
			return false;
	}
	return *words && strlen(words) < 200;
}

/* A person may have typed `coffer run IMAGE COMMAND`, as with docker. */
static bool hint_run_image(const struct run *r, struct err *e)
{
	CLEANUP(image_record_release) struct image_record rec = { 0 };
	autobuf struct buf words = BUF_INIT;
	struct err ignored = ERR_INIT;

	if (r->spec->root_mode == ROOT_IMAGE ||
	    faccessat(r->st->fd, "images", F_OK, AT_SYMLINK_NOFOLLOW) < 0 ||
	    image_find(r->st, r->spec->argv.v[0], &rec, &ignored) < 0)
		return false;
	for (size_t i = 1; i < r->spec->argv.n && words.len < 200; i++)
		buf_addf(&words, "%s%s", i > 1 ? " " : "", r->spec->argv.v[i]);
	err_hint(e, e->code, "coffer run --image %s -- %s (there is an image of that name)", rec.name,
		 is_typed_without_quotes(buf_cstr(&words)) ? buf_cstr(&words) : "COMMAND");
	return true;
}

/* A command that was not found may be an image, or a whole command line in quotes. */
static void hint_not_found(const struct run *r, struct err *e)
{
	const char *word = r->spec->argv.v[0];

	if (r->end.exit_code != EXIT_NOCMD || hint_run_image(r, e) || r->spec->argv.n != 1 ||
	    !strchr(word, ' '))
		return;
	if (is_typed_without_quotes(word))
		err_hint(e, e->code, "coffer run -- %s (without quotes: this is one word)", word);
	else
		err_hint(e, e->code, "coffer run -- sh -c 'COMMAND' (the quoted command line is one word)");
}

static void say_end_cause(const struct run *r)
{
	const struct run_end *end = &r->end;
	struct err e = ERR_INIT;

	switch (end->cause) {
	case CAUSE_OOM:
		warn_of_limit(r, LIMIT_MEMORY, "killed for its memory");
		break;
	case CAUSE_PIDS:
		warn_of_limit(r, LIMIT_PIDS, "it could not start more processes");
		break;
	case CAUSE_TIMEOUT:
		warn_of_limit(r, LIMIT_TIMEOUT, "ended for its time");
		break;
	case CAUSE_DISK:
		warn_of_limit(r, LIMIT_DISK, "killed for what it wrote to the workspace");
		break;
	case CAUSE_NOT_STARTED:
		proto_exit_text(&end->claim, r->spec->argv.v[0], r->spec->cwd, &e);
		hint_not_found(r, &e);
		say_error(&e);
		break;
	case CAUSE_BROKEN:
		say_warn("the sandbox failed: %s", end->broken);
		break;
	case CAUSE_NETWORK:
		say_warn("ended, because its network cannot be kept behind the wall: %s", end->broken);
		break;
	case CAUSE_ROLLED:
		say_warn("the sandbox was rolled back, and the command ended with it");
		break;
	case CAUSE_SIGNAL:
		if (end->signal != SIGPIPE && end->signal != SIGINT)
			say_note("the command died of signal %d (%s)", end->signal, strsignal(end->signal));
		break;
	default:
		break;
	}
	if (end->pids_hit && end->cause != CAUSE_PIDS)
		warn_of_limit(r, LIMIT_PIDS, "some processes could not be started");
	if (end->disk_full && end->cause != CAUSE_DISK)
		warn_of_limit(r, LIMIT_DISK, "its disk is full");
	if (end->inodes_full && end->cause != CAUSE_DISK)
		warn_of_limit(r, LIMIT_INODES, "it could not make more files");
	if (end->output_cut)
		warn_of_limit(r, LIMIT_OUTPUT, "its output was cut");
}

/* In the state directory: the last notice about default limits that are not enforced. */
#define TOLD "limits-told"

/* Was this notice not yet shown since the machine was booted? If that cannot be stored, the notice is shown
 * each time. */
static bool is_first_notice_since_boot(const struct state *st, const char *text)
{
	uint64_t now = clock_nsec(CLOCK_REALTIME), up = clock_nsec(CLOCK_BOOTTIME);
	autobuf struct buf told = BUF_INIT;
	autoclose int fd = -1;
	struct stat sb;

	if (fstatat(st->fd, TOLD, &sb, AT_SYMLINK_NOFOLLOW) == 0 && now > up &&
	    (uint64_t)sb.st_mtim.tv_sec >= (now - up) / NSEC_PER_SEC &&
	    fd_read_file(st->fd, TOLD, sizeof(((struct run *)0)->limits_off), &told) == 0 &&
	    str_eq(buf_cstr(&told), text))
		return false;
	fd = openat(st->fd, TOLD, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0)
		(void)!fd_write_all(fd, text, strlen(text));
	return true;
}

/* The command may have failed because its arguments name files that exist only outside. */
static void hint_ephemeral(const struct run *r)
{
	for (size_t i = 0; i < r->spec->argv.n; i++) {
		const char *word = r->spec->argv.v[i];
		struct stat sb;

		if (*word == '/' || *word == '-' || stat(word, &sb) < 0 || !S_ISREG(sb.st_mode))
			continue;
		say_note(
			"the workspace of --ephemeral is empty: %s is not in it; leave --ephemeral out to work in a "
			"layer over this directory",
			word);
		return;
	}
}

static void hint_read_only(const struct spec *s)
{
	bool any = s->ws_mode == WS_RO;

	for (size_t i = 0; i < s->n_binds; i++)
		any = any || !s->binds[i].writable;
	if (any)
		say_note(
			"directories of -v and of -C DIR:ro are read-only inside; :rw at the end lets the command write "
			"there");
}

/* Hints at probable causes after a command exited with an error. */
static void hint_failure(const struct run *r)
{
	if (r->end.cause != CAUSE_EXIT || !r->end.exit_code)
		return;
	if (r->spec->ws_mode == WS_EPHEMERAL && !r->spec->over[0])
		hint_ephemeral(r);
	if (r->end.saw_erofs)
		hint_read_only(r->spec);
}

void cli_run_say_after(const struct run *r, bool kept)
{
	const char *id = r->spec->name ? r->spec->name : r->spec->id;

	say_end_cause(r);
	hint_failure(r);
	if (r->disk_watched[0])
		say_note("--disk is only watched, and can be overrun for an instant: %s", r->disk_watched);
	if (r->limits_off[0] && is_first_notice_since_boot(r->st, r->limits_off))
		say_note("%s (shown once; coffer doctor and the report always show it)", r->limits_off);
	if (r->changes && !kept)
		say_note("%llu %s changed, and removed with the sandbox (--rm)",
			 (unsigned long long)r->changes, r->changes == 1 ? "file" : "files");
	else if (r->changes)
		say_note("%llu %s changed: coffer diff %s, then coffer apply %s or coffer discard %s",
			 (unsigned long long)r->changes, r->changes == 1 ? "file" : "files", id, id, id);
}
