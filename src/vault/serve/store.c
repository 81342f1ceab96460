/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secrets of the vault in locked memory (store.h): changing them under the invariants, and packing them
 * for the sealed file. A failed operation changes nothing (store.T5).
 */

#include "vault/serve/store.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "base/vec.h"
#include "vault/common/wire.h"
#include "vault/ssh/sshsign.h"

#include <errno.h>
#include <stdlib.h>

static void entry_free(struct store_entry *n)
{
	if (!n)
		return;
	secmem_release(&n->value);
	sshhosts_release(&n->known);
	free(n->command);
	free(n);
}

static void entry_freep(struct store_entry **n)
{
	entry_free(*n);
}

void store_release(struct store *s)
{
	for (size_t i = 0; i < s->n; i++)
		entry_free(s->v[i]);
	free(s->v);
	*s = STORE_INIT;
}

struct store_entry *store_find(const struct store *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++) {
		if (str_eq(s->v[i]->name, name))
			return s->v[i];
	}
	return NULL;
}

static int refuse_with_fault(enum vault_fault *ret, enum vault_fault fault, struct err *e)
{
	*ret = fault;
	return e ? e->code : -EINVAL;
}

bool store_has_lines(const struct secmem *value)
{
	for (size_t i = 0; i < value->len; i++) {
		if (value->p[i] < 0x20 || value->p[i] == 0x7f)
			return true;
	}
	return false;
}

/* store.T1: length, no NUL, and not weak by accident. */
static int check_value(const struct secmem *v, bool weak, struct err *e)
{
	if (v->len == 0)
		return err_set(e, -EINVAL, "the value is empty");
	if (v->len > VAULT_SECRET_MAX)
		return err_set(e, -EFBIG, "the value has more than %u KiB, too much for any request",
			       VAULT_SECRET_MAX >> 10);
	if (memchr(v->p, '\0', v->len))
		return err_set(e, -EINVAL, "the value has a NUL byte in it: no request can carry that");
	if (v->len >= VAULT_STRONG_MIN || weak)
		return 0;
	err_set(e, -EINVAL,
		"the value has fewer than %d bytes: it can be guessed, and occurs by chance in responses of servers",
		VAULT_STRONG_MIN);
	return err_hint(e, -EINVAL, "--weak accepts it nevertheless");
}

/* store.T2: a value with control bytes may have only bindings that can carry it. */
static int check_lines(const struct store_entry *n, const struct secmem *v, struct err *e)
{
	for (size_t i = 0; i < n->n_bindings && store_has_lines(v); i++) {
		autobuf struct buf b = BUF_INIT;

		if (binding_takes_lines(&n->bindings[i]))
			continue;
		binding_describe(&n->bindings[i], &b);
		return err_set(
			e, -EINVAL,
			"the value has line breaks or control characters in it, which cannot be sent to %s",
			buf_cstr(&b));
	}
	return 0;
}

/* store.T6: the head of a request must have room for the value. */
static int check_head_room(const struct store_entry *n, const struct secmem *v, const struct binding *b,
			   struct err *e)
{
	autobuf struct buf text = BUF_INIT;

	if (binding_fits(b, v->p, v->len))
		return 0;
	binding_describe(b, &text);
	err_set(e, -EFBIG, "'%s' is too long for the head of a request to %s", n->name, buf_cstr(&text));
	return err_hint(e, -EFBIG, "a head takes %u KiB of it, encoded; --as body takes more",
			BINDING_HEAD_MAX >> 10);
}

/* store.T4: a test signature shows that both halves of the key belong together. */
static int check_can_sign(const struct secmem *v, struct err *e)
{
	CLEANUP(sshkey_release) struct sshkey k = SSHKEY_INIT;
	const struct slice text = slice_of("coffer");
	uint8_t sig[SSHSIGN_MAX];
	size_t len = 0;
	int r = sshkey_parse(v->p, v->len, &k, e);

	if (r < 0)
		return r;
	if (sshsign(&k, SSHSIGN_SHA512, text, sig, &len) < 0 ||
	    !sshsign_check((struct slice){ (const char *)k.blob, k.blob_len },
			   (struct slice){ (const char *)sig, len }, text))
		return err_set(e, -EINVAL,
			       "the private key is damaged: its public and private parts do not match");
	return 0;
}

/* Does the secret sign for this host and port? host NULL: for any. */
static bool signs_at(const struct store_entry *n, const char *host, uint16_t port)
{
	for (size_t i = 0; i < n->n_bindings; i++) {
		const struct binding *b = &n->bindings[i];

		if (b->as == BINDING_AS_SSH && (!host || (b->port == port && str_eq(b->host, host))))
			return true;
	}
	return false;
}

static size_t bytes_except(const struct store *s, const struct store_entry *but)
{
	size_t sum = 0;

	for (size_t i = 0; i < s->n; i++)
		sum += s->v[i] == but ? 0 : s->v[i]->value.len;
	return sum;
}

static int insert_sorted(struct store *s, struct store_entry *n)
{
	size_t at = 0;

	if (VEC_MORE(s->v, s->n, VEC_NO_MAX) < 0)
		return -ENOMEM;
	while (at < s->n && strcmp(s->v[at]->name, n->name) < 0)
		at++;
	for (size_t i = s->n++; i > at; i--)
		s->v[i] = s->v[i - 1];
	s->v[at] = n;
	return 0;
}

int store_set_schedule(struct store_entry *n, const char *command, uint64_t every, struct err *e)
{
	char *copy = command && *command ? strdup(command) : NULL;

	if (command && *command && !copy)
		return err_set(e, -ENOMEM, "out of memory");
	if (!copy && every)
		return err_set(e, -EINVAL,
			       "a schedule needs a command that prints the new value (--command)");
	free(n->command);
	n->command = copy;
	n->every = every;
	return 0;
}

/* Adds a new secret; takes ownership of the value on success. */
static int add_entry(struct store *s, const struct store_set *set, struct secmem *value,
		     struct store_entry **ret, struct err *e)
{
	CLEANUP(entry_freep) struct store_entry *n = calloc(1, sizeof(*n));
	int r;

	if (s->n >= STORE_MAX)
		return err_set(e, -ENOSPC, "the vault has %d secrets, which is the limit", STORE_MAX);
	if (!n)
		return err_set(e, -ENOMEM, "out of memory");
	memcpy(n->name, set->name, strlen(set->name) + 1);
	n->created = n->changed = set->now;
	n->expires = set->expires;
	n->weak = set->flags & VAULT_SET_WEAK;
	r = store_set_schedule(n, set->command, set->every, e);
	if (r == 0 && insert_sorted(s, n) < 0)
		r = err_set(e, -ENOMEM, "out of memory");
	if (r < 0)
		return r;
	n->value = *value;
	*value = SECMEM_INIT;
	*ret = TAKE_PTR(n);
	return 0;
}

/* Replaces the value of an existing secret: a rotation keeps its bindings, a replacement drops them. */
static int change_value(struct store_entry *n, const struct store_set *set, struct secmem *value,
			struct err *e)
{
	int r = set->flags & VAULT_SET_ROTATE && !set->command
			? 0
			: store_set_schedule(n, set->command, set->every, e);

	if (r < 0)
		return r;
	secmem_release(&n->value);
	n->value = *value;
	*value = SECMEM_INIT;
	n->changed = set->now;
	n->weak = n->weak || set->flags & VAULT_SET_WEAK;
	/* A different secret under an old name: the old bindings must not apply to it. */
	if (!(set->flags & VAULT_SET_ROTATE)) {
		n->n_bindings = 0;
		sshhosts_release(&n->known);
	}
	if (set->expires || !(set->flags & VAULT_SET_ROTATE))
		n->expires = set->expires;
	return 0;
}

int store_set(struct store *s, const struct store_set *set, struct secmem *value, struct store_entry **ret,
	      enum vault_fault *ret_fault, struct err *e)
{
	struct store_entry *n = store_find(s, set->name);
	bool weak = set->flags & VAULT_SET_WEAK || (n && n->weak && set->flags & VAULT_SET_ROTATE);
	int r;

	if (n && !(set->flags & (VAULT_SET_ROTATE | VAULT_SET_REPLACE))) {
		err_set(e, -EEXIST, "there is a secret '%s' already", set->name);
		err_hint(e, -EEXIST, "coffer secret rotate %s gives it a new value", set->name);
		return refuse_with_fault(ret_fault, VAULT_FAULT_EXISTS, e);
	}
	if (!n && set->flags & VAULT_SET_ROTATE) {
		err_set(e, -ENOENT, "there is no secret '%s'", set->name);
		return refuse_with_fault(ret_fault, VAULT_FAULT_NO_SUCH, e);
	}
	r = check_value(value, weak, e);
	if (r == 0 && n && set->flags & VAULT_SET_ROTATE)
		r = check_lines(n, value, e);
	for (size_t i = 0; r == 0 && n && set->flags & VAULT_SET_ROTATE && i < n->n_bindings; i++)
		r = check_head_room(n, value, &n->bindings[i], e);
	if (r == 0 && n && set->flags & VAULT_SET_ROTATE && signs_at(n, NULL, 0))
		r = check_can_sign(value, e);
	if (r < 0)
		return refuse_with_fault(ret_fault, VAULT_FAULT_VALUE, e);
	if (bytes_except(s, n) + value->len > STORE_BYTES_MAX)
		return err_set(e, -ENOSPC, "the vault holds at most %u KiB of secrets",
			       STORE_BYTES_MAX >> 10);
	r = n ? change_value(n, set, value, e) : add_entry(s, set, value, &n, e);
	if (r == 0)
		*ret = n;
	return r;
}

int store_rm(struct store *s, const char *name, enum vault_fault *ret_fault, struct err *e)
{
	for (size_t i = 0; i < s->n; i++) {
		if (!str_eq(s->v[i]->name, name))
			continue;
		entry_free(s->v[i]);
		s->n--;
		for (size_t k = i; k < s->n; k++)
			s->v[k] = s->v[k + 1];
		return 0;
	}
	err_set(e, -ENOENT, "there is no secret '%s'", name);
	return refuse_with_fault(ret_fault, VAULT_FAULT_NO_SUCH, e);
}

/* Signing requires that the host's key is known. */
static int check_host_keys(const struct store_entry *n, const struct binding *b, const struct sshhosts *known,
			   struct err *e)
{
	for (size_t i = 0; i < known->n; i++) {
		if (known->v[i].port != b->port || !str_eq(known->v[i].host, b->host))
			return err_set(e, -EINVAL, "the given host key is not one of %s", b->host);
	}
	if (b->as != BINDING_AS_SSH)
		return known->n ? err_set(e, -EINVAL, "only 'ssh' takes a host's key") : 0;
	if (known->n || sshhosts_has(&n->known, b->host, b->port) || binding_allows_unbound(b))
		return check_can_sign(&n->value, e);
	err_set(e, -EINVAL, "the host key of %s is not known, and '%s' may sign for no other host", b->host,
		n->name);
	return err_hint(
		e, -EINVAL,
		"--known-hosts ~/.ssh/known_hosts if it has the key, or --known-host 'ssh-ed25519 AAAA…'");
}

static int add_host_keys(struct store_entry *n, const struct sshhosts *known, struct err *e)
{
	autosshhosts struct sshhosts all = SSHHOSTS_INIT;
	int r = sshhosts_join(&all, &n->known);

	if (r == 0)
		r = sshhosts_join(&all, known);
	if (r < 0)
		return err_set(e, r, "'%s' can have at most %d keys of hosts", n->name, SSHHOSTS_MAX);
	sshhosts_release(&n->known);
	n->known = all;
	all = SSHHOSTS_INIT;
	return 0;
}

int store_bind(struct store_entry *n, const struct binding *b, const struct sshhosts *known, struct err *e)
{
	static const struct sshhosts none;
	autobuf struct buf text = BUF_INIT;
	int r;

	known = known ? known : &none;
	r = check_host_keys(n, b, known, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n->n_bindings; i++) {
		if (binding_eq(&n->bindings[i], b))
			return add_host_keys(n, known, e);
	}
	binding_describe(b, &text);
	if (store_has_lines(&n->value) && !binding_takes_lines(b))
		return err_set(e, -EINVAL,
			       "'%s' has line breaks or control characters in it, which cannot be sent to %s",
			       n->name, buf_cstr(&text));
	r = check_head_room(n, &n->value, b, e);
	if (r < 0)
		return r;
	if (n->n_bindings == GRANTS_BINDINGS_MAX)
		return err_set(e, -ENOSPC, "'%s' has %d bindings, which is the limit", n->name,
			       GRANTS_BINDINGS_MAX);
	r = add_host_keys(n, known, e);
	if (r == 0)
		n->bindings[n->n_bindings++] = *b;
	return r;
}

static void drop_unused_host_keys(struct store_entry *n)
{
	for (size_t i = 0; i < n->known.n;) {
		const struct sshhost h = n->known.v[i];

		if (signs_at(n, h.host, h.port))
			i++;
		else
			sshhosts_drop(&n->known, h.host, h.port);
	}
}

unsigned store_unbind(struct store_entry *n, const char *host, uint16_t port)
{
	unsigned gone = 0;
	size_t kept = 0;

	for (size_t i = 0; i < n->n_bindings; i++) {
		const struct binding *b = &n->bindings[i];

		if ((!*host || str_eq(b->host, host)) && (!port || b->port == port))
			gone++;
		else
			n->bindings[kept++] = *b;
	}
	n->n_bindings = kept;
	drop_unused_host_keys(n);
	return gone;
}

/* --- as bytes ------------------------------------------------------------------------------------------------ */

#define ENTRY_WEAK 1u
#define ENTRY_KNOWN 2u /* host keys follow the value */

/* Field order here and in get_store_entry() must agree; the sealed file has this format. */
static int put_store_entry(struct wire_out *w, const struct store_entry *n)
{
	autobuf struct buf bindings = BUF_INIT, known = BUF_INIT;
	const char *command = n->command ? n->command : "";

	if (bindings_pack(n->bindings, n->n_bindings, &bindings) < 0 || sshhosts_pack(&n->known, &known) < 0)
		return -ENOMEM;
	wire_put_text(w, n->name);
	wire_put(w, n->created, 8);
	wire_put(w, n->changed, 8);
	wire_put(w, n->expires, 8);
	wire_put(w, n->every, 8);
	wire_put(w, (n->weak ? ENTRY_WEAK : 0) | (n->known.n ? ENTRY_KNOWN : 0), 4);
	wire_put(w, strlen(command), 4);
	wire_put_bytes(w, command, strlen(command));
	wire_put(w, bindings.len, 4);
	wire_put_bytes(w, bindings.data, bindings.len);
	wire_put(w, n->value.len, 4);
	wire_put_bytes(w, n->value.p, n->value.len);
	if (n->known.n) {
		wire_put(w, known.len, 4);
		wire_put_bytes(w, known.data, known.len);
	}
	return 0;
}

static int put_store(struct wire_out *w, const struct store *s)
{
	int r = 0;

	wire_put(w, s->n, 4);
	for (size_t i = 0; i < s->n && r == 0; i++)
		r = put_store_entry(w, s->v[i]);
	return r;
}

int store_pack(const struct store *s, struct secmem *ret, struct err *e)
{
	autosecmem struct secmem m = SECMEM_INIT;
	struct wire_out count = { 0 }, w;
	int r = put_store(&count, s);

	if (r == 0)
		r = secmem_new(&m, count.len, e);
	if (r < 0)
		return e && e->code ? r : err_set(e, r, "out of memory");
	w = (struct wire_out){ .p = m.p, .cap = m.cap };
	if (put_store(&w, s) < 0 || w.bad)
		return err_set(e, -ENOMEM, "out of memory");
	m.len = w.len;
	*ret = m;
	m = SECMEM_INIT;
	return 0;
}

static bool is_printable_command(struct slice s)
{
	for (size_t i = 0; i < s.len; i++) {
		if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
			return false;
	}
	return s.len <= VAULT_COMMAND_MAX;
}

static int get_value(struct wire_in *in, struct store_entry *n, struct err *e)
{
	struct slice v = wire_get_bytes(in, (size_t)wire_get(in, 4));
	int r;

	if (in->bad || v.len > VAULT_SECRET_MAX)
		return -EBADMSG;
	r = secmem_new(&n->value, v.len, e);
	if (r == 0)
		r = secmem_add(&n->value, v.p, v.len);
	return r < 0 ? r : check_value(&n->value, n->weak, NULL) < 0 ? -EBADMSG : 0;
}

static int get_host_keys(struct wire_in *in, struct store_entry *n)
{
	struct slice s = wire_get_bytes(in, (size_t)wire_get(in, 4));
	int r = in->bad ? -EBADMSG : sshhosts_unpack(&n->known, s.p, s.len);

	/* Without host keys the field is absent. */
	if (r == 0 && n->known.n == 0)
		r = -EBADMSG;
	for (size_t i = 0; i < n->known.n && r == 0; i++)
		r = signs_at(n, n->known.v[i].host, n->known.v[i].port) ? 0 : -EBADMSG;
	return r;
}

/* Reads one secret; -EBADMSG unless it satisfies all invariants. */
static int get_store_entry(struct wire_in *in, struct store_entry *n, struct err *e)
{
	struct slice command, bindings;
	uint64_t flags;
	int r;

	wire_get_text(in, n->name, sizeof(n->name));
	n->created = wire_get(in, 8);
	n->changed = wire_get(in, 8);
	n->expires = wire_get(in, 8);
	n->every = wire_get(in, 8);
	flags = wire_get(in, 4);
	n->weak = flags & ENTRY_WEAK;
	command = wire_get_bytes(in, (size_t)wire_get(in, 4));
	bindings = wire_get_bytes(in, (size_t)wire_get(in, 4));
	if (in->bad || flags > (ENTRY_WEAK | ENTRY_KNOWN) || !str_is_name(n->name) ||
	    !is_printable_command(command) || (n->every && !command.len) ||
	    bindings_unpack(n->bindings, &n->n_bindings, bindings.p, bindings.len) < 0)
		return -EBADMSG;
	n->command = command.len ? strndup(command.p, command.len) : NULL;
	if (command.len && !n->command)
		return -ENOMEM;
	r = get_value(in, n, e);
	if (r == 0 && flags & ENTRY_KNOWN)
		r = get_host_keys(in, n);
	return r < 0 ? r : check_lines(n, &n->value, NULL) < 0 ? -EBADMSG : 0;
}

int store_unpack(struct store *ret, const void *data, size_t len, struct err *e)
{
	CLEANUP(store_release) struct store s = STORE_INIT;
	struct wire_in in = { .p = data, .left = len };
	size_t n = (size_t)wire_get(&in, 4), bytes = 0;
	int r = in.bad || n > STORE_MAX ? -EBADMSG : 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		CLEANUP(entry_freep) struct store_entry *v = calloc(1, sizeof(*v));

		r = v ? get_store_entry(&in, v, e) : -ENOMEM;
		/* Sorted, and so without duplicates (store.T3). */
		if (r == 0 && s.n && strcmp(s.v[s.n - 1]->name, v->name) >= 0)
			r = -EBADMSG;
		if (r == 0)
			bytes += v->value.len;
		if (r == 0)
			r = insert_sorted(&s, v);
		if (r == 0)
			TAKE_PTR(v);
	}
	if (r == 0 && (in.bad || in.left || bytes > STORE_BYTES_MAX))
		r = -EBADMSG;
	if (r < 0)
		return e && e->code   ? r
		       : r == -ENOMEM ? err_set(e, r, "out of memory")
				      : err_set(e, r, "the contents of the vault file are malformed");
	*ret = s;
	s = STORE_INIT;
	return 0;
}
