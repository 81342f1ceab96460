/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates SSL objects for both directions. Every upstream SSL verifies its peer: no function here can switch
 * that off (tls_ctx.T2).
 */
#include "egress/tls/tls_ctx.h"

#include "base/buf.h"
#include "crypto/hash.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STORE_MAX (8u << 20)
#define KEY_LEN (HOST_MAX + 32)

struct tls_session {
	char key[KEY_LEN];
	SSL_SESSION *s;
	uint64_t used;
};

/* A client context with one set of trusted authorities. */
struct tls_trust {
	SSL_CTX *ctx;
	char id[17]; /* digest of the PEM; "" is the host's store */
	struct tls_trust *next;
};

struct tls_ctx {
	int store_fd;
	SSL_CTX *server;
	struct tls_trust *trusts;
	unsigned n_trusts;
	struct tls_session sessions[TLS_SESSIONS_MAX];
	unsigned n_sessions;
	uint64_t clock;
};

static int ex_key = -1;	 /* of an SSL: the key of its session in the cache */
static int ex_ctx = -1;	 /* of an SSL_CTX: struct tls_ctx */
static int ex_host = -1; /* of a server's SSL: struct host, a copy */

static int ssl_failure(struct err *e, const char *what)
{
	const char *why = ERR_reason_error_string(ERR_peek_last_error());

	err_set(e, -EIO, "cannot %s: %s", what, why ? why : "OpenSSL gave no reason");
	ERR_clear_error();
	return -EIO;
}

static void free_ex_data(void *parent, void *ptr, CRYPTO_EX_DATA *ad, int idx, long argl, void *argp)
{
	(void)parent, (void)ad, (void)idx, (void)argl, (void)argp;
	free(ptr);
}

/* No configuration file: the fence forbids opening one, and none may change the behaviour. */
static int init_openssl(struct err *e)
{
	if (ex_key >= 0)
		return 0;
	if (OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) != 1)
		return ssl_failure(e, "set up TLS");
	ex_key = SSL_get_ex_new_index(0, NULL, NULL, NULL, free_ex_data);
	ex_host = SSL_get_ex_new_index(0, NULL, NULL, NULL, free_ex_data);
	ex_ctx = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, NULL);
	return ex_key < 0 || ex_host < 0 || ex_ctx < 0 ? ssl_failure(e, "set up TLS") : 0;
}

static SSL_CTX *new_ssl_ctx(const SSL_METHOD *m)
{
	SSL_CTX *c = SSL_CTX_new(m);

	if (!c)
		return NULL;
	SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
	SSL_CTX_set_options(c, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				    SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_read_ahead(c, 1);
	return c;
}

static int select_alpn(SSL *s, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
		       unsigned in_len, void *arg)
{
	static const unsigned char ours[] = "\x02h2\x08http/1.1";
	unsigned char *got;

	(void)s, (void)arg;
	if (SSL_select_next_proto(&got, out_len, ours, sizeof(ours) - 1, in, in_len) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = got;
	return SSL_TLSEXT_ERR_OK;
}

/* OpenSSL calls this again for a second ClientHello. */
static int check_sni(SSL *s, int *alert, void *arg)
{
	const char *sni = SSL_get_servername(s, TLSEXT_NAMETYPE_host_name);
	const struct host *want = SSL_get_ex_data(s, ex_host);
	struct host got;

	(void)arg;
	if (!sni || !want)
		return SSL_TLSEXT_ERR_NOACK;
	if (host_canon(sni, strlen(sni), &got, NULL) == 0 && host_eq(&got, want))
		return SSL_TLSEXT_ERR_OK;
	*alert = SSL_AD_UNRECOGNIZED_NAME;
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

int tls_ctx_new(struct tls_ctx **ret, int store_fd, struct err *e)
{
	struct tls_ctx *t;
	int r = init_openssl(e);

	if (r < 0)
		return r;
	t = calloc(1, sizeof(*t));
	if (!t)
		return err_sys(e, -ENOMEM, "cannot set up TLS");
	t->store_fd = store_fd;
	t->server = new_ssl_ctx(TLS_server_method());
	if (!t->server) {
		free(t);
		return ssl_failure(e, "set up TLS");
	}
	SSL_CTX_set_alpn_select_cb(t->server, select_alpn, NULL);
	SSL_CTX_set_tlsext_servername_callback(t->server, check_sni);
	/* Tickets are encrypted with a key of this process: it stores no sessions for clients. */
	SSL_CTX_set_session_cache_mode(t->server, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(t->server, 1);
	*ret = t;
	return 0;
}

static void free_trust(struct tls_trust *t)
{
	SSL_CTX_free(t->ctx);
	free(t);
}

static void free_trusts(struct tls_ctx *t, bool all)
{
	for (struct tls_trust **p = &t->trusts; *p;) {
		struct tls_trust *x = *p;

		if (!all && !x->id[0]) {
			p = &x->next;
			continue;
		}
		*p = x->next;
		t->n_trusts--;
		free_trust(x);
	}
}

void tls_ctx_forget_cas(struct tls_ctx *t)
{
	free_trusts(t, false);
}

void tls_ctx_free(struct tls_ctx *t)
{
	if (!t)
		return;
	free_trusts(t, true);
	for (unsigned i = 0; i < t->n_sessions; i++)
		SSL_SESSION_free(t->sessions[i].s);
	SSL_CTX_free(t->server);
	free(t);
}

int tls_ctx_accept(struct tls_ctx *t, struct ca *ca, const struct host *h, SSL **ret, struct err *e)
{
	unsigned char id[HASH_LEN];
	struct host *copy;
	X509 *leaf;
	SSL *s;
	int r = ca_leaf(ca, h, &leaf, e);

	if (r < 0)
		return r;
	s = SSL_new(t->server);
	copy = malloc(sizeof(*copy));
	if (!s || !copy || SSL_use_certificate(s, leaf) != 1 ||
	    SSL_use_PrivateKey(s, mint_leaf_key(ca->mint)) != 1) {
		SSL_free(s);
		free(copy);
		return ssl_failure(e, "begin TLS with the client");
	}
	*copy = *h;
	SSL_set_ex_data(s, ex_host, copy);
	/* A ticket for one name is not valid for another. */
	hash_sha256(h->text, strlen(h->text), id);
	SSL_set_session_id_context(s, id, sizeof(id));
	SSL_set_accept_state(s);
	*ret = s;
	return 0;
}

/* Replaces the least recently used session when the cache is full. */
static int keep_session(SSL *s, SSL_SESSION *sess)
{
	struct tls_ctx *t = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(s), ex_ctx);
	const char *key = SSL_get_ex_data(s, ex_key);
	struct tls_session *slot = NULL;

	if (!t || !key)
		return 0;
	for (unsigned i = 0; i < t->n_sessions; i++) {
		struct tls_session *x = &t->sessions[i];

		if (strcmp(x->key, key) == 0) {
			slot = x;
			break;
		}
		if (!slot || x->used < slot->used)
			slot = x;
	}
	if ((!slot || strcmp(slot->key, key) != 0) && t->n_sessions < TLS_SESSIONS_MAX)
		slot = &t->sessions[t->n_sessions++];
	SSL_SESSION_free(slot->s);
	snprintf(slot->key, sizeof(slot->key), "%s", key);
	slot->s = sess;
	slot->used = ++t->clock;
	return 1;
}

static void reuse_session(struct tls_ctx *t, SSL *s, const char *key)
{
	for (unsigned i = 0; i < t->n_sessions; i++) {
		if (strcmp(t->sessions[i].key, key) == 0) {
			SSL_set_session(s, t->sessions[i].s);
			t->sessions[i].used = ++t->clock;
			return;
		}
	}
}

/* Adds every certificate of a PEM text; -ENOENT when it has none. */
static int add_pem_certs(X509_STORE *store, const char *pem, size_t len)
{
	BIO *b = BIO_new_mem_buf(pem, (int)len);
	int n = 0;
	X509 *x;

	while (b && (x = PEM_read_bio_X509(b, NULL, NULL, NULL)) != NULL) {
		if (X509_STORE_add_cert(store, x) == 1)
			n++;
		X509_free(x);
	}
	BIO_free(b);
	ERR_clear_error();
	return n ? 0 : -ENOENT;
}

/* Mapped, not read: an earlier egress process shares the file position. */
static int load_host_store(struct tls_ctx *t, SSL_CTX *ctx, struct err *e)
{
	struct stat st;
	void *p;
	int r;

	if (t->store_fd < 0)
		return err_set(e, -ENOENT, "no certificate store was given, so no server can be verified");
	/* The C library's fstat() is another system call, which the fence forbids. */
	if (syscall(SYS_fstat, t->store_fd, &st) < 0 || st.st_size <= 0 || st.st_size > STORE_MAX)
		return err_set(e, -EINVAL, "the certificate store is empty or too large");
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, t->store_fd, 0);
	if (p == MAP_FAILED)
		return err_sys(e, -errno, "cannot read the certificate store");
	r = add_pem_certs(SSL_CTX_get_cert_store(ctx), p, (size_t)st.st_size);
	munmap(p, (size_t)st.st_size);
	return r < 0 ? err_set(e, r, "there is no certificate in the certificate store") : 0;
}

static int new_trust(struct tls_ctx *t, const char *pem, const char *id, struct tls_trust **ret,
		     struct err *e)
{
	struct tls_trust *x = calloc(1, sizeof(*x));
	int r = 0;

	if (!x)
		return err_sys(e, -ENOMEM, "cannot set up TLS");
	x->ctx = new_ssl_ctx(TLS_client_method());
	if (!x->ctx) {
		free(x);
		return ssl_failure(e, "set up TLS");
	}
	snprintf(x->id, sizeof(x->id), "%s", id);
	SSL_CTX_set_ex_data(x->ctx, ex_ctx, t);
	SSL_CTX_set_verify(x->ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_session_cache_mode(x->ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(x->ctx, keep_session);
	if (!pem)
		r = load_host_store(t, x->ctx, e);
	else if (add_pem_certs(SSL_CTX_get_cert_store(x->ctx), pem, strlen(pem)) < 0)
		r = err_set(e, -EINVAL, "there is no certificate in the rule's ca");
	if (r < 0) {
		free_trust(x);
		return r;
	}
	/* A certificate named in a rule is trusted even when it is not a root. */
	if (pem)
		X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(x->ctx), X509_V_FLAG_PARTIAL_CHAIN);
	x->next = t->trusts;
	t->trusts = x;
	t->n_trusts++;
	*ret = x;
	return 0;
}

static int find_trust(struct tls_ctx *t, const char *pem, struct tls_trust **ret, struct err *e)
{
	unsigned char sum[HASH_LEN];
	char id[17] = "";

	if (pem) {
		hash_sha256(pem, strlen(pem), sum);
		hash_hex(sum, 8, id);
	}
	for (struct tls_trust *x = t->trusts; x; x = x->next) {
		if (strcmp(x->id, id) == 0) {
			*ret = x;
			return 0;
		}
	}
	if (t->n_trusts >= TLS_CAS_MAX)
		free_trusts(t, false);
	return new_trust(t, pem, id, ret, e);
}

static int set_server_name(SSL *s, const struct host *h)
{
	if (h->kind == HOST_ADDR)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(s), h->text);
	SSL_set_hostflags(s, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(s, h->text) == 1 && SSL_set_tlsext_host_name(s, h->text) == 1;
}

static int set_client_alpn(SSL *s, enum tls_alpn alpn)
{
	static const unsigned char both[] = "\x02h2\x08http/1.1";

	/* "h2" then "http/1.1": a prefix or a suffix of the list offers only one of them. */
	if (alpn == TLS_ALPN_H1)
		return SSL_set_alpn_protos(s, both + 3, 9);
	return SSL_set_alpn_protos(s, both, alpn == TLS_ALPN_H2 ? 3 : 12);
}

int tls_ctx_connect(struct tls_ctx *t, const struct host *h, uint16_t port, const char *ca_pem,
		    enum tls_alpn alpn, SSL **ret, struct err *e)
{
	struct tls_trust *trust = NULL;
	char key[KEY_LEN];
	char *copy;
	SSL *s;
	int r = find_trust(t, ca_pem, &trust, e);

	if (r < 0 || !trust)
		return r < 0 ? r : -EIO;
	snprintf(key, sizeof(key), "%s:%u:%s", h->text, port, trust->id);
	s = SSL_new(trust->ctx);
	copy = strdup(key);
	if (!s || !copy || !set_server_name(s, h) || set_client_alpn(s, alpn) != 0) {
		SSL_free(s);
		free(copy);
		return ssl_failure(e, "begin TLS with the server");
	}
	SSL_set_ex_data(s, ex_key, copy);
	reuse_session(t, s, key);
	SSL_set_connect_state(s);
	*ret = s;
	return 0;
}

bool tls_is_h2(const SSL *s)
{
	const unsigned char *p;
	unsigned n;

	SSL_get0_alpn_selected(s, &p, &n);
	return n == 2 && memcmp(p, "h2", 2) == 0;
}

const char *tls_verify_error(const SSL *s)
{
	long r = SSL_get_verify_result(s);

	return r == X509_V_OK ? NULL : X509_verify_cert_error_string(r);
}
