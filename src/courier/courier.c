/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of coffer-courier: take the job, set up resolver and TLS, confine, dial, talk, report. Nothing
 * from the network is read before fence_up() (courier.U5).
 */
#include "courier/courier.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "courier/courier_int.h"
#include "ipc/fdpass.h"

#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

#define MESSAGE_MAX (512 + HOST_MAX + COURIER_TARGET_MAX + COURIER_FIELDS_MAX + COURIER_BODY_MAX)

static void assign_job_fds(struct courier *c, const int *fds)
{
	struct {
		unsigned flag;
		int *to;
	} of[] = { { COURIER_HAS_RESOLV, &c->resolv },
		   { COURIER_HAS_STORE, &c->store },
		   { COURIER_HAS_CA, &c->ca },
		   { COURIER_HAS_KEY, &c->key },
		   { COURIER_HAS_VAULT, &c->vault } };
	size_t at = 0;

	for (size_t i = 0; i < ARRAY_SIZE(of); i++) {
		if (c->job.flags & of[i].flag)
			*of[i].to = fds[at++];
	}
}

static int receive_job(struct courier *c, struct err *e)
{
	int fds[COURIER_FDS_MAX];
	char *to = buf_reserve(&c->message, MESSAGE_MAX);
	size_t got = 0;
	int n = to ? fdpass_recv_some(COURIER_FD_CONTROL, to, MESSAGE_MAX, &got, fds, COURIER_FDS_MAX)
		   : -ENOMEM;

	if (n < 0)
		return err_sys(e, n, "cannot take the job");
	c->message.len = got;
	if (courier_job_parse(c->message.data, got, (size_t)n, &c->job) < 0)
		return err_set(e, -EBADMSG, "the job cannot be read");
	assign_job_fds(c, fds);
	c->deadline = clock_nsec(CLOCK_MONOTONIC) + c->job.timeout_ms * NSEC_PER_MSEC;
	return 0;
}

static int read_job_ca(struct courier *c, struct err *e)
{
	int r = c->ca < 0 ? 0 : fd_read_all(c->ca, COURIER_CA_MAX, &c->pem);

	if (r == 0 && c->ca >= 0 && strlen(buf_cstr(&c->pem)) != c->pem.len)
		r = -EINVAL;
	return r < 0 ? err_sys(e, r, "cannot read the target's CA") : 0;
}

/* The resolver and the TLS library are set up first: they open files, which the fence forbids. */
static int carry_job(struct courier *c, struct courier_response *a, struct err *e)
{
	int r = receive_job(c, e);

	courier_response_init(a, c->job.method);
	r = r < 0 ? r : read_job_ca(c, e);
	r = r < 0 ? r : courier_dial_open(c, e);
	r = r < 0 ? r : tls_ctx_new(&c->tls, c->store, e);
	tzset(); /* certificates have dates, and the first date opens /etc/localtime */
	r = r < 0 ? r : fence_up(&courier_fence, e);
	r = r < 0 ? r : courier_dial(c, e);
	return r < 0 ? r : courier_talk(c, a, e);
}

static void set_result_text(char to[COURIER_WHY_LEN], const char *s, size_t len)
{
	autobuf struct buf safe = BUF_INIT;

	str_add_safe(&safe, s, len, false);
	snprintf(to, COURIER_WHY_LEN, "%s", buf_cstr(&safe));
}

static void send_result_message(int r, const struct courier_response *a, const struct err *e, uint64_t began)
{
	struct courier_result res = { .magic = COURIER_RESULT_MAGIC };

	res.ms = (uint32_t)((clock_nsec(CLOCK_MONOTONIC) - began) / NSEC_PER_MSEC);
	if (r < 0) {
		res.error = r;
		set_result_text(res.why, e->msg, strlen(e->msg));
	} else {
		res.status = a->status;
		res.retry_after = a->retry_after;
		set_result_text(res.text, buf_cstr(&a->text), a->text.len);
	}
	(void)!send(COURIER_FD_CONTROL, &res, sizeof(res), MSG_NOSIGNAL);
}

int courier_main(int argc, char **argv)
{
	static struct courier c = { .resolv = -1, .store = -1, .ca = -1, .key = -1, .vault = -1, .sock = -1 };
	static struct courier_response a;
	uint64_t began = clock_nsec(CLOCK_MONOTONIC);
	struct err e = ERR_INIT;
	socklen_t len = sizeof(int);
	int type = 0, r;

	(void)argv;
	if (argc != 1 || getsockopt(COURIER_FD_CONTROL, SOL_SOCKET, SO_TYPE, &type, &len) < 0 ||
	    type != SOCK_SEQPACKET) {
		fprintf(stderr, "coffer-courier: started by coffer for one message, not by hand\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	c.loop = LOOP_INIT;
	c.own = OWN_PROBE_INIT;
	c.secret.wipe = true;
	if (sodium_init() < 0)
		return 125;
	r = carry_job(&c, &a, &e);
	send_result_message(r, &a, &e, began);
	courier_response_release(&a);
	courier_dial_close(&c);
	tls_ctx_free(c.tls);
	buf_release(&c.pem);
	buf_release(&c.secret);
	buf_release(&c.message);
	return r < 0 ? 1 : 0;
}
