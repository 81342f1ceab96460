/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins the parts of cofferd beside the pool (gate.h): opens and closes them in order, passes events between
 * them, and reports their status. No secret and no passphrase passes through here, only descriptors of
 * channels.
 */
#include "daemon/gate.h"

#include "base/fd.h"
#include "cofferdc/cofferd_int.h"
#include "daemon/db/db.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

static bool vault_is_locked(void *ctx)
{
	const struct gate *g = ctx;

	return vaultd_state(&g->vault) == VAULTD_LOCKED;
}

static void on_vault_opened(void *ctx)
{
	struct gate *g = ctx;

	if (g->keeper)
		keeper_unlocked(g->keeper);
}

static int open_keeper(struct gate *g, struct err *e)
{
	const struct keeper_with w = { g->st, g->loop, g->audit, g->coffer_fd, vault_is_locked, g };
	int r;

	if (g->keeper)
		return 0;
	r = keeper_open(&g->keeper, &w, e);
	if (r < 0)
		snprintf(g->trouble, sizeof(g->trouble), "%s", e->msg);
	else
		g->trouble[0] = '\0';
	return r;
}

static void log_gateway_event(struct gate *g, const char *type)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	json_str(&j, "version", COFFER_VERSION);
	json_u64(&j, "pid", (uint64_t)getpid());
	/* A daemon that only maintains the pool has nothing to report. */
	if (g->keeper && !buf_error(&b))
		(void)!audit_append(g->audit, type, NULL, &b, NULL);
}

int gate_open(struct gate *g, struct err *e)
{
	struct err own = ERR_INIT;
	int r = audit_open(&g->audit, g->st->fd, e);

	if (r < 0)
		return r;
	g->helpers.audit = g->audit;
	g->vault = (struct vaultd){ .st = g->st,
				    .loop = g->loop,
				    .audit = g->audit,
				    .helpers = &g->helpers,
				    .opened = on_vault_opened,
				    .ctx = g };
	vaultd_begin(&g->vault);
	g->due = (struct due){ .st = g->st,
			       .audit = g->audit,
			       .helpers = &g->helpers,
			       .vault = &g->vault,
			       .coffer_fd = g->coffer_fd };
	due_begin(&g->due);
	g->started = clock_nsec(CLOCK_REALTIME);
	r = webd_open(&g->web,
		      &(struct webd_with){ .st = g->st,
					   .loop = g->loop,
					   .audit = g->audit,
					   .helpers = &g->helpers,
					   .coffer_fd = g->coffer_fd,
					   .metrics = g->metrics,
					   .metrics_ctx = g->metrics_ctx,
					   .started = g->started },
		      e);
	if (r < 0)
		return r;
	if (!g->stay && !db_exists(g->st))
		return 0;
	r = open_keeper(g, &own);
	if (r == 0)
		log_gateway_event(g, "gateway.start");
	else if (g->stay)
		*e = own;
	return g->stay ? r : 0;
}

void gate_close(struct gate *g)
{
	log_gateway_event(g, "gateway.stop");
	webd_close(g->web);
	g->web = NULL;
	due_end(&g->due);
	vaultd_end(&g->vault);
	keeper_close(g->keeper);
	audit_free(g->audit);
	g->keeper = NULL;
	g->audit = NULL;
}

int gate_keep(struct gate *g, const char *id, struct err *e)
{
	bool had = g->keeper != NULL;
	int r = open_keeper(g, e);

	if (r == 0 && !had)
		log_gateway_event(g, "gateway.start");
	return r < 0 ? r : keeper_keep(g->keeper, id, e);
}

int gate_reload(struct gate *g, struct err *e)
{
	due_retry_now(&g->due);
	if (!g->keeper && !g->stay && !db_exists(g->st))
		return 0;
	if (!g->keeper)
		return open_keeper(g, e);
	return keeper_look_at_all(g->keeper, e);
}

bool gate_is_busy(const struct gate *g)
{
	return g->stay || webd_is_busy(g->web) || (g->keeper && keeper_is_busy(g->keeper)) ||
	       vaultd_is_busy(&g->vault) || due_is_busy(&g->due);
}

void gate_tick(struct gate *g)
{
	due_tick(&g->due);
}

/* Another hold on the same connection replaces the first, whose channel its guard has lost. */
static int gate_vault_hold(struct gate *g, struct gate_lease *l, const struct cofferd_msg *m, int *ret_fd,
			   struct err *e)
{
	const char *ask = m->body + RUN_ID_LEN + 1;
	int r = vaultd_hold(&g->vault, m->body, ask, m->len - RUN_ID_LEN - 1, ret_fd, e);

	if (r == 0 && !l->holds)
		g->vault.leases++;
	l->holds = l->holds || r == 0;
	return r;
}

static int gate_vault_unlock(struct gate *g, struct gate_lease *l, int *ret_fd, struct err *e)
{
	int r = vaultd_unlock(&g->vault, ret_fd, e);

	/* An earlier connection that was unlocking has lost its vault. */
	if (r > 0)
		g->typing = l;
	return r < 0 ? r : 0;
}

int gate_vault(struct gate *g, struct gate_lease *l, const struct cofferd_msg *m, int *ret_fd, struct err *e)
{
	switch (m->head.want) {
	case COFFERD_HOLD:
		return gate_vault_hold(g, l, m, ret_fd, e);
	case COFFERD_UNLOCK:
		return gate_vault_unlock(g, l, ret_fd, e);
	case COFFERD_UNLOCKED:
		if (g->typing != l)
			return err_set(e, -EPROTO, "another client is unlocking the vault");
		g->typing = NULL;
		return vaultd_unlocked(&g->vault, e);
	default:
		g->typing = NULL;
		return vaultd_lock(&g->vault, e);
	}
}

void gate_lease_end(struct gate *g, struct gate_lease *l)
{
	if (l->holds)
		g->vault.leases--;
	if (g->typing == l) {
		g->typing = NULL;
		vaultd_cancel_unlock(&g->vault);
	}
	*l = (struct gate_lease){ 0 };
}

void gate_reaped(struct gate *g, pid_t pid, int status)
{
	if (!webd_reaped(g->web, pid, status) && !due_reaped(&g->due, pid, status) && g->keeper)
		(void)keeper_reaped(g->keeper, pid, status);
}

static void add_pool_status(struct json *j, const struct pool_count *p)
{
	json_obj(j, "pool");
	json_u64(j, "ready", p->ready);
	json_u64(j, "starting", p->starting);
	json_u64(j, "kinds", p->templates);
	json_u64(j, "bytes", p->held);
	json_end_obj(j);
}

static void add_own_status(struct gate *g, struct json *j, bool replaced)
{
	char text[CLOCK_TEXT_LEN];
	uint64_t now = clock_nsec(CLOCK_REALTIME);

	json_u64(j, "pid", (uint64_t)getpid());
	json_str(j, "version", COFFER_VERSION);
	json_bool(j, "replaced", replaced);
	json_str(j, "started", clock_format(g->started, text));
	json_u64(j, "uptime_s", now > g->started ? (now - g->started) / NSEC_PER_SEC : 0);
	json_bool(j, "stays", g->stay);
	json_bool(j, "activated", g->activated);
	json_str(j, "state", g->st->path);
	vaultd_json(&g->vault, j);
	due_json(&g->due, j);
	if (*g->trouble)
		json_str(j, "trouble", g->trouble);
}

int gate_status(struct gate *g, const struct pool_count *pool, bool replaced)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	autoclose int fd = memfd_create("status", MFD_CLOEXEC);

	json_obj(&j, NULL);
	add_own_status(g, &j, replaced);
	add_pool_status(&j, pool);
	helpers_json(&g->helpers, clock_nsec(CLOCK_MONOTONIC), &j, "helpers");
	if (g->keeper) {
		keeper_json(g->keeper, &j);
	} else {
		json_none(&j, "database");
		json_arr(&j, "sandboxes");
		json_end_arr(&j);
	}
	json_end_obj(&j);
	buf_addc(&b, '\n');
	if (fd < 0 || buf_error(&b) || fd_write_all(fd, b.data, b.len) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return -1;
	return TAKE_FD(fd);
}
