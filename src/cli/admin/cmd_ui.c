/* SPDX-License-Identifier: Apache-2.0 */
/* coffer ui: prints an address for the browser, with a code that is valid once. */
#include "base/cleanup.h"
#include "base/str.h"
#include "cli/core/docs.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"
#include "cofferdc/cofferd_client.h"
#include "daemon/broker/webd.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>

enum { OPT_ROLE = 1, OPT_NAME, OPT_LISTEN };

static const struct opt ui_opts[] = {
	{ "role", 0, "ROLE", "observer, approver or operator (operator)", OPT_ROLE,
	  "observer approver operator" },
	{ "name", 0, "NAME", "who it is for: what the log says beside answers (page)", OPT_NAME },
	{ "listen", 0, "ADDRESS", "where to listen when the gateway does not yet (127.0.0.1:8787)",
	  OPT_LISTEN },
};

/* Gets the first address that cofferd listens on; "" if there is none. */
static int find_listen_address(struct state *st, struct webctl *c, char ret[72], struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	const char *s;
	json_t *o;
	int r = cofferd_web(st, c, &b, e);

	if (r < 0)
		return r;
	o = json_loadb(buf_cstr(&b), b.len, 0, NULL);
	s = json_string_value(json_array_get(json_object_get(o, "listen"), 0));
	snprintf(ret, 72, "%s", s ? s : "");
	json_decref(o);
	return 0;
}

#define PORT_FIRST 8787
#define PORT_TRIES 20

/*
 * If no address was named and the default port is taken, for instance by another user's gateway, tries the
 * next ports. A named address is used as it is, or fails.
 */
static int listen_on_free_port(struct state *st, const char *listen, char ret[72], struct err *e)
{
	struct webctl c = { .op = WEBCTL_LISTEN };
	int r = -EADDRINUSE;

	for (unsigned i = 0; r == -EADDRINUSE && i < (listen ? 1 : PORT_TRIES); i++) {
		*e = ERR_INIT;
		if (listen)
			snprintf(c.listen, sizeof(c.listen), "%.71s", listen);
		else
			snprintf(c.listen, sizeof(c.listen), "127.0.0.1:%u", PORT_FIRST + i);
		r = find_listen_address(st, &c, ret, e);
		if (r == 0 && i)
			say_note(
				"port %d is taken, perhaps by the gateway of another user: this one listens on %s",
				PORT_FIRST, ret);
	}
	return r == -EADDRINUSE ? err_hint(e, r, "coffer ui --listen 127.0.0.1:PORT") : r;
}

static int show_address(struct state *st, enum web_role role, const char *name, const char *listen)
{
	autobuf struct buf code = { .wipe = true }, out = { .wipe = true };
	struct webctl c = { .op = WEBCTL_WHERE };
	struct err e = ERR_INIT;
	char at[72] = "";

	if (find_listen_address(st, &c, at, &e) < 0)
		return say_error(&e);
	if (!at[0] && listen_on_free_port(st, listen, at, &e) < 0)
		return e.code == -EINVAL ? say_usage(&verb_ui, &e) : say_error(&e);
	c = (struct webctl){ .op = WEBCTL_LOGIN, .role = role };
	snprintf(c.name, sizeof(c.name), "%.63s", name);
	if (web_secret_new("", &code, c.hash, &e) < 0 || find_listen_address(st, &c, at, &e) < 0)
		return say_error(&e);
	buf_addf(&out, "http://%s/#login=%s\n", at, buf_cstr(&code));
	say_note("open this within two minutes; it is good once");
	return say_out(&out);
}

static int cmd_ui(int argc, char **argv)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, ui_opts, ARRAY_SIZE(ui_opts));
	CLEANUP(state_release) struct state st = STATE_INIT;
	const char *value, *name = "page", *listen = NULL;
	struct err e = ERR_INIT;
	int id, role = WEB_OPERATOR;

	while ((id = opt_next(&p, &value, &e)) > 0) {
		if (id == OPT_HELP)
			return verb_print_help(&verb_ui);
		if (id == OPT_LISTEN)
			listen = value;
		else if (id == OPT_NAME)
			name = value;
		else
			role = web_role_parse(value);
		if (!str_is_name(name))
			return say_usage(&verb_ui, (err_set(&e, -EINVAL, "'%.64s' is no name", name), &e));
		if (role < 0)
			return say_usage(&verb_ui,
					 (err_set(&e, -EINVAL, "there is no role '%.40s'", value), &e));
	}
	if (id < 0 || p.index < p.argc)
		return say_usage(&verb_ui, id < 0 ? &e : (err_set(&e, -EINVAL, "ui takes no arguments"), &e));
	if (state_open(&st, &e) < 0)
		return say_error(&e);
	return show_address(&st, (enum web_role)role, name, listen);
}

const struct verb verb_ui = {
	.name = "ui",
	.group = VERB_MANAGE,
	.synopsis = "[OPTIONS]",
	.help = "the page: an address to open in a browser",
	.opts = ui_opts,
	.n_opts = ARRAY_SIZE(ui_opts),
	.run = cmd_ui,
	.text = "Prints an address with a code that is good once, for two minutes. The page exchanges it for a session of twelve "
		"hours, for the tab that it is opened in. *coffer token ls* shows sessions, *coffer token "
		"rm page* ends them. Where the gateway does not listen on an address yet, it does from then on: on 127.0.0.1:8787, or on the "
		"next free port when that is taken.\n"
		"\n"
		"The page shows questions that wait and takes answers to them, sandboxes with what they use, the network as it is used, policies, "
		"the audit log and whether it verifies, and each run from its start to its end. What came from a sandbox stands there "
		"as a quotation. " DOCS_UI " says more.",
	.examples = "coffer ui\n"
		    "coffer ui --role approver --name ann      # may answer questions, and no more\n",
};
