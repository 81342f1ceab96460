/* SPDX-License-Identifier: Apache-2.0 */
/* cofferd's side of the API without a coffer-web: what is done only when it is in the log, credentials whose time is over, ids that come
 * again, and one on the other end of the channel that does not read. */
#include "audit/audit.h"
#include "daemon/broker/webd_int.h"
#include "statedir.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

static struct state st;
static struct loop loop = LOOP_INIT;
static struct audit *audit_log;
static struct helpers helpers;
static unsigned heard;

static struct webd *open_webd(void)
{
	/* A program that does nothing of what it is asked, and ends. */
	static int program = -1;
	struct webd_with w = { .st = &st, .loop = &loop, .audit = audit_log, .helpers = &helpers };
	struct webd *d = NULL;
	struct err e = ERR_INIT;

	if (program < 0)
		program = open("/bin/true", O_PATH | O_CLOEXEC);
	w.coffer_fd = program;
	CHECKF(webd_open(&d, &w, &e) == 0, "the web daemon opens %s", e.msg);
	return d;
}

static int control(struct webd *d, const struct webctl *c, struct buf *ret)
{
	struct err e = ERR_INIT;
	int fd = -1, r = webd_control(d, c, &fd, &e);

	if (r == 0 && ret)
		CHECK(fd_read_all(fd, 1u << 20, ret) == 0);
	fd_close(fd);
	return r;
}

static struct webctl token(const char *name, unsigned char mark)
{
	struct webctl c = { .op = WEBCTL_TOKEN, .role = WEB_OBSERVER };

	memset(c.hash, mark, sizeof(c.hash));
	snprintf(c.name, sizeof(c.name), "%s", name);
	return c;
}

static struct webctl listener(void)
{
	struct webctl c = { .op = WEBCTL_LISTEN, .hosts = "coffer.example.org" };
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 &&
	      getsockname(fd, (struct sockaddr *)&a, &len) == 0);
	fd_close(fd);
	snprintf(c.listen, sizeof(c.listen), "127.0.0.1:%u", ntohs(a.sin_port));
	return c;
}

static void limit_files(rlim_t most)
{
	struct rlimit l;

	CHECK(getrlimit(RLIMIT_FSIZE, &l) == 0);
	l.rlim_cur = most;
	CHECK(setrlimit(RLIMIT_FSIZE, &l) == 0);
}

static bool is_logged(const char *text)
{
	autobuf struct buf b = BUF_INIT;

	return fd_read_file(st.fd, "audit/log.jsonl", 1 << 20, &b) == 0 && strstr(buf_cstr(&b), text);
}

/* W2 */
static void test_log_first(void)
{
	struct webctl a = token("a", 1), b = token("b", 2), ls = { .op = WEBCTL_LS }, place = listener(),
		      rm = { .op = WEBCTL_RM, .name = "a" };
	struct webd *d = open_webd();
	autobuf struct buf told = BUF_INIT;

	CHECK(control(d, &a, NULL) == 0 && is_logged("\"name\":\"a\""));
	signal(SIGXFSZ, SIG_IGN);
	limit_files(1);
	CHECK(control(d, &b, NULL) == -EIO);
	CHECK(control(d, &rm, NULL) == -EIO);
	CHECK(control(d, &place, NULL) == -EIO && d->n_listeners == 0);
	limit_files(RLIM_INFINITY);
	CHECK(control(d, &ls, &told) == 0 && strstr(buf_cstr(&told), "\"a\"") &&
	      !strstr(buf_cstr(&told), "\"b\""));
	CHECK(control(d, &place, NULL) == 0 && d->n_listeners == 1 &&
	      is_logged("\"hosts\":\"coffer.example.org\""));
	CHECK(control(d, &rm, NULL) == 0);
	CHECK(control(d, &rm, NULL) == -ENOENT);
	webd_close(d);
	CHECK(unlinkat(st.fd, WEBD_FILE, 0) == 0);
}

/* W4 */
static void test_expiry(void)
{
	struct webctl t = token("short", 3);
	struct webp_req q = { .id = 1, .op = WEB_EVENTS, .cred = WEB_CRED_TOKEN };
	struct webd *d = open_webd();
	uint64_t late = clock_nsec(CLOCK_MONOTONIC) + 60 * NSEC_PER_SEC;
	struct err e = ERR_INIT;

	t.expires = clock_nsec(CLOCK_REALTIME) + NSEC_PER_SEC;
	memcpy(q.key, t.hash, HASH_LEN);
	CHECK(control(d, &t, NULL) == 0 && webd_add_job(d, &q, WEBP_ST_STREAM) != NULL);
	d->n_streams++;
	while (d->jobs && clock_nsec(CLOCK_MONOTONIC) < late)
		CHECK(loop_round(&loop, &e) == 0);
	CHECK(!d->jobs && d->n_streams == 0 && d->n_creds == 0);
	webd_close(d);
}

static void test_ids(void)
{
	struct webp_req q = { .id = 1, .op = WEB_STOP, .cred = WEB_CRED_OWNER };
	struct webd *d = open_webd();
	struct job *old = webd_add_job(d, &q, WEBP_ST_WORK), *now;

	old->pid = getpid(); /* what changes something is not ended */
	webd_cancel(d, 1);
	CHECK(d->jobs == old && old->is_gone);
	now = webd_add_job(d, &q, WEBP_ST_WORK);
	CHECK(now && d->n_jobs == 2);
	webd_cancel(d, 1);
	CHECK(d->n_jobs == 1 && d->jobs == old);
	webd_close(d);
}

/* Ids begin anew with each coffer-web: one that is gone, and one of the next with the same id, have nothing to do with each other. */
static void test_ids_again(void)
{
	struct webp_req stop = { .id = 7, .op = WEB_STOP, .cred = WEB_CRED_OWNER },
			stream = { .id = 7, .op = WEB_EVENTS, .cred = WEB_CRED_TOKEN };
	struct webd *d = open_webd();
	struct job *gone = webd_add_job(d, &stop, WEBP_ST_WORK);
	pid_t pid = fork();

	if (pid == 0)
		_exit(pause());
	CHECK(gone && pid > 0);
	gone->pid = pid;
	webd_end_jobs(d);
	CHECKF(gone->is_gone && d->jobs == gone, "a job that changes state goes on when coffer-web dies");
	CHECK(webd_add_job(d, &stream, WEBP_ST_STREAM) && webd_add_job(d, &stream, WEBP_ST_STREAM));
	d->n_streams += 2;
	webd_end_streams_of(d, stream.key);
	CHECKF(d->jobs == gone && !gone->next,
	       "a job that changes state survives the end of the next coffer-web's streams");
	CHECK(webd_add_job(d, &stream, WEBP_ST_STREAM));
	d->n_streams++;
	webd_end_jobs(d);
	CHECKF(d->jobs == gone && !gone->next && kill(pid, 0) == 0,
	       "a job survives the death of the next coffer-web");
	gone->pid = 0;
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, NULL, 0) == pid);
	webd_close(d);
}

/* W3: one credential does not have all workers, nor the whole queue. */
static void test_share(void)
{
	struct webctl t[2] = { token("busy", 5), token("other", 6) };
	struct webd *d = open_webd();
	struct webp_req q = { .op = WEB_SANDBOXES, .cred = WEB_CRED_TOKEN };
	int status;
	pid_t pid;

	CHECK(control(d, &t[0], NULL) == 0 && control(d, &t[1], NULL) == 0);
	memcpy(q.key, t[0].hash, HASH_LEN);
	for (q.id = 1; q.id <= 100; q.id++) {
		q.v[1] = (struct web_value){ .has = true, .n = q.id }; /* limit: each is another */
		webd_request(d, &q);
	}
	CHECK(d->n_running == WEBD_WORKERS_EACH && d->n_jobs == WEBD_WORKERS_EACH + WEBD_WAITING_EACH);
	memcpy(q.key, t[1].hash, HASH_LEN);
	webd_request(d, &q);
	CHECK(d->n_running == WEBD_WORKERS_EACH + 1);
	/* Each ends at once, and the next has its turn. */
	while (d->jobs && (pid = waitpid(-1, &status, 0)) > 0)
		CHECK(webd_job_reaped(d, pid, status) && d->n_running <= WEBD_WORKERS_EACH + 1);
	CHECK(!d->jobs && d->n_running == 0);
	webd_close(d);
}

/* pid -1: whichever ends first. */
static void end_pid(struct webd *d, pid_t pid)
{
	int status;

	pid = waitpid(pid, &status, 0);
	CHECK(pid > 0 && webd_job_reaped(d, pid, status));
}

static void end_one(struct webd *d)
{
	end_pid(d, -1);
}

static void ask_all(struct webd *d, struct webp_req *q, const struct webctl *who, size_t n, unsigned times)
{
	for (unsigned i = 0; i < times; i++) {
		memcpy(q->key, who[i % n].hash, HASH_LEN);
		q->id++;
		webd_request(d, q);
	}
}

/* H1, H2: many who ask for the same are one who does, and one who waits. */
static void test_once_for_all(void)
{
	struct webctl t[4] = { token("a", 11), token("b", 12), token("c", 13), token("op", 14) };
	struct webd *d = open_webd();
	struct webp_req q = { .op = WEB_SANDBOXES, .cred = WEB_CRED_TOKEN };
	pid_t pids[WEBD_WORKERS];
	size_t n = 0;

	t[3].role = WEB_OPERATOR;
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		CHECK(control(d, &t[i], NULL) == 0);
	ask_all(d, &q, t, 3, 1);
	CHECK(d->n_running == 1);
	ask_all(d, &q, t, 3, 60);
	CHECKF(d->n_running == 1 && !webd_next_sharer(d, d->jobs),
	       "a later request does not share a job that runs already");
	ask_all(d, &q, t + 3, 1, 1);
	CHECKF(d->n_running == 2, "a request of another role gets a job of its own");
	q.v[1] = (struct web_value){ .has = true, .n = 7 };
	ask_all(d, &q, t, 1, 1);
	CHECKF(d->n_running == 3, "a request with other parameters gets a job of its own");
	/* All that has begun: the end of the first leads to the one for those who waited. */
	for (struct job *x = d->jobs; x; x = x->next) {
		if (x->pid)
			pids[n++] = x->pid;
	}
	for (size_t i = 0; i < n; i++)
		end_pid(d, pids[i]);
	CHECKF(d->n_running == 1 && d->n_jobs == 60 && webd_next_sharer(d, d->jobs),
	       "requests that waited share one job: %u", d->n_running);
	end_one(d);
	CHECK(!d->jobs && d->n_running == 0);
	/* A request that changes something is done for each. */
	q = (struct webp_req){ .op = WEB_SUBMIT, .id = q.id, .cred = WEB_CRED_TOKEN };
	q.v[0] = (struct web_value){ .has = true, .s = "x", .len = 1 };
	q.v[2] = (struct web_value){ .has = true, .s = "what", .len = 4 };
	ask_all(d, &q, t, 3, 6);
	CHECK(d->n_running == 6);
	while (d->n_running)
		end_one(d);
	webd_close(d);
}

/* H4 */
static void test_shared_end(void)
{
	struct webd *d = open_webd();
	struct webp_req q = { .op = WEB_ASKS, .cred = WEB_CRED_OWNER };
	struct job *x[3];
	pid_t pid = fork();

	if (pid == 0) {
		pause();
		_exit(0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(x); i++) {
		q.id++;
		x[i] = webd_add_job(d, &q, WEBP_ST_WORK);
	}
	x[0]->pid = pid;
	d->n_running++;
	d->lane[x[0]->lane].running++;
	webd_job_started(d, x[0]);
	CHECK(pid > 0 && x[1]->with == x[0] && x[2]->with == x[0]);
	webd_cancel(d, 1);
	webd_cancel(d, 3);
	CHECKF(d->n_jobs == 2 && waitpid(pid, NULL, WNOHANG) == 0,
	       "a shared job goes on for its last client");
	webd_cancel(d, 2);
	CHECKF(d->n_jobs == 1 && waitpid(pid, NULL, 0) == pid, "a shared job ends with its last client");
	CHECK(webd_job_reaped(d, pid, SIGKILL) && !d->jobs && d->n_running == 0);
	webd_close(d);
}

/* H5 */
static void test_rest(void)
{
	struct webctl t[2] = { token("v1", 31), token("v2", 32) };
	struct webd *d = open_webd();
	struct webp_req q = { .op = WEB_VERIFY, .cred = WEB_CRED_TOKEN };
	struct err e = ERR_INIT;
	uint64_t before;

	CHECK(control(d, &t[0], NULL) == 0 && control(d, &t[1], NULL) == 0);
	ask_all(d, &q, t, 2, 1);
	CHECK(d->n_running == 1 && d->jobs->began);
	d->jobs->began -= NSEC_PER_SEC / 5; /* as if it had taken that long */
	ask_all(d, &q, t, 2, 40);
	before = clock_nsec(CLOCK_MONOTONIC);
	end_one(d);
	CHECKF(d->n_running == 0 && d->n_jobs == 40, "no verification begins right after another: %u",
	       d->n_running);
	while (!d->n_running && clock_nsec(CLOCK_MONOTONIC) < before + 60 * NSEC_PER_SEC)
		CHECK(loop_round(&loop, &e) == 0);
	CHECKF(clock_nsec(CLOCK_MONOTONIC) - before >= 3 * NSEC_PER_SEC / 5,
	       "the next job begins after three times the first one's duration");
	CHECK(d->n_running == 1);
	end_one(d);
	CHECKF(!d->jobs, "all waiters are answered by one job");
	d->rest_until = 0;
	ask_all(d, &q, t, 2, 1);
	CHECK(d->n_running == 1);
	d->jobs->began -= 3600 * NSEC_PER_SEC;
	end_one(d);
	/* They wait, and not without an end: also the owner, who may ask as much as he likes. */
	q.cred = WEB_CRED_OWNER;
	memcpy(q.key, d->owner, HASH_LEN);
	for (unsigned i = 0; i < 100; i++) {
		q.id++;
		webd_request(d, &q);
	}
	CHECKF(d->n_running == 0 && d->n_jobs == 65, "at most 65 requests wait, the others are refused: %u",
	       d->n_jobs);
	webd_end_jobs(d);
	CHECK(!d->jobs);
	CHECKF(d->rest_until <= clock_nsec(CLOCK_MONOTONIC) + WEBD_REST_MOST,
	       "a pause after a long verification has a bound");
	webd_close(d);
}

static void on_channel(struct watch *w, uint32_t events)
{
	(void)w;
	heard += events & EPOLLIN ? 1 : 0;
}

static unsigned count_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* W6 */
static void test_deaf(void)
{
	struct webd *d = open_webd();
	struct webp_answer a = { .magic = WEBP_MAGIC, .type = WEBP_REPLY, .id = 1 };
	const int small = 4096;
	unsigned before, most = 0;
	struct err e = ERR_INIT;
	int sv[2];

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) == 0);
	CHECK(setsockopt(sv[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)) == 0);
	d->channel = (struct watch){ .fd = sv[0], .fn = on_channel, .ctx = d };
	CHECK(loop_watch(&loop, &d->channel, EPOLLIN) == 0 && send(sv[1], "x", 1, 0) == 1);
	CHECK(loop_round(&loop, &e) == 0 && heard == 1); /* control: it is heard */
	before = count_fds();
	while (d->n_queue_fds < WEBD_QUEUE_FDS) {
		int fd = memfd_create("answer", MFD_CLOEXEC);

		webd_send(d, &a, &fd, 1);
	}
	/* Nothing more is heard of who has so much to read. */
	heard = 0;
	CHECK(!(d->channel.events & EPOLLIN) && (d->channel.events & EPOLLOUT));
	for (int i = 0; i < 1000; i++) {
		int fd = memfd_create("answer", MFD_CLOEXEC);
		unsigned n;

		webd_send(d, &a, &fd, 1);
		n = count_fds() - before;
		most = n > most ? n : most;
	}
	CHECKF(most <= WEBD_QUEUE_FDS, "a deaf coffer-web holds a bounded number of descriptors: %u", most);
	CHECK(loop_round(&loop, &e) == 0 && d->channel.fd < 0 && heard == 0 && !d->queue);
	CHECK(strcmp(d->helper.why, "it does not read") == 0);
	fd_close(sv[1]);
	webd_close(d);
}

int main(void)
{
	struct err e = ERR_INIT;

	begin(&st);
	CHECKF(loop_open(&loop, &e) == 0 && audit_open(&audit_log, st.fd, &e) == 0,
	       "the loop and the log of the test open %s", e.msg);
	test_log_first();
	test_expiry();
	test_ids();
	test_ids_again();
	test_share();
	test_once_for_all();
	test_shared_end();
	test_rest();
	test_deaf();
	audit_free(audit_log);
	loop_close(&loop);
	end(&st);
	return tap_done();
}
