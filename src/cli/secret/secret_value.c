/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source of a new value: a terminal, standard input, a file or a command. This process opens the source
 * and passes the descriptor to coffer-vault, which reads it; no value passes through here.
 */
#include "base/fd.h"
#include "cli/core/say.h"
#include "cli/secret/cmd_secret.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>

/*
 * coffer-vault switches the terminal's echo off and on again. If it is killed meanwhile, or this process
 * gets a deadly signal, the terminal is restored here; if this process is killed, the vault restores it.
 */
static struct {
	int fd;
	struct termios was;
} quiet = { .fd = -1 };

static const int deadly[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

static void restore_terminal(void)
{
	if (quiet.fd >= 0)
		(void)!tcsetattr(quiet.fd, TCSAFLUSH, &quiet.was);
}

static void on_deadly_signal(int sig)
{
	int saved = errno;

	restore_terminal();
	signal(sig, SIG_DFL);
	raise(sig);
	errno = saved;
}

static void watch_terminal(int fd)
{
	struct sigaction sa = { .sa_handler = on_deadly_signal };

	if (tcgetattr(fd, &quiet.was) < 0)
		return;
	quiet.fd = fd;
	for (size_t i = 0; i < ARRAY_SIZE(deadly); i++) {
		struct sigaction old;

		/* A signal that the caller ignores stays ignored. */
		if (sigaction(deadly[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(deadly[i], &sa, NULL);
	}
}

static void unwatch_terminal(void)
{
	restore_terminal();
	quiet.fd = -1;
	for (size_t i = 0; i < ARRAY_SIZE(deadly); i++) {
		struct sigaction old;

		if (sigaction(deadly[i], NULL, &old) == 0 && old.sa_handler == on_deadly_signal)
			signal(deadly[i], SIG_DFL);
	}
}

struct origin {
	int fd;
	bool terminal;
};

/* Runs the command without the vault's lock, so that other commands may change the vault meanwhile. */
static int run_value_command(struct secret_session *s, struct origin *o, const char *command, struct err *e)
{
	struct err later = ERR_INIT;
	int r, locked;

	cli_secret_session_unlock_files(s);
	r = cli_secret_run_command(command, &o->fd, e);
	locked = cli_secret_session_relock_files(s, &later);
	if (r == 0 && locked < 0)
		*e = later;
	return r < 0 ? r : locked;
}

static int open_value_file(struct origin *o, const char *path, struct err *e)
{
	struct stat st;

	o->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (o->fd < 0 || fstat(o->fd, &st) < 0)
		return err_sys(e, -errno, "cannot open %s", path);
	return S_ISDIR(st.st_mode) ? err_set(e, -EISDIR, "%s is a directory", path) : 0;
}

static int open_value_terminal(struct origin *o, struct err *e)
{
	o->terminal = true;
	o->fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
	if (o->fd >= 0)
		return 0;
	err_set(e, -ENOTTY, "there is no terminal to type the value on");
	return err_hint(e, -ENOTTY,
			"'-' reads standard input, --file F a file, --command 'CMD' what a command prints");
}

/*
 * Checks without opening: a named pipe can be opened only once, because its writer ends when the first
 * reader closes it.
 */
static int check_value_file(const char *path, struct err *e)
{
	struct stat st;

	if (access(path, R_OK) < 0 || stat(path, &st) < 0)
		return err_sys(e, -errno, "cannot open %s", path);
	return S_ISDIR(st.st_mode) ? err_set(e, -EISDIR, "%s is a directory", path) : 0;
}

int cli_secret_check_origin(const struct secret_args *a, struct err *e)
{
	struct origin o = { .fd = -1 };
	int r = 0;

	if (a->file)
		return check_value_file(a->file, e);
	if (!a->command && a->argc < 2)
		r = open_value_terminal(&o, e);
	fd_close(o.fd);
	return r;
}

static int open_origin(struct secret_session *s, struct origin *o, const struct secret_args *a,
		       const char *schedule, struct err *e)
{
	const char *from = a->argc > 1 ? a->argv[1] : NULL;

	if (a->file)
		return open_value_file(o, a->file, e);
	if (a->command)
		return run_value_command(s, o, a->command, e);
	if (from) {
		o->fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
		return o->fd < 0 ? err_sys(e, -errno, "cannot read standard input") : 0;
	}
	return schedule ? run_value_command(s, o, schedule, e) : open_value_terminal(o, e);
}

static int take_item_flags(const struct vault_msg *m, void *ctx)
{
	*(uint64_t *)ctx = m->num[5];
	return 0;
}

static void say_value_notes(const struct secret_args *a, const char *name, const struct origin *o,
			    uint64_t flags)
{
	if (flags & VAULT_ITEM_TRIMMED && !o->terminal)
		say_note("%s: the line break at its end was dropped", name);
	if (flags & VAULT_ITEM_LINES && !(a->as && str_starts(a->as, "ssh")))
		say_note("%s: it has line breaks or control characters in it, so no header can carry it",
			 name);
	if (a->file)
		say_note("%s is in the vault now; the file %s still has it too", name, a->file);
}

int cli_secret_take_value(struct secret_session *s, const struct secret_args *a, const char *name,
			  unsigned flags, const char *from_schedule, struct err *e)
{
	struct vault_msg ask = { .type = VAULT_SET, .num = { flags, a->expires, a->every } };
	struct origin o = { .fd = -1 };
	uint64_t got = 0;
	const char *remembered = a->every && a->command ? a->command : "";
	/* Before the first run: from then on it is a command that cofferd runs. */
	int r = *remembered || from_schedule
			? cli_secret_note_command(s, *remembered ? remembered : from_schedule, e)
			: 0;

	if (r == 0)
		r = open_origin(s, &o, a, from_schedule, e);
	ask.text[0] = slice_of(name);
	ask.text[1] = slice_of(remembered);
	if (r == 0 && o.terminal) {
		ask.num[0] |= VAULT_SET_TERMINAL;
		watch_terminal(o.fd);
	}
	if (r == 0)
		r = vault_call(&s->proc, &ask, &o.fd, 1, take_item_flags, &got, NULL, NULL, e);
	if (o.terminal)
		unwatch_terminal();
	fd_close(o.fd);
	if (r == 0)
		say_value_notes(a, name, &o, got);
	return r;
}
