/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer secret forget: removes the files kept for a named home: credentials that servers issued to its
 * sandboxes, and the placeholders of secrets. The vault itself is not opened.
 */
#include "base/fd.h"
#include "cli/core/say.h"
#include "cli/secret/cmd_secret.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)

/* -ENOENT: nothing was ever kept there. */
static int open_vault_dir(const struct state *st, const char *name)
{
	autoclose int vault = openat(st->fd, "vault", DIR_FLAGS);
	int fd = vault < 0 ? -1 : openat(vault, name, DIR_FLAGS);

	return fd < 0 ? -errno : fd;
}

/*
 * Removes the issued credentials and the placeholders of one home; its next run gets new placeholders
 * (netd/plan/net_placeholder.h).
 */
static int forget_home(struct secret_session *s, int issued, int placeholders, const char *home,
		       enum vault_fault *ret_fault, struct err *e)
{
	const bool is_name = str_is_name(home);
	autoclose int fd =
		is_name && issued >= 0 ? openat(issued, home, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
	bool has_any =
		fd >= 0 || (is_name && placeholders >= 0 && faccessat(placeholders, home, F_OK, 0) == 0);
	int r;

	if (!has_any) {
		*ret_fault = VAULT_FAULT_NO_SUCH;
		return err_set(e, -ENOENT,
			       "neither placeholders nor issued credentials are kept for a home '%s'", home);
	}
	r = cli_secret_log(s, "secret.forget", home,
			   "credentials issued to sandboxes with this home, and its placeholders", e);
	if (r == 0 && fd >= 0 && unlinkat(issued, home, 0) < 0)
		r = err_sys(e, -errno, "cannot remove the issued credentials");
	if (r == 0 && placeholders >= 0 && unlinkat(placeholders, home, 0) < 0 && errno != ENOENT)
		r = err_sys(e, -errno, "cannot remove the home's placeholders");
	/* cli_secret_log() counted an unsaved change, but the vault file is not part of this one. */
	s->unsaved = 0;
	if (r == 0 && fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
		say_note("a sandbox with the home %s is running and keeps its credentials until it ends",
			 home);
	return r;
}

int cli_secret_forget(const struct secret_args *a, enum vault_fault *ret_fault, struct err *e)
{
	CLEANUP(cli_secret_session_close) struct secret_session s = SECRET_SESSION_INIT;
	autoclose int issued = -1, placeholders = -1;
	int r = state_open(&s.st, e);

	if (r == 0)
		r = audit_open(&s.audit, s.st.fd, e);
	if (r == 0) {
		issued = open_vault_dir(&s.st, VAULT_ISSUED_DIR);
		placeholders = open_vault_dir(&s.st, VAULT_PLACEHOLDERS_DIR);
	}
	for (int i = 0; i < a->argc && r == 0; i++)
		r = forget_home(&s, issued, placeholders, a->argv[i], ret_fault, e);
	return r;
}

void cli_secret_say_issued(const struct state *st)
{
	autobuf struct buf names = BUF_INIT;
	int fd = open_vault_dir(st, VAULT_ISSUED_DIR);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *x;

	if (!d) {
		fd_close(fd);
		return;
	}
	while ((x = readdir(d)) != NULL) {
		if (str_is_name(x->d_name))
			buf_addf(&names, "%s%s", names.len ? ", " : "", x->d_name);
	}
	closedir(d);
	if (names.len && !buf_error(&names))
		say_note("issued credentials are kept for these homes: %s (coffer secret forget HOME)",
			 buf_cstr(&names));
}
