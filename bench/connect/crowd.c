/* SPDX-License-Identifier: Apache-2.0 */
/* Read from the bottom: share_at_busy; measure_hot, bootstrap -> dial_all, take_new. */
#include "crowd.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/check.h"
#include "base/clock.h"

enum {
	CROWD = 256, /* connections of one turn */
	PAUSE_US = 1000,
	BUSY_MS = 1500,
	BUSY_BEGUN_MS = 200, /* behind its request, when its handler surely runs */
	BUSY_DIALS = 8,
};

/* --- the nursery --- */

struct order {
	unsigned cnt; /* 0: all that were started end */
	char endpoints[CROWD / 8][ENDPOINT_LEN];
};

static int orders[2], done[2], listening[2];

static void start_all(const struct order *o, pid_t *pids)
{
	for (unsigned i = 0; i < o->cnt; i++) {
		pids[i] = fork();
		if (pids[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(o->endpoints[i], 0);
		_Exit(0);
	}
}

static void run_nursery(void)
{
	static struct order o;
	pid_t pids[SL_ARRAY_LEN(o.endpoints)];
	unsigned cnt = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	listening_fd = listening[1];
#ifndef CONNECT_BEFORE /* it loaded all of it at its start */
	sl_rpc_preload();
#endif
	while (read(orders[0], &o, sizeof(o)) == (ssize_t)sizeof(o)) {
		start_all(&o, pids);
		for (unsigned i = 0; !o.cnt && i < cnt; i++)
			stop_backend(pids[i]);
		cnt = o.cnt;
		if (!cnt && write(done[1], "", 1) != 1)
			break;
	}
	_Exit(0);
}

void open_nursery(void)
{
	if (pipe2(orders, O_CLOEXEC) || pipe2(done, O_CLOEXEC) ||
	    pipe2(listening, O_CLOEXEC | O_NONBLOCK))
		die("no pipe");
	if (fork() == 0)
		run_nursery();
}

static void give(const struct order *o)
{
	char byte;

	if (write(orders[1], o, sizeof(*o)) != (ssize_t)sizeof(*o) ||
	    (!o->cnt && read(done[0], &byte, 1) != 1))
		die("no nursery");
}

/* --- a thread that dials --- */

/* Pins that thread; 0: the calling one. */
static void keep_to(unsigned cpu, pid_t tid)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(tid, sizeof(set), &set))
		die("cannot keep to a processor");
}

void keep_process_to(unsigned cpu, pid_t pid)
{
	struct dirent *task;
	char path[64];
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	d = opendir(path);
	while (d && (task = readdir(d))) {
		if (task->d_name[0] != '.')
			keep_to(cpu, (pid_t)strtol(task->d_name, NULL, 10));
	}
	if (!d || closedir(d))
		die("cannot list threads");
}

struct crowd {
	const char (*endpoints)[ENDPOINT_LEN];
	unsigned endpoint_cnt, cnt; /* connections, to each in turn */
	_Atomic(struct sl_transport *) made[CROWD];
	atomic_uint made_cnt;
	struct sl_rpc_channel *channels[CROWD]; /* NULL: not made yet, or not taken */
	unsigned taken;
	bool answered[CROWD];
	atomic_bool stop;
	bool apart; /* the thread keeps to the processor of all but `hot` */
	/* the carriers of requests */
	const struct beside *beside;
	atomic_uint due;
	unsigned asked;
};

/* Dials again until the backend listens. */
static void *dial_all(void *arg)
{
	struct crowd *c = arg;
	unsigned left;

	if (c->apart)
		keep_to(OTHERS_CPU, 0);
	while (!c->cnt && !c->stop)
		; /* busy all the same */
	do {
		left = c->cnt;
		for (unsigned i = 0; i < c->cnt && !c->stop; i++) {
			if (!c->made[i]) {
				c->made[i] = dial_to(c->endpoints[i % c->endpoint_cnt]);
				c->made_cnt += c->made[i] != NULL;
			}
			left -= c->made[i] != NULL;
		}
		if (left)
			usleep(PAUSE_US);
	} while (left && !c->stop);
	return NULL;
}

static void *call_for_requests(void *arg)
{
	struct crowd *c = arg;

	keep_to(OTHERS_CPU, 0);
	while (!c->stop) {
		usleep((useconds_t)c->beside->every_us);
		c->due++;
	}
	return NULL;
}

/* Channels that can be had again. */
static struct sl_rpc_channel *spares[CROWD];

/* Sends the first request on each new connection. Returns the number of connections. */
static unsigned take_new(struct crowd *c)
{
	for (unsigned i = 0; i < c->cnt && c->taken < c->made_cnt; i++) {
		if (!c->made[i] || c->channels[i])
			continue;
		if (!spares[i])
			spares[i] = add_channel();
		c->channels[i] = spares[i];
		if (sl_rpc_adopt(c->channels[i], c->made[i], sl_now_ns()))
			die("cannot adopt a connection");
		ask(c->channels[i], &c->answered[i]);
		c->taken++;
	}
	return c->taken;
}

static unsigned count_answered(const struct crowd *c)
{
	unsigned answered = 0;

	for (unsigned i = 0; i < c->cnt; i++)
		answered += c->answered[i];
	return answered;
}

static void end_all(struct crowd *c)
{
	while (count_answered(c) < take_new(c))
		turn();
	for (unsigned i = 0; i < c->cnt; i++) {
		if (c->channels[i])
			end_channels(&c->channels[i], 1);
	}
}

static pthread_t start_thread(struct crowd *c, void *(*fn)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, fn, c))
		die("no thread");
	return thread;
}

/* --- rows --- */

static void order_backends(struct order *o, const char *scheme, unsigned cnt)
{
	o->cnt = cnt;
	for (unsigned i = 0; i < cnt; i++)
		name_endpoint(o->endpoints[i], scheme);
}

/* How many more of the last order say that they listen. */
static unsigned hear_listening(void)
{
	char bytes[CROWD];
	ssize_t n = read(listening[0], bytes, sizeof(bytes));

	return n > 0 ? (unsigned)n : 0;
}

double start_up(struct sl_rpc_channel *hot, const char *scheme, unsigned cnt)
{
	unsigned left = cnt;
	bool answered = true;
	struct order o;
	uint64_t start;
	double us;

	order_backends(&o, scheme, cnt);
	start = sl_now_ns();
	give(&o);
	while (left) {
		if (answered)
			ask(hot, &answered);
		turn();
		left -= hear_listening();
	}
	us = us_since(start);
	while (!answered)
		turn();
	give(&(struct order){.cnt = 0});
	return us / 1000;
}

double bootstrap(struct sl_rpc_channel *hot, const char *scheme, unsigned cnt)
{
	struct order o;
	struct crowd c = {.endpoints = o.endpoints, .endpoint_cnt = cnt, .cnt = cnt};
	bool answered = true;
	pthread_t dialer;
	uint64_t start;
	double us;

	order_backends(&o, scheme, cnt);
	start = sl_now_ns();
	give(&o);
	dialer = start_thread(&c, dial_all);
	while (take_new(&c) < cnt || count_answered(&c) < cnt) {
		if (answered)
			ask(hot, &answered);
		turn();
	}
	us = us_since(start);
	pthread_join(dialer, NULL);
	while (!answered)
		turn();
	end_all(&c);
	for (unsigned left = cnt; left;)
		left -= hear_listening();
	give(&(struct order){.cnt = 0});
	return us / 1000;
}

/* As many as are due; how many there were. */
static unsigned carry(struct crowd *c)
{
	while (c->asked < CROWD && c->asked < c->due) {
		ask(c->beside->carriers[c->asked % c->beside->cnt], &c->answered[c->asked]);
		c->asked++;
	}
	return c->asked;
}

double measure_hot(struct sl_rpc_channel *hot, const struct beside *b, double *us, unsigned us_cnt)
{
	struct crowd c = {.beside = b,
			  .endpoints = b->endpoints,
			  .endpoint_cnt = b->cnt,
			  .cnt = b->endpoints ? CROWD : 0,
			  .apart = true};
	pthread_t thread = start_thread(&c, b->carriers ? call_for_requests : dial_all);
	unsigned others = 0;
	double sum = 0;

	for (unsigned i = 0; i < us_cnt; i++) {
		uint64_t start = sl_now_ns();
		bool answered;

		ask(hot, &answered);
		while (!answered) {
			turn();
			others = b->carriers ? carry(&c) : take_new(&c);
		}
		us[i] = us_since(start);
		sum += us[i];
	}
	c.stop = true;
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < c.asked; i++) {
		while (!c.answered[i])
			turn();
	}
	end_all(&c);
	return others ? sum / others : 0;
}

double share_at_busy(const char *scheme)
{
	struct sl_rpc_channel *first = add_channel(), *others[BUSY_DIALS];
	char endpoint[ENDPOINT_LEN];
	unsigned through = 0;
	uint64_t asked_ns;
	bool answered;
	pid_t pid;

	name_endpoint(endpoint, scheme);
	pid = start_backend(endpoint, BUSY_MS);
	(void)connect_channel(first, endpoint);
	asked_ns = sl_now_ns();
	ask(first, &answered);
	while (us_since(asked_ns) < BUSY_BEGUN_MS * 1000)
		turn();
	for (unsigned i = 0; i < BUSY_DIALS; i++) {
		struct sl_transport *t = dial_to(endpoint);

		others[i] = add_channel();
		/* Computing takes that long at the least, so it is not over yet. */
		through += t && us_since(asked_ns) < BUSY_MS * 1000;
		if (t && sl_rpc_adopt(others[i], t, sl_now_ns()))
			die("cannot adopt a connection");
	}
	while (!answered)
		turn();
	for (unsigned i = 0; i < BUSY_DIALS; i++) {
		if (sl_rpc_channel_state(others[i]) == SL_RPC_UP)
			end_channels(&others[i], 1);
	}
	end_channels(&first, 1);
	stop_backend(pid);
	return (double)through / BUSY_DIALS;
}
