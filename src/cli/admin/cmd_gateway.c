/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer gateway: starts, stops, reloads and inspects cofferd, the daemon that maintains the warm pool and
 * restarts sandboxes. No sandbox depends on cofferd, so none of this affects a running one.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "cli/core/say.h"
#include "cli/core/table.h"
#include "cli/core/verb.h"
#include "cofferdc/cofferd_client.h"
#include "daemon/broker/webd.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { OPT_JSON = 1, OPT_LISTEN, OPT_PUBLIC, OPT_HOST };

static const struct opt gateway_opts[] = {
	{ "listen", 0, "ADDRESS", "with start: also serve API and page there, as in 127.0.0.1:8787",
	  OPT_LISTEN },
	{ "host", 0, "NAME", "with --listen: another host name in requests (that of a proxy)", OPT_HOST },
	{ "public", 0, NULL, "with --listen: also on an address that the whole network can reach",
	  OPT_PUBLIC },
	{ "json", 0, NULL, "with status: print one JSON object", OPT_JSON },
};

#define WORDS "start stop status reload run"
#define LISTEN_FILE_MAX 65536
#define NOT_RUNNING 3 /* exit code of status, as systemctl(1) has it */

static void add_vault_status(const json_t *v, struct buf *out)
{
	long long n = jsonget_i64(v, "sandboxes");

	buf_addf(out, "  vault: %s", jsonget_text(v, "state"));
	if (jsonget_bool(v, "running"))
		buf_addf(out, ", used by %lld sandbox%s, pid %lld", n, n == 1 ? "" : "es",
			 jsonget_i64(v, "pid"));
	else if (str_eq(jsonget_text(v, "state"), "locked"))
		buf_adds(out, "; coffer secret unlock asks for its passphrase");
	else if (str_eq(jsonget_text(v, "state"), "unlocked"))
		buf_adds(out, " by its key, not in use");
	if (*jsonget_text(v, "why"))
		buf_addf(out, "; down: %s", jsonget_text(v, "why"));
	buf_addc(out, '\n');
}

/* Adds the secrets that are due for rotation or expire soon; nothing if there are none. */
static void add_secret_dates(const json_t *o, struct buf *out)
{
	const json_t *rotation = json_object_get(o, "rotation"), *list = json_object_get(o, "expiring");

	if (jsonget_bool(rotation, "locked"))
		buf_adds(
			out,
			"  a secret is due for rotation, and the vault has a passphrase: coffer secret rotate --due\n");
	else if (*jsonget_text(rotation, "next"))
		buf_addf(out, "  rotation of secrets: %s %.16s\n",
			 jsonget_bool(rotation, "running") ? "under way, due since" : "next on",
			 jsonget_text(rotation, "next"));
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *x = json_array_get(list, i);

		buf_addf(out, "  the secret '%s' %s on %.10s: coffer secret rotate %s --expires DATE\n",
			 jsonget_text(x, "secret"), jsonget_bool(x, "expired") ? "has expired" : "expires",
			 jsonget_text(x, "expires"), jsonget_text(x, "secret"));
	}
}

static void add_cofferd_status(const json_t *o, struct buf *out)
{
	char span[CLOCK_TEXT_LEN], size[16];
	const json_t *pool = json_object_get(o, "pool"), *db = json_object_get(o, "database");

	buf_addf(out, "cofferd %s, pid %lld, up %s, %s\n", jsonget_text(o, "version"), jsonget_i64(o, "pid"),
		 clock_span(jsonget_u64(o, "uptime_s") * NSEC_PER_SEC, span),
		 jsonget_bool(o, "stays") ? "stays until it is stopped" : "exits when idle");
	if (jsonget_bool(o, "replaced"))
		buf_adds(out, "  coffer was replaced since it was started: coffer gateway reload\n");
	buf_addf(out, "  pool: %lld ready, %lld being made, about %s\n", jsonget_i64(pool, "ready"),
		 jsonget_i64(pool, "starting"), str_from_size(jsonget_u64(pool, "bytes"), size));
	add_vault_status(json_object_get(o, "vault"), out);
	add_secret_dates(o, out);
	if (json_is_object(db))
		buf_addf(out, "  %lld start%s, %lld unclean; schema %lld\n", jsonget_i64(db, "starts"),
			 jsonget_i64(db, "starts") == 1 ? "" : "s", jsonget_i64(db, "crashes"),
			 jsonget_i64(db, "schema"));
	if (*jsonget_text(db, "kept_copy"))
		buf_addf(
			out,
			"  the database was brought forward from schema %lld; %s is a copy of it as it was\n",
			jsonget_i64(db, "from_schema"), jsonget_text(db, "kept_copy"));
	if (*jsonget_text(db, "moved_aside"))
		buf_addf(out, "  a damaged database was moved to %s: history and back-off are lost\n",
			 jsonget_text(db, "moved_aside"));
	if (*jsonget_text(db, "trouble"))
		buf_addf(out, "  not saved: %s\n", jsonget_text(db, "trouble"));
	if (*jsonget_text(o, "trouble"))
		buf_addf(out, "  keeps no sandboxes: %s\n", jsonget_text(o, "trouble"));
}

static int add_kept_sandbox_row(struct table *t, const json_t *x)
{
	char restarts[32], last[64] = "-";
	int r;

	snprintf(restarts, sizeof(restarts), "%lld", jsonget_i64(x, "restarts"));
	if (*jsonget_text(x, "cause"))
		snprintf(last, sizeof(last), "%.40s (%lld)", jsonget_text(x, "cause"),
			 jsonget_i64(x, "exit"));
	r = table_add(t, jsonget_text(x, "id"), 0);
	r = r < 0 ? r : table_add(t, jsonget_text(x, "name"), 24);
	r = r < 0 ? r : table_add(t, jsonget_text(x, "restart"), 0);
	r = r < 0 ? r : table_add(t, jsonget_text(x, "state"), 0);
	r = r < 0 ? r : table_add(t, restarts, 0);
	r = r < 0 ? r : table_add(t, last, 0);
	return r < 0 ? r : table_add(t, jsonget_text(x, "why"), 60);
}

/*
 * Adds the addresses on which cofferd serves the API and the page, besides its socket. The file keeps them
 * for the next cofferd; this one listens on the same.
 */
static void add_listen_addresses(const struct state *st, struct buf *out)
{
	autobuf struct buf b = BUF_INIT;
	char *rest = NULL;

	if (fd_read_file(st->fd, WEBD_FILE, LISTEN_FILE_MAX, &b) < 0)
		return;
	buf_addc(&b, '\0');
	/* A line is "ADDRESS -|public -|NAME". */
	for (const char *w = buf_error(&b) ? NULL : strtok_r(b.data, "\n", &rest); w;
	     w = strtok_r(NULL, "\n", &rest))
		buf_addf(out, "  page and API: %.*s (coffer ui)\n", (int)strcspn(w, " "), w);
}

static int format_status(const struct state *st, const json_t *o, struct buf *out)
{
	static const char *const heads[] = {
		"ID", "NAME", "RESTART", "STATE", "RESTARTS", "LAST END", "WHY"
	};
	autotable struct table t = TABLE_INIT(ARRAY_SIZE(heads));
	const json_t *list = json_object_get(o, "sandboxes"), *helpers = json_object_get(o, "helpers");
	int r = 0;

	add_cofferd_status(o, out);
	add_listen_addresses(st, out);
	for (size_t i = 0; i < json_array_size(helpers); i++) {
		const json_t *h = json_array_get(helpers, i);

		buf_addf(out, "  %s died %lld time%s: %s\n", jsonget_text(h, "name"),
			 jsonget_i64(h, "deaths"), jsonget_i64(h, "deaths") == 1 ? "" : "s",
			 jsonget_text(h, "why"));
	}
	if (json_array_size(list) == 0)
		return 0;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(heads); i++)
		r = table_add(&t, heads[i], 0);
	for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
		r = add_kept_sandbox_row(&t, json_array_get(list, i));
	if (r == 0)
		table_format(&t, out);
	return r;
}

static int show_status(struct state *st, bool as_json)
{
	autobuf struct buf b = BUF_INIT, out = BUF_INIT;
	struct err e = ERR_INIT;
	json_t *o;
	int r = cofferd_status(st, &b, &e);

	if (r == -ECONNREFUSED) {
		if (as_json)
			printf("{\"pid\":null}\n");
		else
			printf("cofferd does not run; coffer gateway start starts it\n");
		return fflush(stdout) == 0 ? NOT_RUNNING : EXIT_OURS;
	}
	if (r < 0)
		return say_error(&e);
	if (as_json)
		return say_out(&b);
	o = json_loadb(buf_cstr(&b), b.len, 0, NULL);
	r = o ? format_status(st, o, &out) : -EBADMSG;
	json_decref(o);
	if (r < 0)
		return say_error((err_sys(&e, r, "cannot read the status that cofferd sent"), &e));
	return say_out(&out);
}

static int say_reply_error(const struct cofferd_reply *reply)
{
	struct err e = ERR_INIT;

	err_set(&e, reply->error, "%s", reply->why);
	return say_error(&e);
}

static int start_gateway(struct state *st)
{
	struct cofferd_reply reply;
	struct err e = ERR_INIT;
	int r = cofferd_ask(st, COFFERD_STAY, &reply);

	if (r == 0 && !reply.leaves) {
		if (reply.error)
			return say_reply_error(&reply);
		say_note("cofferd runs already, pid %u", reply.pid);
		return 0;
	}
	if (r < 0 && r != -ECONNREFUSED)
		return say_error((err_sys(&e, r, "cofferd does not respond"), &e));
	return cofferd_launch(st, true, &e) < 0 ? say_error(&e) : 0;
}

#define LEAVE_MS 25000
#define LEAVE_STEP_MS 10

/* Waits until cofferd `pid` no longer responds, or another one does. False: timeout. */
static bool wait_until_exited(struct state *st, uint32_t pid)
{
	struct cofferd_reply reply = { 0 };

	for (int ms = 0; ms < LEAVE_MS; ms += LEAVE_STEP_MS) {
		int r = cofferd_ask(st, COFFERD_STAT, &reply);

		if (r == -ECONNREFUSED || (r == 0 && reply.pid != pid))
			return true;
		nanosleep(&(struct timespec){ .tv_nsec = LEAVE_STEP_MS * (long)NSEC_PER_MSEC }, NULL);
	}
	return false;
}

/*
 * Stops or reloads cofferd. If coffer was replaced, a reload starts a new cofferd, which finds all
 * sandboxes again.
 */
static int stop_or_reload(struct state *st, enum cofferd_want want)
{
	struct cofferd_reply reply;
	struct err e = ERR_INIT;
	int r = cofferd_tell(st, want, &reply);

	if (r == -ECONNREFUSED) {
		say_note("cofferd does not run");
		return want == COFFERD_STOP ? 0 : NOT_RUNNING;
	}
	if (r < 0)
		return say_error((err_sys(&e, r, "cofferd does not respond"), &e));
	if (reply.error)
		return say_reply_error(&reply);
	if (!reply.leaves)
		return 0;
	if (!wait_until_exited(st, reply.pid))
		return say_error((err_set(&e, -ETIMEDOUT, "cofferd was told to exit, but has not yet"), &e));
	if (want == COFFERD_STOP)
		return 0;
	return cofferd_launch(st, reply.stays, &e) < 0 ? say_error(&e) : 0;
}

static int start_and_listen(struct state *st, const struct webctl *ctl)
{
	autobuf struct buf b = BUF_INIT;
	struct err e = ERR_INIT;
	int r = start_gateway(st);

	if (r || !ctl->listen[0])
		return r;
	if (cofferd_web(st, ctl, &b, &e) < 0)
		return say_error(&e);
	say_note("page and API: %s (coffer ui)", ctl->listen);
	return 0;
}

static int run_gateway_action(const char *word, bool as_json, const struct webctl *ctl)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	struct err e = ERR_INIT;

	if (state_open(&st, &e) < 0)
		return say_error(&e);
	if (str_eq(word, "start"))
		return start_and_listen(&st, ctl);
	if (str_eq(word, "stop"))
		return stop_or_reload(&st, COFFERD_STOP);
	if (str_eq(word, "reload"))
		return stop_or_reload(&st, COFFERD_RELOAD);
	if (str_eq(word, "run"))
		return cofferd_exec(&st, &e) < 0 ? say_error(&e) : EXIT_OURS;
	return show_status(&st, as_json);
}

/* Takes the options that describe the address to listen on. A text that does not fit is refused: cut, it is another name. */
static int take_listen_option(struct webctl *ctl, int id, const char *value, struct err *e)
{
	ctl->is_public |= id == OPT_PUBLIC;
	if (id == OPT_LISTEN &&
	    (size_t)snprintf(ctl->listen, sizeof(ctl->listen), "%s", value) >= sizeof(ctl->listen))
		return err_set(e, -EINVAL, "--listen takes an address, and '%.64s…' is too long for one",
			       value);
	if (id == OPT_HOST &&
	    (size_t)snprintf(ctl->hosts, sizeof(ctl->hosts), "%s", value) >= sizeof(ctl->hosts))
		return err_set(e, -EINVAL, "--host takes a name, and '%.64s…' is too long for one", value);
	return 0;
}

static int check_gateway_args(const char *word, bool as_json, const struct webctl *ctl, struct err *e)
{
	int r = opt_action("gateway", word, WORDS, e);

	if (r < 0)
		return r;
	if (as_json && !str_eq(word, "status"))
		return err_set(e, -EINVAL, "--json is only valid with status");
	if ((ctl->listen[0] || ctl->is_public || ctl->hosts[0]) && !str_eq(word, "start"))
		return err_set(e, -EINVAL, "--listen is only valid with start");
	return 0;
}

static int cmd_gateway(int argc, char **argv)
{
	struct optparse p = OPTPARSE_INIT(argc, argv, gateway_opts, ARRAY_SIZE(gateway_opts));
	struct err e = ERR_INIT;
	const char *value, *word = NULL, *next;
	struct webctl ctl = { .op = WEBCTL_LISTEN };
	bool as_json = false;
	int id;

	for (;;) {
		while ((id = opt_next(&p, &value, &e)) > 0) {
			if (id == OPT_HELP)
				return verb_print_help(&verb_gateway);
			as_json = as_json || id == OPT_JSON;
			if (take_listen_option(&ctl, id, value, &e) < 0)
				return say_usage(&verb_gateway, &e);
		}
		next = id < 0 ? NULL : opt_take(&p);
		if (!next)
			break;
		if (word)
			return say_usage(&verb_gateway,
					 (err_set(&e, -EINVAL, "gateway takes one action"), &e));
		word = next;
	}
	if (id == 0 && !word)
		id = err_set(&e, -EINVAL, "gateway needs one of these words: " WORDS);
	if (id < 0 || !word)
		return say_usage(&verb_gateway, &e);
	if (check_gateway_args(word, as_json, &ctl, &e) < 0)
		return say_usage(&verb_gateway, &e);
	return run_gateway_action(word, as_json, &ctl);
}

const struct verb verb_gateway = {
	.name = "gateway",
	.group = VERB_MANAGE,
	.synopsis = "start|stop|status|reload|run [OPTIONS]",
	.help = "control the daemon that keeps sandboxes ready and restarts them",
	.opts = gateway_opts,
	.n_opts = ARRAY_SIZE(gateway_opts),
	.run = cmd_gateway,
	.text = "*cofferd* keeps sandboxes ready for coffer-call(1), and restarts sandboxes with a "
		"restart policy (*coffer run --restart*). It is started when it is needed, and exits "
		"when it has nothing to do. No sandbox depends on it: it may be stopped, killed or "
		"replaced at any time, and the next cofferd finds all sandboxes again.\n"
		"\n"
		"*start* starts a cofferd that runs until it is stopped, or makes the running one "
		"stay. *stop* ends it; sandboxes continue to run, except those in the warm pool. "
		"*status* shows what it does, and exits with 3 if it does not run. *reload* makes it "
		"check all of its sandboxes and files again; if coffer was replaced by another "
		"version, a new cofferd takes over. *run* is for service managers: it becomes cofferd "
		"in the foreground, accepts a socket from the service manager (LISTEN_FDS), and "
		"reports when it is ready (NOTIFY_SOCKET).\n"
		"\n"
		"While it runs, it serves an HTTP API on *api.sock* in the state directory, and with "
		"*--listen* also on an address, for clients with a token (coffer-token(1)) or a "
		"session (coffer-ui(1)). An address that the whole network can reach needs *--public*, "
		"because the API has no encryption of its own.\n"
		"\n"
		"Units for systemd are installed. For a user: *systemctl --user enable --now "
		"cofferd.socket cofferd.service*, and *loginctl enable-linger* to start it at boot; "
		"for root: *systemctl enable --now cofferd.socket cofferd.service*.",
	.examples = "coffer gateway start\n"
		    "coffer gateway status --json\n",
};
