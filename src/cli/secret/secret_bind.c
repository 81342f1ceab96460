/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer secret bind, unbind: where a secret may be sent, and the host keys for bindings that sign (ssh).
 * --host, --as, --user, --ask and --known-host make one binding for each host; each is logged before it is
 * saved. No value of a secret is read here.
 */
#include "cli/secret/cmd_secret.h"

#include "base/fd.h"
#include "cli/core/say.h"
#include "vault/ssh/sshhosts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static int make_binding(const struct secret_args *a, const char *host, struct binding *b, struct err *e)
{
	bool ssh = a->as && (str_eq(a->as, "ssh") || str_starts(a->as, "ssh:"));
	int r = binding_parse_host(host, strlen(host),
				   (a->address ? BINDING_ADDRESS : 0) | (ssh ? BINDING_ASKED : 0), b, e);

	if (r < 0)
		return err_wrap(e, r, "--host");
	if (ssh && !str_eq(b->path, "/"))
		return err_set(e, -EINVAL, "--host %s: a binding for SSH cannot have a path", host);
	b->port = b->port ? b->port : BINDING_PORT_SSH;
	if (a->as)
		r = binding_parse_as(a->as, strlen(a->as), b, e);
	else
		binding_usual_as(b);
	if (r < 0)
		return err_wrap(e, r, "--as");
	r = a->asks ? binding_set_ask(b, e) : 0;
	if (r < 0)
		return err_wrap(e, r, "--ask");
	return a->user ? binding_set_user(b, a->user, e) : 0;
}

/* Collects the host keys that --known-host and --known-hosts give for the binding's host. */
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
			return err_hint(e, -ENOENT,
					"ssh-keyscan -p %u %s shows the key of the server there; "
					"compare its fingerprint (ssh-keygen -lf) with one that you "
					"trust",
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
		return err_set(e, r, "cannot encode the binding");
	ask.text[0] = slice_of(name);
	ask.text[1] = (struct slice){ buf_cstr(&packed), packed.len };
	ask.text[2] = (struct slice){ buf_cstr(&hosts), hosts.len };
	r = vault_call(&s->proc, &ask, NULL, 0, NULL, NULL, NULL, NULL, e);
	binding_describe(b, &text);
	if (r == 0)
		r = cli_secret_log(s, "secret.bind", name, buf_cstr(&text), e);
	if (r == 0)
		say_note(b->as == BINDING_AS_SSH ? "%s may sign for %s" : "%s may be sent to %s", name,
			 buf_cstr(&text));
	return r;
}

int cli_secret_bind_all(struct secret_session *s, const struct secret_args *a, const char *name,
			struct err *e)
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

int cli_secret_bind(struct secret_session *s, const struct secret_args *a, struct err *e)
{
	int r = cli_secret_bind_all(s, a, a->argv[0], e);

	return r < 0 ? r : cli_secret_save(s, e);
}

int cli_secret_unbind(struct secret_session *s, const struct secret_args *a, struct err *e)
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
			r = cli_secret_log(s, "secret.unbind", a->argv[0], host, e);
	}
	return r < 0 ? r : cli_secret_save(s, e);
}

/* Checks every binding before a person is prompted for a value. */
int cli_secret_check_bindings(const struct secret_args *a, struct err *e)
{
	int r = 0;

	if (a->act == SECRET_UNBIND)
		return 0;
	if ((a->known.n || a->known_files.n) && (!a->as || !str_starts(a->as, "ssh")))
		return err_set(e, -EINVAL, "--known-host and --known-hosts are only valid with --as ssh");
	if (a->act == SECRET_SET && a->as && !a->hosts.n)
		return err_set(e, -EINVAL, "--as needs --host, which names where the secret may be sent");
	if (a->asks && !a->hosts.n)
		return err_set(e, -EINVAL, "--ask is only valid with --host and --as ssh");
	for (size_t i = 0; i < a->hosts.n && r == 0; i++) {
		autosshhosts struct sshhosts known = SSHHOSTS_INIT;
		struct binding b = { 0 };

		r = make_binding(a, a->hosts.v[i], &b, e);
		if (r == 0)
			r = gather_known(a, &b, &known, e);
	}
	return r;
}
