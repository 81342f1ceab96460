/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer ui: prints an address for the browser, with a code that is valid once. The code must not be stored:
 * cofferd gets only its hash.
 */
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
	{ "role", 0, "ROLE", "observer, approver or operator (default: operator)", OPT_ROLE,
	  "observer approver operator" },
	{ "name", 0, "NAME", "the person's name, for the log (default: page)", OPT_NAME },
	{ "listen", 0, "ADDRESS", "where to listen if the gateway does not yet (default: 127.0.0.1:8787)",
	  OPT_LISTEN },
};

/* Gets the address that cofferd listens on: `want` if it is one of several, else the first; "" if there is none. */
static int find_listen_address(struct state *st, struct webctl *c, const char *want, char ret[72],
			       struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	const char *s;
	json_t *o, *list;
	int r = cofferd_web(st, c, &b, e);

	if (r < 0)
		return r;
	o = json_loadb(buf_cstr(&b), b.len, 0, NULL);
	list = json_object_get(o, "listen");
	s = json_string_value(json_array_get(list, 0));
	for (size_t i = 1; want && i < json_array_size(list) && !str_eq(s, want); i++)
		s = str_eq(json_string_value(json_array_get(list, i)), want) ? want : s;
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
			snprintf(c.listen, sizeof(c.listen), "%s", listen);
		else
			snprintf(c.listen, sizeof(c.listen), "127.0.0.1:%u", PORT_FIRST + i);
		r = find_listen_address(st, &c, c.listen, ret, e);
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

	if (find_listen_address(st, &c, listen, at, &e) < 0)
		return say_error(&e);
	if (listen && at[0] && !str_eq(listen, at)) {
		err_set(&e, -EALREADY, "the gateway listens on %s already", at);
		err_hint(&e, -EALREADY, "coffer gateway start --listen %s (adds an address)", listen);
		return say_error(&e);
	}
	if (!at[0] && listen_on_free_port(st, listen, at, &e) < 0)
		return e.code == -EINVAL ? say_usage(&verb_ui, &e) : say_error(&e);
	c = (struct webctl){ .op = WEBCTL_LOGIN, .role = role };
	snprintf(c.name, sizeof(c.name), "%s", name);
	if (web_secret_new("", &code, c.hash, &e) < 0 || find_listen_address(st, &c, listen, at, &e) < 0)
		return say_error(&e);
	buf_addf(&out, "http://%s/#login=%s\n", at, buf_cstr(&code));
	say_note("open this within two minutes; it works once");
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
			return say_usage(&verb_ui,
					 (err_set(&e, -EINVAL, "'%.64s' is not a valid name", name), &e));
		if (role < 0)
			return say_usage(&verb_ui,
					 (err_set(&e, -EINVAL, "there is no role '%.40s'", value), &e));
		if (listen && strlen(listen) >= sizeof((struct webctl){ 0 }.listen)) {
			err_set(&e, -EINVAL, "--listen takes an address, and '%.64s…' is too long for one",
				listen);
			return say_usage(&verb_ui, &e);
		}
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
	.help = "print an address that opens the page in a browser",
	.opts = ui_opts,
	.n_opts = ARRAY_SIZE(ui_opts),
	.run = cmd_ui,
	.text = "Prints an address with a code that works once, within two minutes. The page exchanges "
		"the code for a session of twelve hours, which belongs to the browser tab that opened "
		"it. *coffer token ls* shows sessions, *coffer token rm page* ends them. If the "
		"gateway does not listen on an address yet, this command makes it listen: on "
		"127.0.0.1:8787, or on the next free port if that is taken.\n"
		"\n"
		"The page shows pending questions and takes answers to them, sandboxes and the "
		"resources that they use, live network traffic, policies, the audit log and the result "
		"of its verification, and the timeline of each run. Text that comes from a sandbox is "
		"shown as a quotation. " DOCS_UI " describes the page.",
	.examples = "coffer ui\n"
		    "coffer ui --role approver --name ann      # may answer questions, and no more\n",
};
