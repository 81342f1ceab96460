/* SPDX-License-Identifier: Apache-2.0 */
/* Reads notify.yaml, the list of notification targets (notify_file.h). Sends nothing. */

#include "config/notify_file.h"

#include "base/cleanup.h"
#include "codec/http/urlpath.h"
#include "config/config_owner.h"
#include "config/read.h"

#include <assert.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const kinds[] = {
	[NOTIFY_COMMAND] = "command", [NOTIFY_WEBHOOK] = "webhook", [NOTIFY_MATRIX] = "matrix"
};
static_assert(ARRAY_SIZE(kinds) == NOTIFY_KIND_COUNT, "a name for each");

const char *config_notify_kind_name(enum notify_kind k)
{
	return kinds[k];
}

void config_notify_release(struct notify_conf *c)
{
	for (size_t i = 0; i < c->n; i++) {
		strv_release(&c->targets[i].argv);
		free(c->targets[i].secret_file);
		free(c->targets[i].ca);
	}
	*c = NOTIFY_CONF_INIT;
}

/* https://HOST[:PORT][/path]: only encrypted, because the contents are not for listeners on the way. */
static int notify_set_url(struct source *s, const struct ynode *n, struct notify_target *t)
{
	autobuf struct buf path = BUF_INIT;
	const char *text = "", *rest;
	struct urlpath u;
	size_t len;
	int r = read_text(s, n, "a URL: https://hooks.example.com/coffer", &text);

	if (r < 0)
		return r;
	if (!str_starts(text, "https://"))
		return read_fail(s, n, "expected a URL that begins with https://");
	text += strlen("https://");
	len = strcspn(text, "/?#");
	if (memchr(text, '@', len) || strchr(text, '#'))
		return read_fail(
			s, n,
			"a URL with a user or a fragment in it is refused; a credential is named by 'secret'");
	r = read_wrap(s, n, host_port_parse(text, len, 443, &t->host, &t->port, s->e));
	if (r < 0)
		return r;
	rest = text[len] == '/' ? text + len : "/";
	if (text[len] == '?')
		return read_fail(s, n, "expected a path before the '?'");
	r = read_wrap(s, n, urlpath_canon(rest, strlen(rest), URLPATH_KEEP_SLASH, &path, &u, s->e));
	if (r < 0)
		return r;
	if (path.len > NOTIFY_PATH_MAX)
		return read_fail(s, n, "a URL's path has at most %d bytes", NOTIFY_PATH_MAX);
	memcpy(t->path, buf_cstr(&path), path.len + 1);
	return 0;
}

static int notify_key_url(struct source *s, const struct ynode *n, void *to)
{
	return notify_set_url(s, n, to);
}

/* The path of a homeserver is only a prefix. */
static int notify_key_homeserver(struct source *s, const struct ynode *n, void *to)
{
	struct notify_target *t = to;
	int r = notify_set_url(s, n, t);
	size_t len = strlen(t->path);

	if (r == 0 && strchr(t->path, '?'))
		return read_fail(s, n, "a homeserver's URL has no query");
	if (r == 0 && len && t->path[len - 1] == '/')
		t->path[len - 1] = '\0';
	return r;
}

static int notify_key_room(struct source *s, const struct ynode *n, void *to)
{
	struct notify_target *t = to;
	const char *text = "";
	int r = read_text(s, n, "a room's id: !abc:example.org", &text);

	if (r < 0)
		return r;
	if (text[0] != '!' || strlen(text) > NOTIFY_ROOM_MAX || text[strcspn(text, " \t/?#%\\")] != '\0')
		return read_fail(s, n, "expected a room's id (!abc:example.org), not its name");
	snprintf(t->room, sizeof(t->room), "%s", text);
	return 0;
}

static int notify_key_secret(struct source *s, const struct ynode *n, void *to)
{
	return read_name(s, n, ((struct notify_target *)to)->secret,
			 sizeof(((struct notify_target *)to)->secret));
}

static int notify_key_secret_file(struct source *s, const struct ynode *n, void *to)
{
	return read_path(s, n, &((struct notify_target *)to)->secret_file);
}

static int notify_key_ca(struct source *s, const struct ynode *n, void *to)
{
	return read_path(s, n, &((struct notify_target *)to)->ca);
}

/* `to:`, the only address that is dialled. */
static int notify_key_to(struct source *s, const struct ynode *n, void *to)
{
	struct notify_target *t = to;
	const char *text = "";
	struct host h;
	uint16_t port = 0;
	int r = read_text(s, n, "an address: 10.1.2.3, or 10.1.2.3:8443", &text);

	if (r < 0)
		return r;
	r = host_port_parse(text, strlen(text), HOST_PORT_OPTIONAL, &h, &port, NULL);
	if (r < 0 || h.kind != HOST_ADDR)
		return read_fail(s, n, "expected an address: 10.1.2.3, or 10.1.2.3:8443");
	t->has_pin = true;
	t->pin = h.addr;
	t->pin_port = port;
	return 0;
}

#define KEYS_OF_BOTH                                                                                         \
	{ "secret", notify_key_secret }, { "secret_file", notify_key_secret_file }, { "ca", notify_key_ca }, \
	{                                                                                                    \
		"to", notify_key_to                                                                          \
	}

/* Checks the settings that webhook and matrix share: an address, and one source of the secret. */
static int check_http_target(struct source *s, const struct ynode *n, struct notify_target *t,
			     const char *what, bool needs_secret)
{
	if (!t->host.len)
		return read_fail(s, n, "%s has no '%s'", what,
				 t->kind == NOTIFY_MATRIX ? "homeserver" : "url");
	if (t->secret[0] && t->secret_file)
		return read_fail(s, n, "expected either 'secret' or 'secret_file', not both");
	if (needs_secret && !t->secret[0] && !t->secret_file)
		return read_fail(s, n, "%s has no 'secret': the name of one in the vault, or 'secret_file'",
				 what);
	if (t->has_pin && !t->pin_port)
		t->pin_port = t->port;
	return 0;
}

static int notify_key_webhook(struct source *s, const struct ynode *n, void *to)
{
	static const struct key keys[] = { { "url", notify_key_url }, KEYS_OF_BOTH };
	struct notify_target *t = to;
	int r = read_map(s, n, "a webhook", keys, ARRAY_SIZE(keys), t);

	return r < 0 ? r : check_http_target(s, n, t, "a webhook", true);
}

static int notify_key_matrix(struct source *s, const struct ynode *n, void *to)
{
	static const struct key keys[] = { { "homeserver", notify_key_homeserver },
					   { "room", notify_key_room },
					   KEYS_OF_BOTH };
	struct notify_target *t = to;
	int r = read_map(s, n, "matrix", keys, ARRAY_SIZE(keys), t);

	if (r == 0 && !t->room[0])
		return read_fail(s, n, "matrix has no 'room'");
	return r < 0 ? r : check_http_target(s, n, t, "matrix", true);
}

static int add_command_arg(struct source *s, const struct ynode *n, void *to)
{
	struct notify_target *t = to;
	const char *text = "";
	int r = read_text(s, n, "a program or one of its arguments", &text);

	if (r < 0)
		return r;
	if (t->argv.n == NOTIFY_ARGV_MAX)
		return read_fail(s, n, "a command has at most %d words", NOTIFY_ARGV_MAX);
	return strv_add(&t->argv, text) < 0 ? err_set(s->e, -ENOMEM, "out of memory") : 0;
}

/* Only a list: a single text would have to be split by some quoting rules. */
static int notify_key_command(struct source *s, const struct ynode *n, void *to)
{
	struct notify_target *t = to;
	int r;

	if (n->kind != YNODE_SEQ || n->n == 0)
		return read_fail(s, n, "expected a list: [program, argument, ...]");
	r = read_each(s, n, add_command_arg, t);
	if (r == 0 && !t->argv.v[0][0])
		return read_fail(s, n, "expected the name of a program");
	return r;
}

static int notify_key_name(struct source *s, const struct ynode *n, void *to)
{
	return read_name(s, n, ((struct notify_target *)to)->name,
			 sizeof(((struct notify_target *)to)->name));
}

static int notify_key_timeout(struct source *s, const struct ynode *n, void *to)
{
	int r = read_seconds(s, n, 120, &((struct notify_target *)to)->timeout);

	if (r == 0 && ((struct notify_target *)to)->timeout == 0)
		return read_fail(s, n, "expected at least a second");
	return r;
}

/* Finds the kind before the rest is read, because the other keys depend on it. */
static int find_target_kind(struct source *s, const struct ynode *n, struct notify_target *t)
{
	size_t found = 0;

	for (int k = 0; n->kind == YNODE_MAP && k < NOTIFY_KIND_COUNT; k++) {
		if (!ynode_get(n, kinds[k]))
			continue;
		t->kind = (enum notify_kind)k;
		found++;
	}
	if (found > 1)
		return read_fail(s, n, "a target is one of command, webhook and matrix, not several at once");
	return 0;
}

/* One element of `notify:`. */
static int add_notify_target(struct source *s, const struct ynode *n, void *to)
{
	static const struct key keys[] = { { "name", notify_key_name },
					   { "command", notify_key_command },
					   { "webhook", notify_key_webhook },
					   { "matrix", notify_key_matrix },
					   { "timeout", notify_key_timeout } };
	struct notify_conf *c = to;
	struct notify_target *t;
	int r;

	if (c->n == NOTIFY_TARGETS_MAX)
		return read_fail(s, n, "there are at most %d targets", NOTIFY_TARGETS_MAX);
	t = &c->targets[c->n++];
	*t = (struct notify_target){ .timeout = NOTIFY_TIMEOUT };
	r = find_target_kind(s, n, t);
	r = r < 0 ? r : read_map(s, n, "a target", keys, ARRAY_SIZE(keys), t);
	if (r == 0 && !t->argv.n && !t->host.len)
		return read_fail(s, n, "a target is one of command, webhook and matrix");
	if (r == 0 && !t->name[0])
		snprintf(t->name, sizeof(t->name), "%s-%zu", kinds[t->kind], c->n);
	for (size_t i = 0; r == 0 && i + 1 < c->n; i++) {
		if (str_eq(c->targets[i].name, t->name))
			return read_fail(s, n, "two targets have the name '%s'", t->name);
	}
	return r;
}

static int notify_key_targets(struct source *s, const struct ynode *n, void *to)
{
	if (n->kind != YNODE_SEQ)
		return read_fail(s, n, "expected a list of targets");
	return read_each(s, n, add_notify_target, to);
}

static int notify_key_version(struct source *s, const struct ynode *n, void *to)
{
	uint32_t version;

	(void)to;
	return read_u32(s, n, 1, 1, &version);
}

/* A link for people: no character that a chat or terminal could interpret. */
static int notify_key_ui(struct source *s, const struct ynode *n, void *to)
{
	static const char may[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_~/:[]";
	struct notify_conf *c = to;
	const char *text;
	int r = read_text(s, n, "the URL of the page: https://coffer.example.org/", &text);

	if (r < 0)
		return r;
	if ((!str_starts(text, "https://") && !str_starts(text, "http://")) || strlen(text) > NOTIFY_UI_MAX ||
	    strspn(text, may) != strlen(text))
		return read_fail(s, n,
				 "expected the URL of the page, without a user, query or fragment: "
				 "https://coffer.example.org/");
	snprintf(c->ui, sizeof(c->ui), "%s", text);
	return 0;
}

int config_notify_parse(struct notify_conf *ret, const char *name, const char *dir, const char *text,
			size_t len, struct err *e)
{
	static const struct key keys[] = { { "version", notify_key_version },
					   { "ui", notify_key_ui },
					   { "notify", notify_key_targets } };
	CLEANUP(ynode_freep) struct ynode *root = NULL;
	struct notify_conf c = NOTIFY_CONF_INIT;
	struct source s = { .name = name, .dir = dir, .e = e };
	int r = ytree_parse(name, text, len, &root, e);

	if (r == 0)
		r = read_map(&s, root, "the file", keys, ARRAY_SIZE(keys), &c);
	if (r == 0 && !ynode_get(root, "version"))
		r = err_set(e, -EINVAL, "%s: the file must begin with 'version: 1'", name);
	if (r < 0) {
		config_notify_release(&c);
		return r;
	}
	*ret = c;
	return 0;
}

static char *default_notify_path(void)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char *path = NULL;
	int r = -1;

	if (geteuid() == 0)
		return strdup("/etc/cofferdam/notify.yaml");
	if (config && config[0] == '/')
		r = asprintf(&path, "%s/cofferdam/notify.yaml", config);
	else if (home && home[0] == '/')
		r = asprintf(&path, "%s/.config/cofferdam/notify.yaml", home);
	return r < 0 ? NULL : path;
}

bool config_notify_is_there(void)
{
	autofree char *usual = default_notify_path();

	return usual && access(usual, F_OK) == 0;
}

int config_notify_load(struct notify_conf *ret, const char *path, struct err *e)
{
	autobuf struct buf text = BUF_INIT;
	autofree char *usual = path ? NULL : default_notify_path(), *full = NULL;
	int r;

	if (!path && (!usual || access(usual, F_OK) < 0))
		return err_set(e, -ENOENT, "there is no %s", usual ? usual : "notify.yaml");
	r = owner_read(path ? path : usual, NOTIFY_FILE_MAX, true, &text, NULL, e);
	if (r < 0)
		return r;
	full = realpath(path ? path : usual, NULL);
	if (!full)
		return err_sys(e, -errno, "cannot find %s", path ? path : usual);
	return config_notify_parse(ret, path ? path : usual, dirname(full), buf_cstr(&text), text.len, e);
}
