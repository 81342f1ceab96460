/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and opens the vault's file and key. Only coffer-vault reads and writes their contents: this file
 * passes descriptors, and fills a new key file. */
#include "base/fd.h"
#include "base/str.h"
#include "sys/ns.h"
#include "vault/client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#define KEY_LEN 32
#define KIND_AT 12 /* offset in the file's head: vault/serve/vaultfile.h */
#define CREDENTIAL "coffer-vault-key"
#define CREDSTORE "/etc/credstore.encrypted/" CREDENTIAL
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)

void vault_files_close(struct vault_files *f)
{
	f->key = fd_close(f->key);
	f->file = fd_close(f->file);
	f->lock = fd_close(f->lock);
	f->dir = fd_close(f->dir);
}

/* --- the directory ----------------------------------------------------------------------------------------------- */

/* Refuses a file or directory of another user, or one with permissions that only its owner should have. */
static int check_private(int fd, const char *what, mode_t not_allowed, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(e, -errno, "cannot look at %s", what);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return err_set(e, -EPERM, "%s belongs to somebody else (user %u)", what, st.st_uid);
	if (st.st_mode & not_allowed) {
		err_set(e, -EPERM, "%s is accessible to others (its mode is %04o)", what, st.st_mode & 07777);
		return err_hint(e, -EPERM, "chmod %s, and consider who may have read it",
				S_ISDIR(st.st_mode) ? "0700" : "0600");
	}
	return 0;
}

static int open_vault_dir(struct vault_files *f, int state_fd, unsigned flags, struct err *e)
{
	if (flags & VAULT_FILES_NEW && mkdirat(state_fd, "vault", 0700) < 0 && errno != EEXIST)
		return err_sys(e, -errno, "cannot make the vault's directory");
	f->dir = openat(state_fd, "vault", DIR_FLAGS);
	if (f->dir < 0 && errno == ENOENT)
		return -ENOENT;
	if (f->dir < 0)
		return err_sys(e, -errno, "cannot open the vault's directory");
	return check_private(f->dir, "the vault's directory", 0077, e);
}

static int lock_exclusive(int fd, bool wait, struct err *e)
{
	while (flock(fd, LOCK_EX | (wait ? 0 : LOCK_NB)) < 0) {
		if (errno == EWOULDBLOCK)
			return -EAGAIN;
		if (errno != EINTR)
			return err_sys(e, -errno, "cannot lock the vault");
	}
	return 0;
}

int vault_files_lock(struct vault_files *f, bool wait, struct err *e)
{
	return lock_exclusive(f->lock, wait, e);
}

/* Locks the directory itself, which nothing else locks. */
int vault_files_lock_rotation(struct vault_files *f, bool wait, struct err *e)
{
	return lock_exclusive(f->dir, wait, e);
}

void vault_files_unlock(struct vault_files *f)
{
	BUG_ON(f->lock < 0);
	(void)!flock(f->lock, LOCK_UN);
}

static int open_and_lock(struct vault_files *f, bool wait, struct err *e)
{
	f->lock = openat(f->dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return f->lock < 0 ? err_sys(e, -errno, "cannot open the vault's lock")
			   : vault_files_lock(f, wait, e);
}

/* The file's head has the kind of key in the clear. coffer-vault reports any other defect of the file. */
static int open_sealed_file(struct vault_files *f, enum vault_key *ret_kind, struct err *e)
{
	uint8_t kind[4] = { 0 };

	f->file = openat(f->dir, "secrets", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
	if (f->file < 0)
		return errno == ENOENT ? 0 : err_sys(e, -errno, "cannot open the vault file");
	if (pread(f->file, kind, sizeof(kind), KIND_AT) == sizeof(kind) && kind[0] < VAULT_KEY_END &&
	    !kind[1] && !kind[2] && !kind[3])
		*ret_kind = (enum vault_key)kind[0];
	return check_private(f->file, "the vault file", 0077, e);
}

/* Not more trustworthy than the file beside it: it reveals a mistake, or an attacker who is not careful. */
static void read_save_counter(struct vault_files *f)
{
	autobuf struct buf b = BUF_INIT;

	if (fd_read_file(f->dir, "saved", 32, &b) == 0)
		f->saved = strtoull(buf_cstr(&b), NULL, 10);
}

/* --- keys ---------------------------------------------------------------------------------------------------- */

static int set_key_path(struct vault_files *f, struct err *e, const char *dir, const char *rest)
{
	int n = snprintf(f->key_path, sizeof(f->key_path), "%s%s", dir, rest);

	return n < 0 || (size_t)n >= sizeof(f->key_path)
		       ? err_set(e, -ENAMETOOLONG, "the key's path is too long")
		       : 0;
}

static int default_key_path(struct vault_files *f, struct err *e)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (config && *config == '/')
		return set_key_path(f, e, config, "/cofferdam/vault.key");
	if (geteuid() == 0 && ns_is_initial_user())
		return set_key_path(f, e, "/etc/cofferdam", "/vault.key");
	if (home && *home == '/')
		return set_key_path(f, e, home, "/.config/cofferdam/vault.key");
	err_set(e, -ENOKEY, "no default path for the vault's key: HOME is not set");
	return err_hint(e, -ENOKEY, "set HOME, or name a file with --key-file");
}

/* The requested path, otherwise the remembered one, otherwise the default. */
static int find_key_path(struct vault_files *f, const struct vault_key_want *want, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	int r;

	if (want->key_file) {
		autofree char *cwd = *want->key_file == '/' ? NULL : getcwd(NULL, 0);

		if (*want->key_file == '/')
			return set_key_path(f, e, want->key_file, "");
		if (!cwd || snprintf(f->key_path, sizeof(f->key_path), "%s/%s", cwd, want->key_file) >=
				    (int)sizeof(f->key_path))
			return err_set(e, -ENAMETOOLONG, "the key's path is too long");
		return 0;
	}
	r = fd_read_file(f->dir, "key-file", sizeof(f->key_path) - 1, &b);
	if (r == -ENOENT)
		return default_key_path(f, e);
	if (r < 0)
		return err_sys(e, r, "cannot read the path of the vault's key");
	return set_key_path(f, e, buf_cstr(&b), "");
}

/* Stores a path other than the default, so that later commands need not name it. */
int vault_files_remember(const struct vault_files *f, struct err *e)
{
	struct vault_files usual = VAULT_FILES_INIT;
	int r;

	if (f->kind != VAULT_KEY_FILE ||
	    (default_key_path(&usual, NULL) == 0 && str_eq(usual.key_path, f->key_path)))
		r = unlinkat(f->dir, "key-file", 0) < 0 && errno != ENOENT ? -errno : 0;
	else
		r = fd_replace_file(f->dir, "key-file", f->key_path, strlen(f->key_path), 0600);
	return r < 0 ? err_sys(e, r, "cannot store the path of the vault's key") : 0;
}

static int make_key_parents(const char *path, struct err *e)
{
	autofree char *dir = strdup(path);
	char *slash = dir ? strrchr(dir, '/') : NULL;
	int r;

	if (!dir)
		return err_set(e, -ENOMEM, "out of memory");
	if (!slash || slash == dir)
		return 0;
	*slash = '\0';
	r = fd_mkdir_p(AT_FDCWD, dir, 0700);
	return r < 0 ? err_sys(e, r, "cannot make %s for the vault's key", dir) : 0;
}

static int sync_key_parent(const char *path)
{
	autofree char *dir = strdup(path);
	char *slash = dir ? strrchr(dir, '/') : NULL;
	autoclose int fd = -1;

	if (!slash)
		return -EINVAL;
	*(slash == dir ? slash + 1 : slash) = '\0';
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

/* The bytes come from the kernel and pass through this process once, because the vault cannot create a file;
 * they are wiped. The key is synced to the disk before anything is sealed with it. */
static int create_key_file(struct vault_files *f, struct err *e)
{
	unsigned char key[KEY_LEN];
	autoclose int fd = -1;
	int r = make_key_parents(f->key_path, e);

	if (r < 0)
		return r;
	if (getrandom(key, sizeof(key), 0) != sizeof(key))
		return err_sys(e, -errno, "cannot make a key");
	fd = open(f->key_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		explicit_bzero(key, sizeof(key));
		return errno == EEXIST ? 0 : err_sys(e, -errno, "cannot make the key file %s", f->key_path);
	}
	r = fd_write_all(fd, key, sizeof(key));
	explicit_bzero(key, sizeof(key));
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0)
		r = sync_key_parent(f->key_path);
	if (r < 0) {
		unlink(f->key_path);
		return err_sys(e, r, "cannot write the key file %s", f->key_path);
	}
	f->made_key = true;
	return 0;
}

/* Reports a missing key: that is an error of its own, different from a missing vault. */
static int report_missing_key(int code, const char *path, struct err *e)
{
	int as = code == -ENOENT ? -ENOKEY : code;

	if (code == -ELOOP)
		err_set(e, as, "the vault's key %s is a symbolic link", path);
	else
		err_set(e, as, "cannot open the vault's key %s: %s", path, strerror(-code));
	if (code == -ENOENT && access(CREDSTORE, F_OK) == 0)
		return err_hint(e, as,
				"it is a credential: systemd-run -qGtP -p LoadCredentialEncrypted=" CREDENTIAL
				" coffer secret …");
	return err_hint(e, as, "name another with --key-file");
}

/* Did systemd pass a credential of the default name? */
static bool has_credential(void)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY");
	char path[4096];

	return dir && *dir == '/' &&
	       snprintf(path, sizeof(path), "%s/" CREDENTIAL, dir) < (int)sizeof(path) &&
	       access(path, F_OK) == 0;
}

/* Opens the key among the credentials that systemd passed to the service. */
static int open_credential(struct vault_files *f, const struct vault_key_want *want, struct err *e)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY"),
		   *name = want->credential ? want->credential : CREDENTIAL;

	if (!dir || *dir != '/') {
		err_set(e, -ENOKEY, "the vault's key is a systemd credential, and this process has none");
		return err_hint(e, -ENOKEY, "LoadCredentialEncrypted=%s in the unit; see systemd-creds(1)",
				name);
	}
	if (!str_is_name(name))
		return err_set(e, -EINVAL, "'%s' is not a valid name of a credential", name);
	f->may_reopen = true;
	if (snprintf(f->key_path, sizeof(f->key_path), "%s/%s", dir, name) >= (int)sizeof(f->key_path))
		return err_set(e, -ENAMETOOLONG, "the key's path is too long");
	f->key = open(f->key_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
	if (f->key < 0)
		return report_missing_key(-errno, f->key_path, e);
	/* systemd gives its group read access, and nobody else. */
	return check_private(f->key, f->key_path, 0037, e);
}

/* Opens the key file; for a new vault creates it if it is missing. */
static int open_key_file(struct vault_files *f, const struct vault_key_want *want, unsigned flags,
			 struct err *e)
{
	int r = find_key_path(f, want, e), code;

	if (r < 0)
		return r;
	f->key = open(f->key_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
	/* An existing vault was sealed with an existing key: do not create one. */
	if (f->key < 0 && errno == ENOENT && flags & VAULT_FILES_NEW && f->file < 0) {
		r = create_key_file(f, e);
		if (r < 0)
			return r;
		f->key = open(f->key_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
	}
	code = errno;
	/* The key may have been moved to systemd's credentials. The vault finds out whether it is the
	 * same. */
	if (f->key < 0 && code == ENOENT && !want->key_file && !want->credential && has_credential())
		return open_credential(f, want, e);
	if (f->key < 0)
		return report_missing_key(-code, f->key_path, e);
	f->may_reopen = true;
	r = check_private(f->key, f->key_path, 0077, e);
	/* Remembered only for a new vault: for an old one another path may be a mistake, and rekey stores the
	 * path itself. */
	return r < 0 || f->file >= 0 || !(flags & VAULT_FILES_NEW) || f->is_rekey
		       ? r
		       : vault_files_remember(f, e);
}

/* Opens the source of the passphrase: the given descriptor, or the terminal. */
static int open_passphrase(struct vault_files *f, const struct vault_key_want *want, struct err *e)
{
	int r = set_key_path(f, e, "the terminal", "");

	if (r < 0)
		return r;
	if (want->passphrase_fd >= 0) {
		f->key = fcntl(want->passphrase_fd, F_DUPFD_CLOEXEC, 3);
		return f->key < 0 ? err_sys(e, -errno, "cannot use the passphrase's descriptor") : 0;
	}
	f->is_terminal = true;
	f->key = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
	if (f->key >= 0)
		return 0;
	err_set(e, -VAULT_LOCKED,
		"the vault is locked: its passphrase must be typed, and there is no terminal");
	return err_hint(
		e, -VAULT_LOCKED,
		"coffer secret unlock opens it for all sandboxes; --passphrase-fd N reads it from a pipe");
}

static int open_key_of_kind(struct vault_files *f, const struct vault_key_want *want, unsigned flags,
			    struct err *e)
{
	switch (f->kind) {
	case VAULT_KEY_CREDENTIAL:
		return open_credential(f, want, e);
	case VAULT_KEY_PASSPHRASE:
		return open_passphrase(f, want, e);
	default:
		return open_key_file(f, want, flags, e);
	}
}

/* The default kind for a new vault: a credential if systemd passed one, otherwise a file. */
static enum vault_key default_key_kind(const struct vault_key_want *want)
{
	if (want->key_file)
		return VAULT_KEY_FILE;
	return want->credential || has_credential() ? VAULT_KEY_CREDENTIAL : VAULT_KEY_FILE;
}

int vault_files_open(struct vault_files *ret, int state_fd, const struct vault_key_want *want, unsigned flags,
		     struct err *e)
{
	CLEANUP(vault_files_close) struct vault_files f = VAULT_FILES_INIT;
	enum vault_key kind = 0;
	int r = open_vault_dir(&f, state_fd, flags, e);

	if (r == 0 && flags & VAULT_FILES_WRITE)
		r = open_and_lock(&f, !(flags & VAULT_FILES_TRY), e);
	if (r == 0)
		r = open_sealed_file(&f, &kind, e);
	if (r == 0 && f.file < 0 && !(flags & VAULT_FILES_NEW))
		r = -ENOENT;
	if (r == -ENOENT && !e->code) {
		err_set(e, r, "there is no vault yet");
		return err_hint(e, r, "coffer secret set NAME makes one");
	}
	if (r < 0)
		return r;
	read_save_counter(&f);
	f.kind = want->kind ? want->kind : kind ? kind : default_key_kind(want);
	r = flags & VAULT_FILES_NO_KEY ? 0 : open_key_of_kind(&f, want, flags, e);
	if (r < 0)
		return r;
	*ret = f;
	f = VAULT_FILES_INIT;
	return 0;
}

int vault_files_take_key(struct vault_files *f, const struct vault_key_want *want, struct err *e)
{
	BUG_ON(f->file < 0);
	f->key = fd_close(f->key);
	return open_key_of_kind(f, want, 0, e);
}

int vault_files_open_key(struct vault_files *ret, const struct vault_files *of,
			 const struct vault_key_want *want, struct err *e)
{
	CLEANUP(vault_files_close) struct vault_files f = VAULT_FILES_INIT;
	int r;

	f.dir = fcntl(of->dir, F_DUPFD_CLOEXEC, 3);
	if (f.dir < 0)
		return err_sys(e, -errno, "cannot use the vault's directory");
	f.kind = want->kind;
	f.is_rekey = true;
	r = open_key_of_kind(&f, want, VAULT_FILES_NEW, e);
	if (r < 0)
		return r;
	*ret = f;
	f = VAULT_FILES_INIT;
	return 0;
}

bool vault_files_changed(const struct vault_files *f)
{
	struct stat mine, there;

	return fstat(f->file, &mine) < 0 || fstatat(f->dir, "secrets", &there, AT_SYMLINK_NOFOLLOW) < 0 ||
	       mine.st_ino != there.st_ino || mine.st_dev != there.st_dev;
}

/* The key may have been replaced together with the file. If none can be opened, the old one stays, and the
 * vault finds out whether it still fits. */
static void reopen_key(struct vault_files *f, struct vault_files *n)
{
	const struct vault_key_want want = VAULT_KEY_WANT_INIT;

	if (open_key_of_kind(n, &want, 0, NULL) < 0)
		return;
	fd_close(f->key);
	f->key = n->key;
	n->key = -1;
	memcpy(f->key_path, n->key_path, sizeof(f->key_path));
}

int vault_files_reopen(struct vault_files *f, struct err *e)
{
	struct vault_files n = VAULT_FILES_INIT;
	enum vault_key kind = f->kind;
	int r;

	n.dir = f->dir;
	r = open_sealed_file(&n, &kind, e);
	if (r == 0 && n.file < 0)
		r = err_set(e, -ENOENT, "there is no vault any more");
	if (r == 0 && (kind == VAULT_KEY_PASSPHRASE || f->kind == VAULT_KEY_PASSPHRASE))
		r = err_set(e, -EPERM, "the vault's passphrase cannot be asked for here");
	if (r == 0) {
		n.kind = kind;
		reopen_key(f, &n);
		read_save_counter(f);
		fd_close(f->file);
		f->file = n.file;
		f->kind = kind;
		n.file = -1;
	}
	fd_close(n.key);
	fd_close(n.file);
	return r;
}
