/* SPDX-License-Identifier: Apache-2.0 */
/* coffer secret: what is in the vault, from the outside. No value is ever an argument, printed, or held here. */
#include "cli/secret.h"

#include "base/clock.h"
#include "base/fd.h"
#include "cli/say.h"
#include "cli/verb.h"
#include "vault/sshhosts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum {
	OPT_FILE = 1,
	OPT_COMMAND,
	OPT_EXPIRES,
	OPT_EVERY,
	OPT_WEAK,
	OPT_REPLACE,
	OPT_DUE,
	OPT_HOST,
	OPT_AS,
	OPT_USER,
	OPT_ADDRESS,
	OPT_KNOWN_HOST,
	OPT_KNOWN_HOSTS,
	OPT_KEY_FILE,
	OPT_KEY_CREDENTIAL,
	OPT_PASSPHRASE,
	OPT_PASSPHRASE_FD,
	OPT_OLD_PASSPHRASE_FD,
	OPT_JSON
};

static const struct opt secret_opts[] = {
	OPT_SECTION("Where a value comes from (default: typed, without echo)"),
	{ "file", 0, "FILE", "set, rotate: from a file", OPT_FILE, "file" },
	{ "command", 0, "CMD", "set, rotate: what a command prints; with --every it is remembered",
	  OPT_COMMAND },
	OPT_SECTION("About a secret"),
	{ "expires", 0, "WHEN", "set, rotate, change, import: a date, a span (30d), or never", OPT_EXPIRES },
	{ "every", 0, "SPAN", "set, rotate, change: how often --command is run; or never", OPT_EVERY },
	{ "weak", 0, NULL, "set, rotate, import: also a value of fewer than 16 bytes", OPT_WEAK },
	{ "replace", 0, NULL, "set, import: also when there is one of that name; its bindings go",
	  OPT_REPLACE },
	{ "due", 0, NULL, "rotate: all whose schedule says so", OPT_DUE },
	OPT_SECTION("Where it may be sent"),
	{ "host", 0, "HOST[:PORT][/PATH]", "set, bind, unbind: this host, below this path; may be repeated",
	  OPT_HOST },
	{ "as", 0, "HOW", "bearer, basic, header:X, query:X, path, cookie, body, ssh, proxy", OPT_AS,
	  "bearer basic header: query: path body cookie ssh ssh:sshsig ssh:unbound proxy" },
	{ "user", 0, "USER", "set, bind: the user of basic, ssh and proxy", OPT_USER },
	{ "known-host", 0, "KEY", "set, bind --as ssh: the host's key, 'ssh-ed25519 AAAA...'",
	  OPT_KNOWN_HOST },
	{ "known-hosts", 0, "FILE", "set, bind --as ssh: its keys from a known_hosts file", OPT_KNOWN_HOSTS,
	  "file" },
	{ "address", 0, NULL, "set, bind: HOST may be an address", OPT_ADDRESS },
	OPT_SECTION("The vault's key"),
	{ "key-file", 0, "FILE", "a file with the key, made when there is none", OPT_KEY_FILE, "file" },
	{ "key-credential", 0, "NAME", "a credential of systemd's (coffer-vault-key where there is one)",
	  OPT_KEY_CREDENTIAL },
	{ "passphrase", 0, NULL, "init, rekey: a passphrase, which is then typed each time", OPT_PASSPHRASE },
	{ "passphrase-fd", 0, "N", "the passphrase from a descriptor; rekey: the new one",
	  OPT_PASSPHRASE_FD },
	{ "old-passphrase-fd", 0, "N", "rekey: the one that was", OPT_OLD_PASSPHRASE_FD },
	OPT_SECTION("Output"),
	{ "json", 0, NULL, "ls: print JSON", OPT_JSON },
};

static const char act_names[] = "set ls rm rotate change bind unbind check import init rekey unlock lock";

static uint64_t now_s(void)
{
	return clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC;
}

/* --- what it does ------------------------------------------------------------------------------------------------ */

static int make_binding(const struct secret_args *a, const char *host, struct binding *b, struct err *e)
{
	bool ssh = a->as && (str_eq(a->as, "ssh") || str_starts(a->as, "ssh:"));
	int r = binding_parse_host(host, strlen(host),
				   (a->address ? BINDING_ADDRESS : 0) | (ssh ? BINDING_ASKED : 0), b, e);

	if (r < 0)
		return err_wrap(e, r, "--host");
	if (ssh && !str_eq(b->path, "/"))
		return err_set(e, -EINVAL, "--host %s: SSH knows no paths", host);
	b->port = b->port ? b->port : BINDING_PORT_SSH;
	if (a->as)
		r = binding_parse_as(a->as, strlen(a->as), b, e);
	else
		binding_usual_as(b);
	if (r < 0)
		return err_wrap(e, r, "--as");
	return a->user ? binding_set_user(b, a->user, e) : 0;
}

/* What is known of the binding's host by the arguments. */
static int gather_known(const struct secret_args *a, const struct binding *b, struct sshhosts *ret,
			struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < a->known.n && r == 0; i++)
		r = sshhosts_add_text(ret, b->host, b->port, a->known.v[i], e);
	for (size_t i = 0; i < a->known_files.n && r == 0; i++) {
		autoclose int fd = open(a->known_files.v[i], O_RDONLY | O_CLOEXEC | O_NOCTTY);
		autobuf struct buf text = BUF_INIT;

		r = fd < 0 ? -errno : fd_read_all(fd, SSHHOSTS_FILE_MAX, &text);
		if (r < 0)
			return err_sys(e, r, "cannot read %s", a->known_files.v[i]);
		r = sshhosts_add_file(ret, b->host, b->port, (struct slice){ buf_cstr(&text), text.len }, e);
		if (r == 0) {
			err_set(e, -ENOENT, "%s has no key of %s", a->known_files.v[i], b->host);
			return err_hint(
				e, -ENOENT,
				"ssh-keyscan -p %u %s shows what answers there; compare its fingerprint "
				"(ssh-keygen -lf) with one that you trust",
				b->port, b->host);
		}
		r = r > 0 ? 0 : r;
	}
	return r;
}

static int bind_one(struct secret_session *s, const struct secret_args *a, const char *name,
		    const struct binding *b, struct err *e)
{
	autobuf struct buf packed = BUF_INIT, text = BUF_INIT, hosts = BUF_INIT;
	autosshhosts struct sshhosts known = SSHHOSTS_INIT;
	struct vault_msg ask = { .type = VAULT_BIND };
	int r = gather_known(a, b, &known, e);

	if (r < 0)
		return r;
	r = bindings_pack(b, 1, &packed);
	if (r == 0 && known.n)
		r = sshhosts_pack(&known, &hosts);

	if (r < 0)
		return err_set(e, r, "the binding cannot be written down");
	ask.text[0] = slice_of(name);
	ask.text[1] = (struct slice){ buf_cstr(&packed), packed.len };
	ask.text[2] = (struct slice){ buf_cstr(&hosts), hosts.len };
	r = vault_call(&s->proc, &ask, NULL, 0, NULL, NULL, NULL, NULL, e);
	binding_describe(b, &text);
	if (r == 0)
		r = secret_log(s, "secret.bind", name, buf_cstr(&text), e);
	if (r == 0)
		say_note(b->as == BINDING_AS_SSH ? "%s may sign for %s" : "%s may be sent to %s", name,
			 buf_cstr(&text));
	return r;
}

static int bind_all(struct secret_session *s, const struct secret_args *a, const char *name, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < a->hosts.n && r == 0; i++) {
		struct binding b = { 0 };

		r = make_binding(a, a->hosts.v[i], &b, e);
		if (r == 0)
			r = bind_one(s, a, name, &b, e);
		if (r == 0 && !a->as && binding_usual_other(&b))
			r = bind_one(s, a, name, &b, e);
	}
	return r;
}

static unsigned set_flags(const struct secret_args *a)
{
	return (a->weak ? VAULT_SET_WEAK : 0) | (a->replace ? VAULT_SET_REPLACE : 0);
}

static int do_set(struct secret_session *s, const struct secret_args *a, struct err *e)
{
	const char *name = a->argv[0];
	int r = secret_take_value(s, a, name, set_flags(a), NULL, e);

	if (r == 0)
		r = secret_log(s, "secret.set", name, NULL, e);
	if (r == 0)
		r = bind_all(s, a, name, e);
	if (r == 0)
		r = secret_save(s, e);
	if (r < 0)
		return r;
	if (s->files.made_key)
		say_note("the vault's key is %s: keep a copy of it somewhere else", s->files.key_path);
	if (a->replace)
		say_note("%s: bindings that one of this name had before are gone", name);
	say_note("%s is saved%s", name,
		 a->hosts.n ? "" : "; it can be sent nowhere until it is bound: coffer secret bind");
	return 0;
}

/* A new value keeps the dates that nothing was said about; "never" is something that was said. */
static int end_dates(struct secret_session *s, const struct secret_args *a, const char *name, struct err *e)
{
	struct vault_msg ask = { .type = VAULT_CHANGE };

	ask.num[0] = (a->expires_text && !a->expires ? VAULT_CHANGE_EXPIRES : 0) |
		     (a->every_text && !a->every ? VAULT_CHANGE_SCHEDULE : 0);
	ask.text[0] = slice_of(name);
	return ask.num[0] ? vault_call(&s->proc, &ask, NULL, 0, NULL, NULL, NULL, NULL, e) : 0;
}

static int rotate_one(struct secret_session *s, const struct secret_args *a, const struct secret_item *i,
		      struct err *e)
{
	int r = secret_take_value(s, a, i->name, VAULT_SET_ROTATE | set_flags(a), i->command, e);

	if (r == 0)
		r = end_dates(s, a, i->name, e);
	if (r == 0)
		r = secret_log(s, "secret.rotate", i->name, NULL, e);
	if (r == 0)
		r = secret_save(s, e);
	if (r < 0)
		return r;
	say_note("%s has a new value", i->name);
	if (!a->expires_text && secret_item_has_expired(i, now_s()))
		say_warn("%s is still said to have expired: --expires gives it a new date", i->name);
	return 0;
}

static int rotate_due(struct secret_session *s, const struct secret_args *a, const struct secret_items *l,
		      struct err *e)
{
	struct secret_args plain = { .key = a->key };
	unsigned n = 0, failed = 0;
	int r = 0;

	for (size_t i = 0; i < l->n; i++) {
		struct err why = ERR_INIT, stuck = ERR_INIT;

		if (!secret_item_is_due(&l->v[i], now_s()))
			continue;
		n++;
		/* One that fails does not keep the others from being done. */
		if (rotate_one(s, &plain, &l->v[i], &why) < 0) {
			say_warn("%s: %s", l->v[i].name, why.msg);
			failed++;
			r = why.code;
			/* What a command wrote before it failed must not be saved with the next one's value. */
			if (secret_revert(s, &stuck) < 0)
				return err_set(e, stuck.code, "the rest was not tried: %s", stuck.msg);
		}
	}
	if (n == 0)
		say_note("nothing is due");
	return failed ? err_set(e, r, "%u of %u could not be rotated", failed, n) : 0;
}

static int do_rotate(struct secret_session *s, const struct secret_args *a, struct err *e)
{
	CLEANUP(secret_items_release) struct secret_items l = { 0 };
	int r = secret_items_get(s, &l, e);

	if (r < 0 || a->due)
		return r < 0 ? r : rotate_due(s, a, &l, e);
	for (size_t i = 0; i < l.n; i++) {
		if (str_eq(l.v[i].name, a->argv[0]))
			return rotate_one(s, a, &l.v[i], e);
	}
	s->proc.fault = VAULT_FAULT_NO_SUCH;
	return err_set(e, -ENOENT, "there is no secret '%s'", a->argv[0]);
}

static int do_change(struct secret_session *s, const struct secret_args *a, struct err *e)
{
	struct vault_msg ask = { .type = VAULT_CHANGE, .num = { 0, a->expires, a->every } };
	int r;

	ask.num[0] =
		(a->expires_text ? VAULT_CHANGE_EXPIRES : 0) | (a->every_text ? VAULT_CHANGE_SCHEDULE : 0);
	ask.text[0] = slice_of(a->argv[0]);
	ask.text[1] = slice_of(a->command && a->every ? a->command : "");
	r = vault_call(&s->proc, &ask, NULL, 0, NULL, NULL, NULL, NULL, e);
	if (r == 0)
		r = secret_log(s, "secret.change", a->argv[0], NULL, e);
	return r < 0 ? r : secret_save(s, e);
}

static int do_rm(struct secret_session *s, const struct secret_args *a, struct err *e)
{
	int r = 0;

	for (int i = 0; i < a->argc && r == 0; i++) {
		struct vault_msg ask = { .type = VAULT_RM };

		ask.text[0] = slice_of(a->argv[i]);
		r = vault_call(&s->proc, &ask, NULL, 0, NULL, NULL, NULL, NULL, e);
		if (r == 0)
			r = secret_log(s, "secret.rm", a->argv[i], NULL, e);
	}
	return r < 0 ? r : secret_save(s, e);
}

static int do_bind(struct secret_session *s, const struct secret_args *a, struct err *e)
{
	int r = bind_all(s, a, a->argv[0], e);

	return r < 0 ? r : secret_save(s, e);
}

static int do_unbind(struct secret_session *s, const struct secret_args *a, struct err *e)
{
	int r = 0;

	for (size_t i = 0; (i == 0 || i < a->hosts.n) && r == 0; i++) {
		struct vault_msg ask = { .type = VAULT_UNBIND };
		struct binding b = { 0 };
		struct host h;
		uint16_t port = 0;
		const char *host = a->hosts.n ? a->hosts.v[i] : NULL;

		if (host && host_port_parse(host, strcspn(host, "/"), HOST_PORT_OPTIONAL, &h, &port, e) < 0)
			return err_wrap(e, -EINVAL, "--host");
		if (host)
			memcpy(b.host, h.text, sizeof(b.host));
		ask.num[0] = port;
		ask.text[0] = slice_of(a->argv[0]);
		ask.text[1] = slice_of(b.host);
		r = vault_call(&s->proc, &ask, NULL, 0, NULL, NULL, NULL, NULL, e);
		if (r == 0)
			r = secret_log(s, "secret.unbind", a->argv[0], host, e);
	}
	return r < 0 ? r : secret_save(s, e);
}

static const char *key_text(const struct vault_files *f)
{
	return f->kind == VAULT_KEY_PASSPHRASE ? "a passphrase" : f->key_path;
}

static int do_init(struct secret_session *s, const struct secret_args *a, struct err *e)
{
	int r;

	(void)a;
	if (s->files.file >= 0) {
		err_set(e, -EEXIST, "there is a vault already");
		return err_hint(e, -EEXIST, "coffer secret rekey gives it another key");
	}
	r = secret_log(s, "secret.init", NULL, key_text(&s->files), e);
	if (r == 0)
		r = secret_save(s, e);
	if (r == 0)
		say_note("the vault is made; its key is %s%s", key_text(&s->files),
			 s->files.kind == VAULT_KEY_FILE ? ": keep a copy of it somewhere else" : "");
	return r;
}

static bool is_same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* A second set of files, for the new key alone. */
static int do_rekey(struct secret_session *s, const struct secret_args *a, struct err *e)
{
	CLEANUP(vault_files_close) struct vault_files n = VAULT_FILES_INIT;
	struct vault_msg ask = { .type = VAULT_REKEY };
	int r = vault_files_open_key(&n, &s->files, &a->key, e);

	if (r < 0)
		return r;
	if (n.kind != VAULT_KEY_PASSPHRASE && is_same_file(n.key, s->files.key)) {
		err_set(e, -EEXIST, "the vault is sealed with that very key");
		return err_hint(e, -EEXIST, "--key-file FILE makes another");
	}
	ask.num[0] = n.kind;
	ask.num[1] = n.is_terminal ? VAULT_OPEN_TERMINAL : 0;
	ask.text[0] = slice_of("of the vault");
	r = vault_call(&s->proc, &ask, &n.key, 1, NULL, NULL, NULL, NULL, e);
	if (r == 0)
		r = secret_log(s, "secret.rekey", NULL, key_text(&n), e);
	if (r == 0)
		r = secret_save(s, e);
	if (r == 0)
		r = vault_files_remember(&n, e);
	if (r == 0)
		say_note("the vault is sealed with %s now; the old key opens it no more", key_text(&n));
	return r;
}

static const struct {
	unsigned flags; /* VAULT_FILES_* */
	bool may_miss;	/* without a vault there is nothing to show, which is no error */
	int args_min, args_max;
	int (*run)(struct secret_session *s, const struct secret_args *a, struct err *e);
	/* Those that do not open it themselves. */
	int (*kept)(const struct secret_args *a, enum vault_fault *ret_fault, struct err *e);
} acts[] = {
	[SECRET_SET] = { VAULT_FILES_WRITE | VAULT_FILES_NEW, false, 1, 2, do_set },
	[SECRET_LS] = { 0, true, 0, 0, secret_ls },
	[SECRET_RM] = { VAULT_FILES_WRITE, false, 1, 1000, do_rm },
	[SECRET_ROTATE] = { VAULT_FILES_WRITE, false, 0, 2, do_rotate },
	[SECRET_CHANGE] = { VAULT_FILES_WRITE, false, 1, 1, do_change },
	[SECRET_BIND] = { VAULT_FILES_WRITE, false, 1, 1, do_bind },
	[SECRET_UNBIND] = { VAULT_FILES_WRITE, false, 1, 1, do_unbind },
	[SECRET_CHECK] = { 0, true, 0, 10000, secret_check },
	[SECRET_IMPORT] = { VAULT_FILES_WRITE | VAULT_FILES_NEW, false, 1, 1, secret_import },
	[SECRET_INIT] = { VAULT_FILES_WRITE | VAULT_FILES_NEW, false, 0, 0, do_init },
	[SECRET_REKEY] = { VAULT_FILES_WRITE, false, 0, 0, do_rekey },
	[SECRET_UNLOCK] = { 0, false, 0, 0, NULL, secret_unlock },
	[SECRET_LOCK] = { 0, false, 0, 0, NULL, secret_lock },
};

static int exit_code(enum vault_fault f)
{
	static const int codes[] = { [VAULT_FAULT_OTHER] = EXIT_OURS,
				     [VAULT_FAULT_KEY] = SECRET_EXIT_KEY,
				     [VAULT_FAULT_PASSPHRASE] = SECRET_EXIT_PASSPHRASE,
				     [VAULT_FAULT_TAMPERED] = SECRET_EXIT_TAMPERED,
				     [VAULT_FAULT_TRUNCATED] = SECRET_EXIT_TRUNCATED,
				     [VAULT_FAULT_FORMAT] = SECRET_EXIT_FORMAT,
				     [VAULT_FAULT_KEY_KIND] = SECRET_EXIT_KEY,
				     [VAULT_FAULT_NO_SUCH] = SECRET_EXIT_NO_SUCH,
				     [VAULT_FAULT_EXISTS] = SECRET_EXIT_EXISTS,
				     [VAULT_FAULT_VALUE] = SECRET_EXIT_VALUE,
				     [VAULT_FAULT_SPACE] = SECRET_EXIT_SPACE };

	return codes[f];
}

static int run_kept(const struct secret_args *a)
{
	enum vault_fault fault = VAULT_FAULT_OTHER;
	struct err e = ERR_INIT;

	if (acts[a->act].kept(a, &fault, &e) == 0)
		return 0;
	say_error(&e);
	return exit_code(fault);
}

static int run_act(const struct secret_args *a)
{
	CLEANUP(secret_session_close) struct secret_session s = SECRET_SESSION_INIT;
	struct err e = ERR_INIT;
	const struct vault_key_want *key = a->act == SECRET_REKEY ? &a->old_key : &a->key;
	int r = secret_session_open(&s, key, acts[a->act].flags, &e);
	int code;

	if (r == -ENOENT && acts[a->act].may_miss && s.files.dir < 0 && s.proc.pid < 0 && s.audit) {
		e = ERR_INIT;
		r = 0;
	}
	if (r == 0)
		r = acts[a->act].run(&s, a, &e);
	if (r >= 0)
		return r > 0 ? SECRET_EXIT_FOUND : 0;
	code = exit_code(s.proc.fault);
	if (e.code)
		say_error(&e);
	return code;
}

/* --- the command line -------------------------------------------------------------------------------------------- */

static int parse_expires(struct secret_args *a, const char *text, struct err *e)
{
	uint64_t now = clock_nsec(CLOCK_REALTIME), at = 0, span = 0;

	a->expires_text = text;
	if (str_eq(text, "never"))
		return 0;
	if (str_to_nsec(text, &span) == 0 && strpbrk(text, "smhdSMHD"))
		at = span > UINT64_MAX - now ? 0 : now + span;
	else if (clock_parse(text, now, &at) < 0)
		at = 0;
	if (!at)
		return err_set(e, -EINVAL,
			       "--expires %s: expected a date (2027-01-31), a span (30d) or never", text);
	if (at <= now)
		return err_set(e, -EINVAL, "--expires %s is in the past", text);
	a->expires = at / NSEC_PER_SEC;
	return 0;
}

static int parse_every(struct secret_args *a, const char *text, struct err *e)
{
	uint64_t span = 0;

	a->every_text = text;
	if (str_eq(text, "never"))
		return 0;
	if (str_to_nsec(text, &span) < 0 || span < NSEC_PER_SEC)
		return err_set(e, -EINVAL, "--every %s: expected a span such as 30d", text);
	a->every = span / NSEC_PER_SEC;
	return 0;
}

static int parse_fd(const char *option, const char *text, int *ret, struct err *e)
{
	uint64_t n = 0;

	if (str_to_u64(text, &n) < 0 || n > 1000000 || fcntl((int)n, F_GETFD) < 0)
		return err_set(e, -EINVAL, "%s %s: expected the number of an open descriptor", option, text);
	*ret = (int)n;
	return 0;
}

static int take_text_option(struct secret_args *a, int id, const char *value, struct err *e)
{
	switch (id) {
	case OPT_FILE:
		a->file = value;
		return 0;
	case OPT_COMMAND:
		a->command = value;
		return *value ? 0 : err_set(e, -EINVAL, "--command is empty");
	case OPT_EXPIRES:
		return parse_expires(a, value, e);
	case OPT_EVERY:
		return parse_every(a, value, e);
	case OPT_HOST:
		return strv_add(&a->hosts, value) < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
	case OPT_KNOWN_HOST:
		return strv_add(&a->known, value) < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
	case OPT_KNOWN_HOSTS:
		return strv_add(&a->known_files, value) < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
	case OPT_AS:
		a->as = value;
		return 0;
	case OPT_USER:
		a->user = value;
		return 0;
	case OPT_KEY_FILE:
		a->key.key_file = value;
		return 0;
	case OPT_KEY_CREDENTIAL:
		a->key.credential = value;
		return 0;
	case OPT_PASSPHRASE_FD:
		return parse_fd("--passphrase-fd", value, &a->key.passphrase_fd, e);
	default:
		return parse_fd("--old-passphrase-fd", value, &a->old_key.passphrase_fd, e);
	}
}

static int take_option(struct secret_args *a, int id, const char *value, struct err *e)
{
	if (value)
		return take_text_option(a, id, value, e);
	a->weak |= id == OPT_WEAK;
	a->replace |= id == OPT_REPLACE;
	a->due |= id == OPT_DUE;
	a->address |= id == OPT_ADDRESS;
	a->passphrase |= id == OPT_PASSPHRASE;
	a->json |= id == OPT_JSON;
	return 0;
}

static int check_key(struct secret_args *a, struct err *e)
{
	bool makes = a->act == SECRET_INIT || a->act == SECRET_REKEY;
	int n = (a->key.key_file != NULL) + (a->key.credential != NULL) + a->passphrase;

	if (n > 1)
		return err_set(e, -EINVAL,
			       "a vault has one key: --key-file, --key-credential or --passphrase");
	if (a->passphrase && !makes)
		return err_set(e, -EINVAL,
			       "--passphrase goes with init and rekey; where one is needed it is asked for");
	if (a->passphrase || (makes && a->key.passphrase_fd >= 0))
		a->key.kind = VAULT_KEY_PASSPHRASE;
	else if (a->key.credential)
		a->key.kind = VAULT_KEY_CREDENTIAL;
	else if (makes && a->key.key_file)
		a->key.kind = VAULT_KEY_FILE;
	if (a->act == SECRET_REKEY && !a->key.kind)
		a->key.kind = VAULT_KEY_FILE;
	return 0;
}

/* A value on the command line is in the shell's history, and in what every user of this machine sees by ps. */
static int refuse_value(const struct secret_args *a, struct err *e)
{
	if ((a->act != SECRET_SET && a->act != SECRET_ROTATE) || a->argc < 2 || str_eq(a->argv[1], "-"))
		return 0;
	err_set(e, -EINVAL,
		"a value is never an argument: the shell's history keeps it, and ps shows it to everybody on this machine");
	return err_hint(e, -EINVAL, "leave it out and type it when asked, or use '-', --file or --command");
}

static int check_source(const struct secret_args *a, struct err *e)
{
	int n = (a->file != NULL) + (a->command != NULL) + (a->argc > 1 && a->act <= SECRET_ROTATE);

	if (a->act != SECRET_SET && a->act != SECRET_ROTATE && a->act != SECRET_CHANGE &&
	    (a->file || a->command))
		return err_set(e, -EINVAL, "--file and --command go with set and rotate");
	if ((a->act == SECRET_SET || a->act == SECRET_ROTATE) && n > 1)
		return err_set(e, -EINVAL, "a value comes from one place: '-', --file or --command");
	if (a->every && !a->command)
		return err_set(e, -EINVAL, "--every wants the --command that makes the new value");
	if (a->act == SECRET_CHANGE && !a->expires_text && !a->every_text)
		return err_set(e, -EINVAL, "change what? --expires, or --every with --command");
	return 0;
}

static int check_names(const struct secret_args *a, struct err *e)
{
	bool one = a->act == SECRET_SET || a->act == SECRET_ROTATE;
	int n = a->act == SECRET_CHECK || a->act == SECRET_IMPORT ? 0 : one && a->argc ? 1 : a->argc;

	for (int i = 0; i < n; i++) {
		if (!str_is_name(a->argv[i]) || strlen(a->argv[i]) > VAULT_NAME_MAX)
			return err_set(
				e, -EINVAL,
				"'%.80s' is no name for a secret: letters, digits, '.', '_' and '-', at most %d",
				a->argv[i], VAULT_NAME_MAX);
	}
	return 0;
}

static int check_args(struct secret_args *a, bool has_act, struct err *e)
{
	int r = has_act ? 0 : err_set(e, -EINVAL, "what is to be done: set, ls, rm, rotate, bind, check …?");

	if (r == 0)
		r = refuse_value(a, e);
	if (r == 0 && a->argc < acts[a->act].args_min)
		r = err_set(e, -EINVAL, a->act == SECRET_IMPORT ? "import which file?" : "which secret?");
	if (r == 0 && a->argc > acts[a->act].args_max)
		r = err_set(e, -EINVAL, "that is one argument too many");
	if (r == 0 && a->act == SECRET_ROTATE && a->due == (a->argc > 0))
		r = err_set(e, -EINVAL, "rotate which secret? A name, or --due");
	if (r == 0 && (a->act == SECRET_BIND) && !a->hosts.n)
		r = err_set(e, -EINVAL, "bind it to which host? --host HOST[:PORT][/PATH]");
	if (r == 0)
		r = check_names(a, e);
	if (r == 0)
		r = check_source(a, e);
	return r < 0 ? r : check_key(a, e);
}

/* Options may stand before, between and behind the other words. Returns 1 when --help was asked for. */
static int parse(struct secret_args *a, int argc, char **argv, struct err *e)
{
	struct optparse p = OPTPARSE_INIT(argc, argv, secret_opts, ARRAY_SIZE(secret_opts));
	const char *value;
	bool has_act = false;
	int id, r;

	a->argv = argv + 1;
	for (;;) {
		while ((id = opt_next(&p, &value, e)) > 0) {
			if (id == OPT_HELP)
				return 1;
			r = take_option(a, id, value, e);
			if (r < 0)
				return r;
		}
		if (id < 0)
			return id;
		if (p.index >= p.argc)
			return check_args(a, has_act, e);
		if (has_act) {
			a->argv[a->argc++] = p.argv[p.index++];
			continue;
		}
		r = opt_one_of("secret", opt_take(&p), act_names, e);
		if (r < 0)
			return r;
		a->act = (enum secret_act)r;
		has_act = true;
	}
}

/* Every binding is looked at before anything is asked or typed. */
static int check_bindings(const struct secret_args *a, struct err *e)
{
	int r = 0;

	if (a->act == SECRET_UNBIND)
		return 0;
	if ((a->known.n || a->known_files.n) && (!a->as || !str_starts(a->as, "ssh")))
		return err_set(e, -EINVAL, "--known-host and --known-hosts go with --as ssh");
	if (a->act == SECRET_SET && a->as && !a->hosts.n)
		return err_set(e, -EINVAL, "--as goes with --host: where is it to be used?");
	for (size_t i = 0; i < a->hosts.n && r == 0; i++) {
		autosshhosts struct sshhosts known = SSHHOSTS_INIT;
		struct binding b = { 0 };

		r = make_binding(a, a->hosts.v[i], &b, e);
		if (r == 0)
			r = gather_known(a, &b, &known, e);
	}
	return r;
}

static int cmd_secret(int argc, char **argv)
{
	struct secret_args a = { .key = VAULT_KEY_WANT_INIT, .old_key = VAULT_KEY_WANT_INIT };
	struct err e = ERR_INIT;
	int r = parse(&a, argc, argv, &e), code;

	if (r == 0)
		r = check_bindings(&a, &e);
	code = r == 1		  ? verb_print_help(&verb_secret)
	       : r < 0		  ? say_usage(&verb_secret, &e)
	       : acts[a.act].kept ? run_kept(&a)
				  : run_act(&a);
	strv_release(&a.hosts);
	strv_release(&a.known);
	strv_release(&a.known_files);
	return code;
}

const struct verb verb_secret = {
	.name = "secret",
	.group = VERB_HOST,
	.synopsis = "set|rotate|rm|bind|unbind|change NAME | ls|check|import|init|rekey|unlock|lock",
	.help = "keys and tokens that a sandbox uses and never sees",
	.opts = secret_opts,
	.n_opts = ARRAY_SIZE(secret_opts),
	.run = cmd_secret,
	.args = "path",
	.text = "The vault is a sealed file; only the process *coffer-vault* ever opens it. *set* puts a value in: typed without echo, from "
		"standard input (*-*), a file, or what a command prints; never from the command line. One line break at the end is "
		"dropped. *rotate* gives it a new value and keeps its bindings. *change* sets when it expires or how often a command "
		"rotates it; *rotate --due* does what is due, for a timer to call. *rm* removes it. *ls* shows names, bindings and dates, "
		"never a value.\n"
		"\n"
		"*bind* says where it may be sent: to one exact host, on one port (443), below one path, in one place of the request. "
		"No wildcard, no public suffix. Without *--as* it is sent as the host usually wants it, else as bearer. A sandbox that "
		"uses it (*coffer run --secret NAME*) finds a placeholder of the same shape; the real value is put in on its way to that "
		"host.\n"
		"\n"
		"*--as ssh* is for a private key (unencrypted; ed25519, ECDSA P-256, RSA): it never leaves the vault, and signs logins at "
		"that host (port 22) for programs in a sandbox, which find an ssh-agent. The host's own key must be known: "
		"*--known-hosts*, *--known-host*. With *--user git* it signs for that user only. *ssh:sshsig* also signs git's commits; "
		"*ssh:unbound* also signs for programs that do not tell the agent which host they speak with.\n"
		"\n"
		"*check* says what has expired or will, what is bound nowhere or weak, and looks into each PATH for secrets of the vault "
		"in any encoding and for what looks like a well-known token. *import* takes what looks like a secret from a .env file.\n"
		"\n"
		"The key is a file that only its owner may read, made at first use: _~/.config/cofferdam/vault.key_, for root "
		"_/etc/cofferdam/vault.key_. *init* and *rekey* choose another: a file, a credential of systemd's, or a passphrase.\n"
		"\n"
		"With a passphrase, *unlock* asks for it once and has *cofferd* (coffer-gateway(1)) keep the vault open for all "
		"sandboxes, those that are started again too, until *lock*, or until cofferd ends. *coffer gateway status* says whether "
		"it is.\n"
		"\n"
		"Exit codes: 1 check found something, 2 the command line is wrong, 10 wrong key, 11 wrong passphrase, 12 the file was "
		"changed, 13 it is cut off, 14 it is no vault file, 15 no such secret, 16 there is one already, 17 the value is refused, "
		"18 the disk is full, 125 anything else.",
	.examples = "coffer secret set github --host api.github.com --as bearer\n"
		    "\t# typed, without echo\n"
		    "pass show openai | coffer secret set openai - --expires 90d\n"
		    "\t# from another program\n"
		    "coffer secret bind openai --host api.openai.com/v1\n"
		    "coffer secret rotate registry --command 'aws ecr get-login-password' --every 10h\n"
		    "\t# and coffer secret rotate --due from a timer\n"
		    "coffer secret check src\n"
		    "\t# is one of them in these files?\n",
};
