/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer secret: manages the vault from outside. No value is ever a command-line argument, printed, or held
 * in this process; only coffer-vault reads values.
 *
 * This file has the table of options, the table of acts (how each opens the vault and how many arguments it
 * takes), and the exit code for each fault of the vault. The whole command line is checked (secret_args.h,
 * secret_bind.c) before anything is opened or a person is prompted.
 */
#include "cli/secret/cmd_secret.h"

#include "cli/core/say.h"
#include "cli/core/verb.h"
#include "cli/secret/secret_args.h"

#include <errno.h>

static const struct opt secret_opts[] = {
	OPT_SECTION("Where a value comes from (default: typed, without echo)"),
	{ "file", 0, "FILE", "set, rotate: from a file", OPT_FILE, "file" },
	{ "command", 0, "CMD", "set, rotate: from the output of a command; stored with --every",
	  OPT_COMMAND },
	OPT_SECTION("About a secret"),
	{ "expires", 0, "WHEN", "set, rotate, change, import: a date, a span (30d), or never", OPT_EXPIRES },
	{ "every", 0, "SPAN", "set, rotate, change: how often --command is run; or never", OPT_EVERY },
	{ "weak", 0, NULL, "set, rotate, import: accept a value of fewer than 16 bytes", OPT_WEAK },
	{ "replace", 0, NULL, "set, import: replace an existing secret; its bindings are removed",
	  OPT_REPLACE },
	{ "due", 0, NULL, "rotate: all secrets that are due", OPT_DUE },
	OPT_SECTION("Where it may be sent"),
	{ "host", 0, "HOST[:PORT][/PATH]", "set, bind, unbind: this host, below this path; may be repeated",
	  OPT_HOST, .many = true },
	{ "as", 0, "HOW", "bearer, basic, header:X, query:X, path, cookie, body, ssh, proxy", OPT_AS,
	  "bearer basic header: query: path body cookie ssh ssh:sshsig ssh:unbound proxy" },
	{ "ask", 0, NULL, "set, bind --as ssh: a person is asked before each signature", OPT_ASK },
	{ "user", 0, "USER", "set, bind: the user name for basic, ssh and proxy", OPT_USER },
	{ "known-host", 0, "KEY", "set, bind --as ssh: the host's key, 'ssh-ed25519 AAAA...'", OPT_KNOWN_HOST,
	  .many = true },
	{ "known-hosts", 0, "FILE", "set, bind --as ssh: its keys from a known_hosts file", OPT_KNOWN_HOSTS,
	  "file", .many = true },
	{ "address", 0, NULL, "set, bind: HOST may be an address", OPT_ADDRESS },
	OPT_SECTION("The vault's key"),
	{ "key-file", 0, "FILE", "a file with the key, created if it is missing", OPT_KEY_FILE, "file" },
	{ "key-credential", 0, "NAME", "a systemd credential (default: coffer-vault-key if it exists)",
	  OPT_KEY_CREDENTIAL },
	{ "passphrase", 0, NULL, "init, rekey: a passphrase, which is then typed each time", OPT_PASSPHRASE },
	{ "passphrase-fd", 0, "N", "read the passphrase from a descriptor; rekey: the new one",
	  OPT_PASSPHRASE_FD },
	{ "old-passphrase-fd", 0, "N", "rekey: the old passphrase", OPT_OLD_PASSPHRASE_FD },
	OPT_SECTION("Output"),
	{ "json", 0, NULL, "ls: print JSON", OPT_JSON },
};

static const char act_names[] =
	"set ls rm rotate change bind unbind check import init rekey unlock lock forget";

static const struct {
	unsigned flags; /* VAULT_FILES_* */
	bool may_miss;	/* a missing vault is no error: there is nothing to show */
	int args_min, args_max;
	int (*run)(struct secret_session *s, const struct secret_args *a, struct err *e);
	/*
	 * Instead of run, for acts that open no vault here: they work through cofferd, or on files beside
	 * the vault.
	 */
	int (*kept)(const struct secret_args *a, enum vault_fault *ret_fault, struct err *e);
} acts[] = {
	[SECRET_SET] = { VAULT_FILES_WRITE | VAULT_FILES_NEW, false, 1, 2, cli_secret_set },
	[SECRET_LS] = { 0, true, 0, 0, cli_secret_ls },
	[SECRET_RM] = { VAULT_FILES_WRITE, false, 1, 1000, cli_secret_rm },
	[SECRET_ROTATE] = { VAULT_FILES_WRITE, false, 0, 2, cli_secret_rotate },
	[SECRET_CHANGE] = { VAULT_FILES_WRITE, false, 1, 1, cli_secret_change },
	[SECRET_BIND] = { VAULT_FILES_WRITE, false, 1, 1, cli_secret_bind },
	[SECRET_UNBIND] = { VAULT_FILES_WRITE, false, 1, 1, cli_secret_unbind },
	[SECRET_CHECK] = { 0, true, 0, 10000, cli_secret_check },
	[SECRET_IMPORT] = { VAULT_FILES_WRITE | VAULT_FILES_NEW, false, 1, 1, cli_secret_import },
	[SECRET_INIT] = { VAULT_FILES_WRITE | VAULT_FILES_NEW, false, 0, 0, cli_secret_init },
	[SECRET_REKEY] = { VAULT_FILES_WRITE, false, 0, 0, cli_secret_rekey },
	[SECRET_UNLOCK] = { 0, false, 0, 0, NULL, cli_secret_unlock },
	[SECRET_LOCK] = { 0, false, 0, 0, NULL, cli_secret_lock },
	[SECRET_FORGET] = { 0, false, 1, 1000, NULL, cli_secret_forget },
};

static int exit_code_of_fault(enum vault_fault f)
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

static int run_act_without_vault(const struct secret_args *a)
{
	enum vault_fault fault = VAULT_FAULT_OTHER;
	struct err e = ERR_INIT;

	if (acts[a->act].kept(a, &fault, &e) == 0)
		return 0;
	say_error(&e);
	return exit_code_of_fault(fault);
}

/*
 * Reports a new key file even when the act failed afterwards: the key file stays, and nothing would mention
 * it later.
 */
static void say_made_key(const struct secret_session *s, const struct secret_args *a, int result)
{
	if (!s->files.made_key || (a->act == SECRET_INIT && result >= 0))
		return;
	say_note("the vault's key is %s: keep a copy of it somewhere else", s->files.key_path);
	if (result >= 0)
		cli_secret_say_credential(s);
}

static int open_and_run_act(struct secret_session *s, const struct secret_args *a)
{
	struct err e = ERR_INIT;
	const struct vault_key_want *key = a->act == SECRET_REKEY ? &a->old_key : &a->key;
	int r = cli_secret_session_open(s, key, acts[a->act].flags, &e);

	if (r == -ENOENT && acts[a->act].may_miss && s->files.dir < 0 && s->proc.pid < 0 && s->st.fd >= 0) {
		e = ERR_INIT;
		r = 0;
	}
	if (r == 0)
		r = acts[a->act].run(s, a, &e);
	say_made_key(s, a, r);
	if (r >= 0)
		return r > 0 ? SECRET_EXIT_FOUND : 0;
	if (e.code)
		say_error(&e);
	return exit_code_of_fault(s->proc.fault);
}

static int run_act_with_vault(const struct secret_args *a)
{
	struct secret_session s = SECRET_SESSION_INIT;
	int code = open_and_run_act(&s, a);

	cli_secret_session_close(&s);
	/*
	 * After the session is closed, so that no other command waits for the vault while notifications are
	 * sent.
	 */
	cli_secret_tell_failed(&s.failed);
	strv_release(&s.failed);
	return code;
}

static int check_secret_args(struct secret_args *a, bool has_act, struct err *e)
{
	int r = has_act ? 0 : err_set(e, -EINVAL, "secret needs a word: set, ls, rm, rotate, bind, check …");

	if (r == 0)
		r = cli_secret_refuse_value(a, e);
	if (r == 0 && a->argc < acts[a->act].args_min)
		r = err_set(e, -EINVAL,
			    a->act == SECRET_IMPORT   ? "import needs the name of a file"
			    : a->act == SECRET_FORGET ? "forget needs the name of a home"
			    : a->act == SECRET_SET    ? "secret set needs a name: coffer secret set NAME"
						      : "no secret is named; `coffer secret ls` shows them");
	if (r == 0 && a->argc > acts[a->act].args_max)
		r = err_set(e, -EINVAL, "too many arguments");
	if (r == 0 && a->act == SECRET_ROTATE && a->due == (a->argc > 0))
		r = err_set(e, -EINVAL, "rotate needs the name of a secret, or --due");
	if (r == 0 && (a->act == SECRET_BIND) && !a->hosts.n)
		r = err_set(e, -EINVAL, "bind needs a host: --host HOST[:PORT][/PATH]");
	if (r == 0)
		r = cli_secret_check_names(a, e);
	if (r == 0)
		r = cli_secret_check_source(a, e);
	return r < 0 ? r : cli_secret_check_key(a, e);
}

/* Options may come before, between and after the other words. Returns 1 for --help. */
static int parse_secret_args(struct secret_args *a, int argc, char **argv, struct err *e)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, secret_opts, ARRAY_SIZE(secret_opts));
	const char *value, *act;
	int id, r;

	while ((id = opt_next(&p, &value, e)) > 0) {
		if (id == OPT_HELP)
			return 1;
		r = cli_secret_take_option(a, id, value, e);
		if (r < 0)
			return r;
	}
	if (id < 0)
		return id;
	act = opt_take(&p);
	r = act ? opt_action("secret", act, act_names, e) : 0;
	if (r < 0)
		return r;
	a->act = (enum secret_act)r;
	a->argc = p.argc - p.index;
	a->argv = p.argv + p.index;
	return check_secret_args(a, act != NULL, e);
}

static int cmd_secret(int argc, char **argv)
{
	struct secret_args a = { .key = VAULT_KEY_WANT_INIT, .old_key = VAULT_KEY_WANT_INIT };
	struct err e = ERR_INIT;
	int r = parse_secret_args(&a, argc, argv, &e), code;

	if (r == 0)
		r = cli_secret_check_bindings(&a, &e);
	/* Checked first, so that no vault and key are created for a value that cannot be read. */
	if (r == 0 && a.act == SECRET_SET && cli_secret_check_origin(&a, &e) < 0) {
		code = say_error(&e);
		goto out;
	}
	code = r == 1		  ? verb_print_help(&verb_secret)
	       : r < 0		  ? say_usage(&verb_secret, &e)
	       : acts[a.act].kept ? run_act_without_vault(&a)
				  : run_act_with_vault(&a);
out:
	strv_release(&a.hosts);
	strv_release(&a.known);
	strv_release(&a.known_files);
	return code;
}

const struct verb verb_secret = {
	.name = "secret",
	.group = VERB_HOST,
	.synopsis = "set|rotate|rm|(un)bind|change|forget NAME | ls|check|import|init|rekey|(un)lock",
	.help = "keys and tokens that a sandbox uses and never sees",
	.opts = secret_opts,
	.n_opts = ARRAY_SIZE(secret_opts),
	.run = cmd_secret,
	.args = "path",
	.text = "The vault is a sealed file that only the process *coffer-vault* opens. *set* stores a "
		"value: typed without echo, from standard input (*-*), from a file, or from the output "
		"of a command; never from the command line. One line break at the end is dropped. "
		"*rotate* replaces the value and keeps its bindings. *change* sets when a secret "
		"expires, or how often a command rotates it; *rotate --due* rotates all secrets that "
		"are due, and is called by *cofferd* or by the timer coffer-rotate. A command has 60 "
		"seconds. *rm* removes a secret. *ls* shows names, bindings and dates, never a value.\n"
		"\n"
		"*bind* defines where a secret may be sent: to one exact host, on one port (443 by "
		"default), below one path, in one place of the request. Wildcards and public suffixes "
		"are refused. Without *--as* the secret is sent in the form that the host is known to "
		"expect, otherwise as bearer. A sandbox that uses the secret (*coffer run --secret "
		"NAME*) has a placeholder of the same shape, which is replaced by the real value in "
		"requests to that host.\n"
		"\n"
		"*--as ssh* is for a private key (unencrypted; ed25519, ECDSA P-256, RSA). The key "
		"never leaves the vault: programs in a sandbox find an ssh-agent, and the vault signs "
		"logins at that host (port 22). The host's own key must be known: *--known-hosts*, "
		"*--known-host*. With *--user git* it signs for that user only. *ssh:sshsig* also "
		"signs git commits; *ssh:unbound* also signs for programs that do not tell the agent "
		"which host they connect to. With *--ask* a person is asked before each signature "
		"(*coffer ask*).\n"
		"\n"
		"*check* lists secrets that have expired or soon will, that have no binding, or that "
		"are weak. It also searches each PATH for secrets of the vault in any encoding, and "
		"for text that looks like a well-known token. *import* stores the values of a .env "
		"file that look like secrets.\n"
		"\n"
		"The vault's key is a file that only its owner may read, created at first use: "
		"_~/.config/cofferdam/vault.key_, for root _/etc/cofferdam/vault.key_. *init* and "
		"*rekey* select another key: a file, a systemd credential, or a passphrase.\n"
		"\n"
		"With a passphrase, *unlock* asks for it once, and *cofferd* (coffer-gateway(1)) keeps "
		"the vault open for all sandboxes, including restarted ones, until *lock*, or until "
		"cofferd ends. *coffer gateway status* shows whether the vault is open.\n"
		"\n"
		"Credentials that servers issue to a sandbox (*capture:* in a policy, *--allow "
		"@claude-login*) are kept, sealed, for its named home (*coffer run --home*). *ls* "
		"lists the homes that have some; *forget* HOME removes them, with the placeholders "
		"that programs of that home may have saved.\n"
		"\n"
		"Exit codes: 1 check found something, 2 wrong command line, 10 wrong key, 11 wrong "
		"passphrase, 12 the vault file was changed, 13 it is cut off, 14 it is not a vault "
		"file, 15 no such secret, 16 the secret already exists, 17 the value is refused, 18 "
		"the disk is full, 125 anything else.",
	.examples = "coffer secret set github --host api.github.com --as bearer\n"
		    "\t# typed, without echo\n"
		    "pass show openai | coffer secret set openai - --expires 90d\n"
		    "\t# from another program\n"
		    "coffer secret bind openai --host api.openai.com/v1\n"
		    "coffer secret rotate registry --command 'aws ecr get-login-password' --every 10h\n"
		    "\t# and again every ten hours, by cofferd or the timer coffer-rotate\n"
		    "coffer secret check src\n"
		    "\t# is one of them in these files?\n",
};
