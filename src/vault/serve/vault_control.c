/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the starter, and the subset that holders may send: a table says which are legal in which state
 * (serve.C2). No response contains a value (serve.C4). */
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "ipc/fdpass.h"
#include "vault/serve/serve_int.h"
#include "vault/serve/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PASSPHRASE_MAX 1024
#define PASSPHRASE_MIN 8

#define LOCKED (1u << VAULT_STATE_LOCKED)
#define READING (1u << VAULT_STATE_READING)
#define WRITING (1u << VAULT_STATE_WRITING)

static int send_to_starter(int fd, const struct vault_msg *m)
{
	autofree uint8_t *out = NULL;
	size_t size = vault_msg_size(VAULT_TO_STARTER, m);
	long n;

	out = malloc(size ? size : 1);
	if (!out)
		return -ENOMEM;
	n = vault_msg_pack(VAULT_TO_STARTER, m, out, size);
	return n < 0 ? (int)n : fdpass_send(fd, out, (size_t)n, NULL, 0);
}

int starter_send(const struct vault *v, const struct vault_msg *m)
{
	return send_to_starter(v->control, m);
}

int request_respond(struct request *q, const struct vault_msg *m)
{
	int r = send_to_starter(q->by ? q->by->fd : q->v->control, m);

	q->gone = r < 0;
	return r;
}

void request_text(struct slice t, char *out, size_t size)
{
	BUG_ON(t.len >= size);
	if (t.len)
		memcpy(out, t.p, t.len);
	out[t.len] = '\0';
}

static int refuse_unknown(struct request *q, const char *name, struct err *e)
{
	q->fault = VAULT_FAULT_NO_SUCH;
	return err_set(e, -ENOENT, "there is no secret '%s'", name);
}

static int find_entry(struct request *q, struct store_entry **ret, struct err *e)
{
	char name[VAULT_NAME_MAX + 1];

	request_text(q->m.text[0], name, sizeof(name));
	*ret = store_find(&q->v->store, name);
	return *ret ? 0 : refuse_unknown(q, name, e);
}

/* --- the key --------------------------------------------------------------------------------------------------- */

/* Reads the key, which must have exactly SEAL_KEY_LEN bytes. */
static int read_key_file(int fd, struct secmem *ret, struct err *e)
{
	autosecmem struct secmem m = SECMEM_INIT;
	int r = secmem_new(&m, SEAL_KEY_LEN + 1, e);

	while (r == 0 && m.len < m.cap) {
		ssize_t n = pread(fd, m.p + m.len, m.cap - m.len, (off_t)m.len);

		if (n < 0 && errno != EINTR)
			r = err_sys(e, -errno, "cannot read the key");
		if (n == 0)
			break;
		m.len += n > 0 ? (size_t)n : 0;
	}
	if (r < 0)
		return r;
	if (m.len != SEAL_KEY_LEN)
		return err_set(e, -EINVAL, "the key has %s than %d bytes: it is not a key of coffer",
			       m.len < SEAL_KEY_LEN ? "fewer" : "more", SEAL_KEY_LEN);
	*ret = m;
	m = SECMEM_INIT;
	return 0;
}

static int read_passphrase(struct request *q, const char *prompt, const char *subject, bool terminal,
			   struct secmem *ret, struct err *e)
{
	struct source s = { .fd = q->fds[0],
			    .control = q->v->control,
			    .terminal = terminal,
			    .prompt = prompt,
			    .subject = subject };
	bool trimmed;
	int r = source_read(&s, PASSPHRASE_MAX, ret, &trimmed, e);

	q->gone = r == -EPIPE;
	return r < 0 ? err_wrap(e, r, "the passphrase") : 0;
}

/* A new passphrase is typed twice and has a minimum length: an attacker may guess at a copy of the file for
 * years. */
static int read_new_passphrase(struct request *q, const char *subject, bool terminal, struct secmem *ret,
			       struct err *e)
{
	autosecmem struct secmem again = SECMEM_INIT;
	int r = read_passphrase(q, "New passphrase", subject, terminal, ret, e);

	if (r == 0 && ret->len < PASSPHRASE_MIN) {
		q->fault = VAULT_FAULT_VALUE;
		return err_set(e, -EINVAL, "a passphrase has at least %d characters", PASSPHRASE_MIN);
	}
	if (r < 0 || !terminal)
		return r;
	r = read_passphrase(q, "The same again", subject, terminal, &again, e);
	if (r == 0 && !secmem_eq(ret, again.p, again.len)) {
		q->fault = VAULT_FAULT_VALUE;
		return err_set(e, -EINVAL, "the two passphrases differ");
	}
	return r;
}

/* The key of a vault: from a file, or derived from a passphrase. fresh: a new passphrase is asked for. */
static int read_key_of_kind(struct request *q, const struct file_head *h, bool fresh, struct secmem *ret,
			    struct err *e)
{
	autosecmem struct secmem text = SECMEM_INIT;
	bool terminal = q->m.num[1] & VAULT_OPEN_TERMINAL;
	char name[VAULT_WHY_MAX * 2 + 1];
	int r;

	if (h->kind != VAULT_KEY_PASSPHRASE)
		return read_key_file(q->fds[0], ret, e);
	request_text(q->m.text[0], name, sizeof(name));
	r = fresh ? read_new_passphrase(q, name, terminal, &text, e)
		  : read_passphrase(q, "Passphrase", name, terminal, &text, e);
	return r < 0 ? r : seal_key_from_passphrase(ret, text.p, text.len, &h->cost, e);
}

static int refuse_key_kind(struct request *q, enum vault_key kind, struct err *e)
{
	static const char *const with[] = { [VAULT_KEY_FILE] = "a key file",
					    [VAULT_KEY_CREDENTIAL] = "a credential of systemd's",
					    [VAULT_KEY_PASSPHRASE] = "a passphrase" };

	q->fault = VAULT_FAULT_KEY_KIND;
	return err_set(e, -EKEYREJECTED, "the vault is sealed with %s", with[kind]);
}

/* VAULT_OPEN: reads the key and unseals the file. */
static int on_open(struct request *q, struct err *e)
{
	enum vault_key kind = (enum vault_key)q->m.num[0];
	bool fresh = q->m.num[1] & VAULT_OPEN_NEW;
	autosecmem struct secmem key = SECMEM_INIT;
	autobuf struct buf file = BUF_INIT;
	struct file_head h = { 0 };
	int r = 0;

	if (fresh != (q->n_fds == 1))
		return -EPROTO;
	if (fresh)
		file_head_new(&h, kind);
	else
		r = file_read(q->fds[1], FILE_MAX, &file, e);
	if (r == 0 && !fresh)
		r = file_head_parse(buf_cstr(&file), file.len, &h, &q->fault, e);
	/* A credential is a key file in another place. */
	if (r == 0 && (h.kind == VAULT_KEY_PASSPHRASE) != (kind == VAULT_KEY_PASSPHRASE))
		r = refuse_key_kind(q, h.kind, e);
	if (r == 0)
		r = read_key_of_kind(q, &h, fresh, &key, e);
	if (r == 0 && !fresh)
		r = file_open(file.data, file.len, &key, &q->v->store, &q->fault, e);
	if (r < 0)
		return r;
	q->v->head = h;
	q->v->key = key;
	key = SECMEM_INIT;
	q->v->state = q->m.num[1] & VAULT_OPEN_READ_ONLY ? VAULT_STATE_READING : VAULT_STATE_WRITING;
	q->ok[0] = h.counter;
	q->ok[1] = q->v->store.n;
	return 0;
}

/* VAULT_REKEY: takes another key for the next save. */
static int on_rekey(struct request *q, struct err *e)
{
	autosecmem struct secmem key = SECMEM_INIT;
	struct file_head h;
	int r;

	file_head_new(&h, (enum vault_key)q->m.num[0]);
	/* The same vault with another key: the save counter continues. */
	h.counter = q->v->head.counter;
	r = read_key_of_kind(q, &h, true, &key, e);
	if (r < 0)
		return r;
	secmem_release(&q->v->key);
	q->v->key = key;
	key = SECMEM_INIT;
	q->v->head = h;
	return 0;
}

/* --- entries --------------------------------------------------------------------------------------------------- */

/* VAULT_ITEM: everything about a secret except its value (serve.C4). */
static int send_item(struct request *q, const struct store_entry *n, bool trimmed, struct err *e)
{
	autobuf struct buf bindings = BUF_INIT, known = BUF_INIT;
	struct vault_msg m = { .type = VAULT_ITEM, .id = q->m.id };
	int r = bindings_pack(n->bindings, n->n_bindings, &bindings);

	if (r == 0)
		r = sshhosts_pack(&n->known, &known);
	if (r < 0)
		return err_set(e, r, "out of memory");
	m.num[0] = n->value.len;
	m.num[1] = n->created;
	m.num[2] = n->changed;
	m.num[3] = n->expires;
	m.num[4] = n->every;
	m.num[5] = (n->weak ? VAULT_SET_WEAK : 0) | (store_has_lines(&n->value) ? VAULT_ITEM_LINES : 0) |
		   (trimmed ? VAULT_ITEM_TRIMMED : 0);
	m.text[0] = slice_of(n->name);
	m.text[1] = (struct slice){ bindings.data, bindings.len };
	m.text[2] = slice_of(n->command ? n->command : "");
	m.text[3] = (struct slice){ known.data, known.len };
	return request_respond(q, &m);
}

/* Checked before a person is asked to type the value. */
static int check_set_name(struct request *q, const char *name, struct err *e)
{
	bool there = store_find(&q->v->store, name) != NULL;

	if (q->m.num[0] & VAULT_SET_ROTATE && !there)
		return refuse_unknown(q, name, e);
	if (there && !(q->m.num[0] & (VAULT_SET_ROTATE | VAULT_SET_REPLACE))) {
		q->fault = VAULT_FAULT_EXISTS;
		err_set(e, -EEXIST, "there is a secret '%s' already", name);
		return err_hint(e, -EEXIST, "coffer secret rotate %s gives it a new value", name);
	}
	return 0;
}

/* VAULT_SET: reads the value from the given descriptor and stores it. */
static int on_set(struct request *q, struct err *e)
{
	char name[VAULT_NAME_MAX + 1], command[VAULT_COMMAND_MAX + 1];
	autosecmem struct secmem value = SECMEM_INIT;
	struct store_set set = { .name = name,
				 .flags = (unsigned)q->m.num[0],
				 .expires = q->m.num[1],
				 .every = q->m.num[2],
				 .now = clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC };
	struct source s = { .fd = q->fds[0],
			    .control = q->v->control,
			    .terminal = q->m.num[0] & VAULT_SET_TERMINAL,
			    .prompt = "Value of",
			    .subject = name };
	struct store_entry *n = NULL;
	bool trimmed = false;
	int r;

	request_text(q->m.text[0], name, sizeof(name));
	request_text(q->m.text[1], command, sizeof(command));
	set.command = *command ? command : NULL;
	r = check_set_name(q, name, e);
	if (r < 0)
		return r;
	r = source_read(&s, VAULT_SECRET_MAX, &value, &trimmed, e);
	q->gone = r == -EPIPE;
	if (r == -EINVAL)
		q->fault = VAULT_FAULT_VALUE;
	if (r == -EFBIG) {
		q->fault = VAULT_FAULT_VALUE;
		return err_set(e, r, "the value has more than %u KiB, too much for any request",
			       VAULT_SECRET_MAX >> 10);
	}
	if (r == 0)
		r = store_set(&q->v->store, &set, &value, &n, &q->fault, e);
	return r < 0 ? r : send_item(q, n, trimmed, e);
}

static int on_rm(struct request *q, struct err *e)
{
	char name[VAULT_NAME_MAX + 1];

	request_text(q->m.text[0], name, sizeof(name));
	return store_rm(&q->v->store, name, &q->fault, e);
}

static int on_change(struct request *q, struct err *e)
{
	char command[VAULT_COMMAND_MAX + 1];
	struct store_entry *n;
	int r = find_entry(q, &n, e);

	request_text(q->m.text[1], command, sizeof(command));
	if (r == 0 && q->m.num[0] & VAULT_CHANGE_SCHEDULE)
		r = store_set_schedule(n, command, q->m.num[2], e);
	if (r == 0 && q->m.num[0] & VAULT_CHANGE_EXPIRES)
		n->expires = q->m.num[1];
	return r;
}

/* VAULT_BIND: adds one binding to a secret. */
static int on_bind(struct request *q, struct err *e)
{
	autosshhosts struct sshhosts known = SSHHOSTS_INIT;
	struct binding b[GRANTS_BINDINGS_MAX];
	struct store_entry *n;
	size_t n_b = 0;
	int r = bindings_unpack(b, &n_b, q->m.text[1].p, q->m.text[1].len);

	if (r == 0 && q->m.text[2].len)
		r = sshhosts_unpack(&known, q->m.text[2].p, q->m.text[2].len);
	if (r < 0 || n_b != 1)
		return -EPROTO;
	r = find_entry(q, &n, e);
	if (r == 0)
		r = store_bind(n, &b[0], &known, e);
	/* A key that cannot sign. */
	if (r == -EINVAL && b[0].as == BINDING_AS_SSH)
		q->fault = VAULT_FAULT_VALUE;
	return r;
}

static int on_unbind(struct request *q, struct err *e)
{
	char host[HOST_MAX + 1];
	struct store_entry *n;
	int r = find_entry(q, &n, e);

	if (r < 0)
		return r;
	request_text(q->m.text[1], host, sizeof(host));
	q->ok[0] = store_unbind(n, host, (uint16_t)q->m.num[0]);
	return q->ok[0] ? 0 : err_set(e, -ENOENT, "'%s' is not bound to that", n->name);
}

static int on_list(struct request *q, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < q->v->store.n && r == 0; i++) {
		if (q->by && !holder_may_list(q->by, q->v->store.v[i]->name))
			continue;
		r = send_item(q, q->v->store.v[i], false, e);
		q->ok[0]++;
	}
	return r;
}

static int on_save(struct request *q, struct err *e)
{
	int r = file_save(q->fds[0], &q->v->head, &q->v->store, &q->v->key, &q->fault, e);

	q->ok[0] = q->v->head.counter;
	return r;
}

/* Opens the file with the key that the vault has, so that nobody is asked again. Another process may have
 * saved it since. If an unsaved REKEY changed the key, the file cannot be opened; then everything stays as it
 * is until the process ends. */
static int on_revert(struct request *q, struct err *e)
{
	CLEANUP(store_release) struct store was = STORE_INIT;
	autobuf struct buf file = BUF_INIT;
	struct file_head h = q->v->head;
	struct store now;
	int r = q->n_fds ? file_read(q->fds[0], FILE_MAX, &file, e) : 0;

	if (r == 0 && q->n_fds)
		r = file_head_parse(buf_cstr(&file), file.len, &h, &q->fault, e);
	if (r == 0 && q->n_fds)
		r = file_open(file.data, file.len, &q->v->key, &was, &q->fault, e);
	if (r < 0)
		return r;
	now = q->v->store;
	q->v->store = was;
	was = now;
	q->v->head = h;
	q->ok[0] = h.counter;
	return 0;
}

/* The file was replaced: its contents apply from now on, and all clients must request their grants again.
 * With another key it cannot be opened, and then everything stays as it is. */
static int on_reload(struct request *q, struct err *e)
{
	CLEANUP(store_release) struct store fresh = STORE_INIT;
	autobuf struct buf file = BUF_INIT;
	struct file_head h = { 0 };
	struct store was;
	int r = file_read(q->fds[0], FILE_MAX, &file, e);

	if (r == 0)
		r = file_head_parse(buf_cstr(&file), file.len, &h, &q->fault, e);
	if (r == 0)
		r = file_open(file.data, file.len, &q->v->key, &fresh, &q->fault, e);
	if (r < 0)
		return r;
	was = q->v->store;
	q->v->store = fresh;
	fresh = was;
	q->v->head = h;
	hold_end_all(q->v);
	q->ok[0] = h.counter;
	q->ok[1] = q->v->store.n;
	return 0;
}

static int on_scan(struct request *q, struct err *e)
{
	int r = vault_scan_file(q->v, q->m.id, q->fds[0], q->m.num[0], &q->ok[0], e);

	q->gone = r == -EPIPE;
	return r;
}

/* --- the table ------------------------------------------------------------------------------------------------- */

/* For each request the states in which it is legal, its function, and whether a holder may send it. */
static const struct {
	unsigned states;
	int (*fn)(struct request *q, struct err *e);
	bool holder; /* may send it, too */
} acts[] = {
	[0] = { LOCKED, on_open },
	[VAULT_SET - VAULT_OPEN] = { WRITING, on_set },
	[VAULT_RM - VAULT_OPEN] = { WRITING, on_rm },
	[VAULT_CHANGE - VAULT_OPEN] = { WRITING, on_change },
	[VAULT_BIND - VAULT_OPEN] = { WRITING, on_bind },
	[VAULT_UNBIND - VAULT_OPEN] = { WRITING, on_unbind },
	[VAULT_LIST - VAULT_OPEN] = { READING | WRITING, on_list, true },
	[VAULT_SAVE - VAULT_OPEN] = { WRITING, on_save },
	[VAULT_REKEY - VAULT_OPEN] = { WRITING, on_rekey },
	[VAULT_SCAN - VAULT_OPEN] = { READING | WRITING, on_scan },
	[VAULT_GRANT - VAULT_OPEN] = { READING | WRITING, hold_grant, true },
	[VAULT_UNGRANT - VAULT_OPEN] = { READING | WRITING, hold_ungrant, true },
	[VAULT_REVERT - VAULT_OPEN] = { WRITING, on_revert },
	[VAULT_HOLD - VAULT_OPEN] = { READING, hold_add_holder },
	[VAULT_RELOAD - VAULT_OPEN] = { READING, on_reload },
	[VAULT_AGENT - VAULT_OPEN] = { READING | WRITING, hold_agent, true },
};

static int send_error(struct request *q, int r, const struct err *e)
{
	struct vault_msg m = { .type = VAULT_ERROR, .id = q->m.id, .status = r, .num = { q->fault } };

	m.text[0] = slice_of(e->msg);
	m.text[1] = slice_of(e->hint);
	return request_respond(q, &m);
}

/* Checks the table, calls the handler, and sends the response. */
static int handle_request(struct request *q)
{
	struct vault_msg ok = { .type = VAULT_OK, .id = q->m.id };
	struct err e = ERR_INIT;
	size_t i = q->m.type - VAULT_OPEN;
	int r;

	if (q->m.type < VAULT_OPEN || i >= ARRAY_SIZE(acts) || !acts[i].fn ||
	    !(acts[i].states & (1u << q->v->state)) || (q->by && !acts[i].holder))
		return -EPROTO;
	r = acts[i].fn(q, &e);
	if (r == -EPROTO || q->gone)
		return r < 0 ? r : -EPIPE;
	if (r < 0)
		return send_error(q, r, &e);
	ok.num[0] = q->ok[0];
	ok.num[1] = q->ok[1];
	return q->answered ? 0 : request_respond(q, &ok);
}

/* NOLINTNEXTLINE(readability-function-size): as many parts as a request has */
int control_handle_message(struct vault *v, struct holder *by, const void *data, size_t len, int *fds,
			   unsigned n_fds)
{
	struct request q = { .v = v, .by = by, .fds = fds, .n_fds = n_fds };
	int r = vault_msg_parse(by ? VAULT_FROM_HOLDER : VAULT_FROM_STARTER, data, len, n_fds, &q.m);

	if (r == 0)
		r = handle_request(&q);
	for (unsigned i = 0; i < n_fds; i++)
		fds[i] = fd_close(fds[i]);
	return r;
}
