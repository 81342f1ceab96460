/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer net log: one line for each refused lookup, each connection and each request. An allowed connection
 * is shown when it has ended, with its bytes; one that is still open at the end of the log is shown as
 * open. With --follow it is shown both when it opens and when it ends.
 */
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/core/say.h"
#include "cli/net/cmd_net.h"
#include "policy/shorten.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define OPEN_MAX_KEPT 8192 /* connections kept until their end is seen; past that they are shown at once */

struct open_conn {
	char sandbox[RUN_ID_LEN + 1];
	uint64_t conn;
	char time[20];
	char *host, *depth, *rule;
	uint64_t port;
};

struct log_view {
	const struct net_args *args;
	struct buf out;
	size_t width; /* of the terminal; 0: output is a file or a pipe */
	bool color, head;
	struct open_conn *open;
	size_t n_open;
};

static void open_conn_release(struct open_conn *o)
{
	free(o->host);
	free(o->depth);
	free(o->rule);
}

/* One row. Column widths are fixed, because rows are printed before later ones are known. */
struct row {
	const char *time, *sandbox, *host, *depth, *decision, *rule, *up, *down, *took;
	uint64_t port;
	bool denied;
};

static void add_padded_cell(struct buf *out, const char *text, size_t width)
{
	autobuf struct buf safe = BUF_INIT;
	size_t n;

	str_add_safe(&safe, text, strlen(text), false);
	n = safe.len;
	if (width && n > width) {
		size_t before = out->len;

		shorten_text(buf_cstr(&safe), width, "~", out);
		for (n = out->len - before; n <= width; n++)
			buf_addc(out, ' ');
		return;
	}
	buf_add(out, buf_cstr(&safe), n);
	for (; n <= width; n++)
		buf_addc(out, ' ');
}

#define WIDE 170       /* columns from which all cells fit */
#define NARROW_REST 58 /* columns of the other cells in the narrow layout */

static void add_decision_cell(struct log_view *v, const struct row *r, size_t width)
{
	const char *word = str_eq(r->decision, "deny") ? "denied" : r->decision;

	if (v->color && r->denied)
		buf_adds(&v->out, "\033[31m");
	add_padded_cell(&v->out, word, width);
	if (v->color && r->denied)
		buf_adds(&v->out, "\033[0m");
}

/* Adds the last cell, cut to the rest of the line instead of wrapped. */
static void add_last_cell(struct log_view *v, const char *text, size_t used)
{
	size_t left = v->width > used ? v->width - used : 0;
	autobuf struct buf cell = BUF_INIT;

	if (!left) {
		add_padded_cell(&v->out, text, 0);
		return;
	}
	add_padded_cell(&cell, text, left - 1);
	while (cell.len && cell.data[cell.len - 1] == ' ')
		cell.len--;
	buf_add(&v->out, cell.data, cell.len);
}

/*
 * The layout for a narrow terminal: a denied row shows its reason, an allowed one its bytes, and the rule
 * if it fits.
 */
static void add_narrow_row(struct log_view *v, const struct row *r, const char *port)
{
	size_t name = v->width < NARROW_REST + 16   ? 16
		      : v->width > NARROW_REST + 36 ? 36
						    : v->width - NARROW_REST;
	size_t used = 9 + 9 + name + 1 + 6 + 7;
	bool head = !v->head;
	char id[9];

	add_padded_cell(&v->out, head ? r->time : strlen(r->time) > 11 ? r->time + 11 : r->time, 8);
	/* A prefix of the id suffices: every command accepts one. */
	snprintf(id, sizeof(id), "%s", r->sandbox);
	add_padded_cell(&v->out, id, 8);
	add_padded_cell(&v->out, r->host, name);
	add_padded_cell(&v->out, port, 5);
	add_decision_cell(v, r, 6);
	if (head) {
		add_last_cell(v, "UP      DOWN    TOOK/WHY", used);
	} else if (r->denied) {
		add_last_cell(v, r->rule ? r->rule : "-", used);
	} else {
		add_padded_cell(&v->out, r->up, 7);
		add_padded_cell(&v->out, r->down, 7);
		add_padded_cell(&v->out, r->took, 8);
		if (v->width > used + 25 + 12)
			add_last_cell(v, r->rule ? r->rule : "-", used + 25);
	}
	buf_addc(&v->out, '\n');
}

static void add_wide_row(struct log_view *v, const struct row *r, const char *port)
{
	add_padded_cell(&v->out, r->time, 19);
	add_padded_cell(&v->out, r->sandbox, 12);
	add_padded_cell(&v->out, r->host, 36);
	add_padded_cell(&v->out, port, 5);
	add_padded_cell(&v->out, r->depth ? r->depth : "-", 7);
	add_decision_cell(v, r, 8);
	add_padded_cell(&v->out, r->up, 9);
	add_padded_cell(&v->out, r->down, 9);
	add_padded_cell(&v->out, r->took, 8);
	add_last_cell(v, r->rule ? r->rule : "-", 20 + 13 + 37 + 6 + 8 + 9 + 10 + 10 + 9);
	buf_addc(&v->out, '\n');
}

static void add_log_row(struct log_view *v, const struct row *r)
{
	static const struct row head = { .time = "TIME",
					 .sandbox = "SANDBOX",
					 .host = "NAME",
					 .depth = "DEPTH",
					 .decision = "DECISION",
					 .rule = "RULE",
					 .up = "UP",
					 .down = "DOWN",
					 .took = "TOOK" };
	static const struct row narrow = {
		.time = "TIME", .sandbox = "SANDBOX", .host = "NAME", .decision = "WHAT"
	};
	bool is_narrow = v->width && v->width < WIDE;
	void (*add_row)(struct log_view *, const struct row *, const char *) =
		is_narrow ? add_narrow_row : add_wide_row;
	char port[24];

	if (!v->head)
		add_row(v, is_narrow ? &narrow : &head, "PORT");
	v->head = true;
	snprintf(port, sizeof(port), "%llu", (unsigned long long)r->port);
	add_row(v, r, r->port ? port : "-");
}

static void row_from_event(struct row *r, const struct net_event *ev, char time[20])
{
	snprintf(time, 20, "%.19s", ev->time_text);
	*r = (struct row){ .time = time,
			   .sandbox = ev->sandbox,
			   .host = cli_net_event_host(ev),
			   .depth = ev->depth,
			   .decision = ev->decision ? ev->decision : "-",
			   .rule = ev->why && ev->denied ? ev->why : ev->rule,
			   .up = "-",
			   .down = "-",
			   .took = "-",
			   .port = ev->port,
			   .denied = ev->denied };
}

static size_t find_open_conn(const struct log_view *v, const struct net_event *ev)
{
	size_t i = 0;

	while (i < v->n_open && (v->open[i].conn != ev->conn || !str_eq(v->open[i].sandbox, ev->sandbox)))
		i++;
	return i;
}

static char *copy_or_null(const char *s)
{
	return s ? strdup(s) : NULL;
}

/*
 * Keeps an open connection until its end is seen. False: the table is full, and the row must be shown now.
 */
static bool keep_open_conn(struct log_view *v, const struct net_event *ev)
{
	struct open_conn *o;

	if (v->n_open == OPEN_MAX_KEPT)
		return false;
	if (VEC_MORE(v->open, v->n_open, OPEN_MAX_KEPT) < 0)
		return false;
	o = &v->open[v->n_open++];
	*o = (struct open_conn){ .conn = ev->conn,
				 .host = copy_or_null(cli_net_event_host(ev)),
				 .depth = copy_or_null(ev->depth),
				 .rule = copy_or_null(ev->rule),
				 .port = ev->port };
	snprintf(o->sandbox, sizeof(o->sandbox), "%s", ev->sandbox);
	snprintf(o->time, sizeof(o->time), "%.19s", ev->time_text);
	return true;
}

static void show_closed_conn(struct log_view *v, const struct net_event *ev)
{
	char time[20], up[16], down[16], took[CLOCK_TEXT_LEN];
	size_t at = find_open_conn(v, ev);
	struct row r;

	row_from_event(&r, ev, time);
	r.up = str_from_size(ev->up, up);
	r.down = str_from_size(ev->down, down);
	r.took = clock_span(ev->ms * NSEC_PER_MSEC, took);
	r.decision = "allow";
	if (at < v->n_open) {
		r.depth = v->open[at].depth;
		r.rule = v->open[at].rule;
		r.host = v->open[at].host ? v->open[at].host : r.host;
	}
	add_log_row(v, &r);
	if (at < v->n_open) {
		open_conn_release(&v->open[at]);
		v->open[at] = v->open[--v->n_open];
	}
}

/*
 * Host and count of a sum: "DELETE a.test/x", "12 times"; for several destinations "others", "120 times,
 * most often: 100 a.test:443, 20 b.test:443".
 */
static void add_sum_cells(struct buf *host, struct buf *count, const struct net_event *ev)
{
	const char *name = cli_net_event_host(ev);

	if (ev->method)
		buf_addf(host, "%s ", ev->method);
	buf_adds(host, str_eq(name, "*") || str_eq(name, "-") ? "(others)" : name);
	buf_adds(host, ev->path ? ev->path : "");
	buf_addf(count, "%llu %stimes", (unsigned long long)ev->count,
		 ev->kind == NETEV_FOLDED ? "more " : "");
	if (ev->top)
		buf_addf(count, ", most often: %s", ev->top);
}

static void show_event_row(struct log_view *v, const struct net_event *ev)
{
	autobuf struct buf host = BUF_INIT, count = BUF_INIT;
	char time[20];
	struct row r;

	row_from_event(&r, ev, time);
	if (cli_net_event_is_sum(ev)) {
		add_sum_cells(&host, &count, ev);
		r.depth = ev->kind == NETEV_DNS ? "dns" : ev->folded ? ev->folded : "folded";
		r.rule = buf_cstr(&count);
		r.denied = ev->denied || ev->kind == NETEV_ALERT;
		r.decision = ev->decision && *ev->decision ? ev->decision : "-";
	} else if (ev->kind == NETEV_DNS) {
		buf_addf(&host, "%s (%s)", cli_net_event_host(ev), ev->qtype ? ev->qtype : "?");
		r.depth = "dns";
	} else if (ev->kind == NETEV_REQUEST) {
		buf_addf(&host, "%s %s%s", ev->method ? ev->method : "?", cli_net_event_host(ev),
			 ev->path ? ev->path : "");
		r.depth = "http";
	} else if (ev->kind == NETEV_REFUSED) {
		buf_addf(&count, "%llu times", (unsigned long long)ev->count);
		r.depth = ev->proto;
		r.rule = buf_cstr(&count);
		r.denied = true;
		r.decision = "deny";
	} else if (ev->kind == NETEV_ALERT) {
		r.decision = "ALERT";
		r.rule = ev->text;
		r.denied = true;
	}
	if (host.len && !buf_error(&host))
		r.host = buf_cstr(&host);
	add_log_row(v, &r);
}

/* Prints the event's JSON object from the log, with its sandbox. */
static int show_event_json(struct log_view *v, struct net_event *ev)
{
	char *text;

	json_object_set_new(ev->obj, "sandbox", json_string(ev->sandbox));
	json_object_set_new(ev->obj, "time", json_stringn(ev->time_text, LINE_TIME_LEN));
	json_object_set_new(ev->obj, "type", json_string(ev->type));
	text = json_dumps(ev->obj, JSON_COMPACT | JSON_ENSURE_ASCII);
	if (!text)
		return -ENOMEM;
	buf_addf(&v->out, "%s\n", text);
	free(text);
	return 0;
}

static bool is_wanted_event(const struct log_view *v, const struct net_event *ev)
{
	bool odd = ev->kind == NETEV_ALERT || ev->kind == NETEV_REFUSED;

	if (v->args->denied)
		return ev->denied || odd;
	switch (ev->kind) {
	case NETEV_DNS:
		return ev->denied || v->args->json;
	case NETEV_OPEN:
	case NETEV_CLOSE:
	case NETEV_REQUEST:
	case NETEV_FOLDED:
		return true;
	default:
		return odd || v->args->json;
	}
}

static int flush_log_view(struct log_view *v)
{
	int r = buf_error(&v->out) ? -ENOMEM : say_out(&v->out) ? -EPIPE : 0;

	buf_clear(&v->out);
	return r;
}

static int on_log_event(void *ctx, struct net_event *ev)
{
	struct log_view *v = ctx;

	if (!is_wanted_event(v, ev))
		return 0;
	if (v->args->json)
		return show_event_json(v, ev);
	if (ev->kind == NETEV_CLOSE)
		show_closed_conn(v, ev);
	else if (ev->kind != NETEV_OPEN || ev->denied || !keep_open_conn(v, ev) || v->args->follow)
		show_event_row(v, ev);
	return v->out.len > 65536 ? flush_log_view(v) : 0;
}

static int on_log_idle(void *ctx)
{
	return flush_log_view(ctx);
}

static void show_still_open(struct log_view *v)
{
	for (size_t i = 0; i < v->n_open; i++) {
		const struct open_conn *o = &v->open[i];
		struct row r = { o->time,  o->sandbox, o->host ? o->host : "-",
				 o->depth, "allow",    o->rule,
				 "-",	   "-",	       "open",
				 o->port,  false };

		add_log_row(v, &r);
	}
}

static size_t terminal_width(void)
{
	struct winsize ws;

	return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col >= 40
		       ? ws.ws_col
		       : 0;
}

int cli_net_log(struct state *st, const struct net_args *args)
{
	struct log_view v = { .args = args, .color = say_colors(STDOUT_FILENO), .width = terminal_width() };
	struct err e = ERR_INIT;
	int r;

	if (args->follow)
		r = cli_net_events_follow(st, &args->range, on_log_event, on_log_idle, &v, &e);
	else
		r = cli_net_events(st, &args->range, on_log_event, &v, &e);
	if (r == 0 && !args->json)
		show_still_open(&v);
	if (r == 0)
		r = flush_log_view(&v);
	for (size_t i = 0; i < v.n_open; i++)
		open_conn_release(&v.open[i]);
	free(v.open);
	buf_release(&v.out);
	if (r < 0 && !e.code)
		return r == -EPIPE ? 0 : say_error((err_sys(&e, r, "cannot show the log"), &e));
	return r < 0 ? say_error(&e) : 0;
}
