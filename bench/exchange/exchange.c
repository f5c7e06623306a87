/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameter exchange of a training job, as with TensorFlow's parameter servers.
 *
 *   exchange serve ENDPOINTS KEY_FILE
 *   exchange run TARGET KEY_FILE classes|fifo SECONDS COMPUTE_US
 *
 * An iteration of a worker: backward through the layers, where each layer's gradient is pushed and its
 * new parameters are pulled when it is computed; then forward, where a layer waits for its parameters.
 * Computing is sleeping, COMPUTE_US in all. A control message follows the one before after 2 ms.
 *
 *   backward  64 MiB  16  8  4  2  1  1     push and pull, each in a thread of its own
 *   forward   1 MiB  1  2  4  8  16  64
 *
 * `classes`: control messages are SL_CLASS_LATENCY, layers above 4 MiB SL_CLASS_BULK, others
 * SL_CLASS_NORMAL. `fifo`: all are SL_CLASS_NORMAL. TARGET is an endpoint, or "http:ADDRESS:PORT" of
 * a gateway with a route per class. Runs for SECONDS, and one iteration at least. Prints the median
 * time of an iteration in ms, the median and the 99th percentile of control messages in us, and MB/s.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/check.h"
#include "base/clock.h"
#include "sdk/programs/program.h"
#include "sluice/client.h"

#define MIB ((size_t)1 << 20)

static const size_t layers[] = {1 * MIB, 1 * MIB, 2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB, 64 * MIB};
enum {
	LAYERS = SL_ARRAY_LEN(layers),
	WORKERS = 4,
	CONTROL_LEN = 64,
	CONTROL_EVERY_US = 2000,
	SAMPLES = 1 << 20,
	ITERATIONS = 1 << 12,
	HEAD_MAX = 1024,
};
#define TENSOR_MAX (64 * MIB)
#define SMALL_MAX  (4 * MIB)

static uint8_t *tensor; /* contents of all tensors */

/* --- server --- */

static void on_done(void *arg)
{
	(void)arg;
}

/* Returns LENGTH of "/CLASS/LENGTH"; a path has no NUL. */
static size_t wanted_len(const struct sl_request_view *rq)
{
	char path[48], *slash;

	snprintf(path, sizeof(path), "%.*s", (int)rq->path_len, rq->path);
	slash = strrchr(path, '/');
	return slash ? strtoul(slash + 1, NULL, 10) : 0;
}

static void handle(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[i];
		size_t len = wanted_len(rq);
		const struct sl_reply_args args = {
			.size = sizeof(args),
			.body = tensor,
			.body_len = len <= TENSOR_MAX ? len : 0,
		};

		if (sl_reply_ref(rq, &args, on_done, NULL))
			fputs("exchange: a reply was not sent\n", stderr);
	}
}

static int serve(const char *endpoints, const char *key_file)
{
	const struct sl_backend_options opt = {.size = sizeof(opt),
					       .listen = endpoints,
					       .key_file = key_file,
					       .on_batch = handle,
					       .inline_handler = true};

	return program_run("exchange", &opt);
}

/* --- workers --- */

static struct {
	const char *target, *key_file;
	bool http, classes;
	uint64_t layer_us; /* computing time per layer and direction */
	_Atomic bool over;
	_Atomic uint64_t bytes;
	_Atomic uint32_t control_cnt, iteration_cnt;
	uint32_t control_us[SAMPLES];
	uint32_t iteration_us[ITERATIONS];
} run;

struct worker;

/* A connection of HTTP, or a thread that uses the worker's client. */
struct caller {
	struct worker *w;
	pthread_t thread;
	size_t len;
	sem_t begin; /* the gradient has been computed */
	sem_t ready; /* the parameters are here */
	int fd;
	uint8_t *body;
};

struct worker {
	struct sl_rpc_client *client;
	pthread_t thread;
	_Atomic bool over; /* after its last iteration */
	struct caller layers[LAYERS], control;
};

static void fail(const char *what)
{
	fprintf(stderr, "exchange: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int dial(void)
{
	struct sockaddr_in sin = {.sin_family = AF_INET};
	char address[64];
	const char *port = strrchr(run.target, ':');
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address, sizeof(address), "%.*s", (int)(port - run.target - 5), run.target + 5);
	sin.sin_port = htons((uint16_t)atoi(port + 1));
	if (fd < 0 || inet_pton(AF_INET, address, &sin.sin_addr) != 1 ||
	    connect(fd, (struct sockaddr *)&sin, sizeof(sin)) != 0)
		fail(run.target);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	return fd;
}

static void send_all(int fd, const void *bytes, size_t len, int flags)
{
	const uint8_t *at = bytes;

	while (len) {
		ssize_t n = send(fd, at, len, flags | MSG_NOSIGNAL);

		if (n <= 0)
			fail("send");
		at += n;
		len -= (size_t)n;
	}
}

/* Reads a reply with Content-Length into c->body. */
static void read_reply(struct caller *c, size_t want)
{
	char head[HEAD_MAX + 1], *end = NULL, *length;
	size_t got = 0, at;

	while (!end) {
		ssize_t n = recv(c->fd, head + got, HEAD_MAX - got, 0);

		if (n <= 0)
			fail("recv");
		got += (size_t)n;
		head[got] = 0;
		end = strstr(head, "\r\n\r\n");
	}
	length = strcasestr(head, "\r\ncontent-length:");
	if (strncmp(head, "HTTP/1.1 200", 12) != 0 || !length ||
	    strtoul(length + 17, NULL, 10) != want) {
		fprintf(stderr, "exchange: found reply %.200s\n", head);
		exit(1);
	}
	at = got - (size_t)(end + 4 - head);
	memcpy(c->body, end + 4, at);
	while (at < want) {
		ssize_t n = recv(c->fd, c->body + at, want - at, 0);

		if (n <= 0)
			fail("recv");
		at += (size_t)n;
	}
}

/* Sends `len` bytes and waits for `want`. */
static void ask(struct caller *c, unsigned class, size_t len, size_t want)
{
	static const char *const names[SL_CLASS_CNT] = {[SL_CLASS_LATENCY] = "latency",
							[SL_CLASS_NORMAL] = "normal",
							[SL_CLASS_BULK] = "bulk"};
	struct sl_rpc_call_args args = {.size = sizeof(args)};
	struct sl_rpc_call_reply *reply;
	char path[48], head[HEAD_MAX];
	int rc;

	class = run.classes ? class : SL_CLASS_NORMAL;
	snprintf(path, sizeof(path), "/%s/%zu", names[class], want);
	if (run.http) {
		rc = snprintf(head, sizeof(head),
			      "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", path,
			      len);
		send_all(c->fd, head, (size_t)rc, len ? MSG_MORE : 0);
		send_all(c->fd, tensor, len, 0);
		read_reply(c, want);
		return;
	}
	args.path = path;
	args.body = tensor;
	args.body_len = len;
	args.priority = (uint8_t) class;
	rc = sl_rpc_client_call(c->w->client, &args, &reply);
	if (rc || reply->status > 200 || reply->body_len != want) {
		fprintf(stderr, "exchange: a call ended with %d\n", rc);
		exit(1);
	}
	sl_rpc_call_reply_free(reply);
}

static void *exchange_layer(void *arg)
{
	struct caller *c = arg;
	unsigned class = c->len <= SMALL_MAX ? SL_CLASS_NORMAL : SL_CLASS_BULK;

	for (;;) {
		sem_wait(&c->begin);
		if (atomic_load(&c->w->over))
			return NULL;
		ask(c, class, c->len, 0);
		ask(c, class, 0, c->len);
		atomic_fetch_add(&run.bytes, 2 * c->len);
		sem_post(&c->ready);
	}
}

static void *send_control(void *arg)
{
	while (!atomic_load(&run.over)) {
		uint64_t begin_ns = sl_now_ns();
		uint32_t at;

		ask(arg, SL_CLASS_LATENCY, CONTROL_LEN, CONTROL_LEN);
		at = atomic_fetch_add(&run.control_cnt, 1);
		if (at < SAMPLES)
			run.control_us[at] = (uint32_t)((sl_now_ns() - begin_ns) / SL_NS_PER_US);
		usleep(CONTROL_EVERY_US);
	}
	return NULL;
}

static void iterate(struct worker *w)
{
	for (unsigned i = LAYERS; i--;) {
		usleep((useconds_t)run.layer_us);
		sem_post(&w->layers[i].begin);
	}
	for (unsigned i = 0; i < LAYERS; i++) {
		sem_wait(&w->layers[i].ready);
		usleep((useconds_t)run.layer_us);
	}
}

static void *train(void *arg)
{
	struct worker *w = arg;

	iterate(w); /* warms up */
	do {
		uint64_t begin_ns = sl_now_ns();
		uint32_t at;

		iterate(w);
		at = atomic_fetch_add(&run.iteration_cnt, 1);
		if (at < ITERATIONS)
			run.iteration_us[at] = (uint32_t)((sl_now_ns() - begin_ns) / SL_NS_PER_US);
	} while (!atomic_load(&run.over));
	atomic_store(&w->over, true);
	for (unsigned i = 0; i < LAYERS; i++)
		sem_post(&w->layers[i].begin);
	return NULL;
}

static void open_caller(struct worker *w, struct caller *c, size_t len, void *(*fn)(void *))
{
	c->w = w;
	c->len = len;
	sem_init(&c->begin, 0, 0);
	sem_init(&c->ready, 0, 0);
	if (run.http) {
		c->fd = dial();
		c->body = malloc(len + HEAD_MAX);
	}
	if ((run.http && !c->body) || pthread_create(&c->thread, NULL, fn, c))
		fail("thread");
}

static void open_worker(struct worker *w)
{
	const struct sl_rpc_client_options opt = {
		.size = sizeof(opt), .endpoints = run.target, .key_file = run.key_file};
	char err[256];

	w->client = run.http ? NULL : sl_rpc_client_open(&opt, err, sizeof(err));
	if (!run.http &&
	    (!w->client || sl_rpc_client_wait_connected(w->client, 10000, err, sizeof(err)))) {
		fprintf(stderr, "exchange: %s\n", err);
		exit(1);
	}
	for (unsigned i = 0; i < LAYERS; i++)
		open_caller(w, &w->layers[i], layers[i], exchange_layer);
	open_caller(w, &w->control, CONTROL_LEN, send_control);
	if (pthread_create(&w->thread, NULL, train, w))
		fail("thread");
}

static void close_worker(struct worker *w)
{
	pthread_join(w->thread, NULL);
	pthread_join(w->control.thread, NULL);
	for (unsigned i = 0; i < LAYERS; i++)
		pthread_join(w->layers[i].thread, NULL);
	sl_rpc_client_close(w->client);
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static int train_all(unsigned seconds, uint64_t compute_us)
{
	static struct worker workers[WORKERS];
	uint64_t begin_ns = sl_now_ns();
	uint32_t controls, iterations, median_us;
	double took_s;

	run.layer_us = compute_us / LAYERS / 2;
	for (unsigned i = 0; i < WORKERS; i++)
		open_worker(&workers[i]);
	sleep(seconds);
	atomic_store(&run.over, true);
	for (unsigned i = 0; i < WORKERS; i++)
		close_worker(&workers[i]);
	took_s = (double)(sl_now_ns() - begin_ns) / SL_NS_PER_SEC;
	controls = run.control_cnt < SAMPLES ? run.control_cnt : SAMPLES;
	iterations = run.iteration_cnt < ITERATIONS ? run.iteration_cnt : ITERATIONS;
	if (!iterations || !controls)
		return 1;
	qsort(run.control_us, controls, sizeof(uint32_t), compare);
	qsort(run.iteration_us, iterations, sizeof(uint32_t), compare);
	median_us = run.iteration_us[iterations / 2];
	printf("%.1f %u %u %.0f\n", median_us / 1000.0, run.control_us[controls / 2],
	       run.control_us[(uint64_t)controls * 99 / 100], (double)run.bytes / took_s / 1e6);
	return 0;
}

int main(int argc, char **argv)
{
	tensor = malloc(TENSOR_MAX);
	if (!tensor)
		return 1;
	memset(tensor, 1, TENSOR_MAX);
	if (argc == 4 && strcmp(argv[1], "serve") == 0)
		return serve(argv[2], argv[3]);
	if (argc != 7 || strcmp(argv[1], "run") != 0) {
		fputs("usage: exchange serve ENDPOINTS KEY_FILE | "
		      "run TARGET KEY_FILE classes|fifo SECONDS COMPUTE_US\n",
		      stderr);
		return 2;
	}
	run.target = argv[2];
	run.key_file = argv[3];
	run.http = strncmp(argv[2], "http:", 5) == 0;
	run.classes = strcmp(argv[4], "classes") == 0;
	return train_all((unsigned)atoi(argv[5]), strtoull(argv[6], NULL, 10));
}
