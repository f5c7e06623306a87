/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Example server `kv`: a key-value store in memory.
 *
 *   GET  /KEY    the value, or 404
 *   PUT  /KEY    the body becomes the value: 204, or 507 above the limit of memory
 *   POST /mget   body: keys, each with a line feed. Reply: for each, its length as u32
 *                (little-endian; 0xffffffff: absent) and its value
 */
#include <getopt.h>
#include "base/bytes.h"
#include "sdk/programs/kv_store.h"
#include "sdk/programs/program.h"

enum { MGET_MAX = 4 << 20, ABSENT = -1 };

static struct kv_store store;

static void reply_status(struct sl_request_view *rq, uint16_t status)
{
	sl_reply(rq, &(struct sl_reply_args){.status = status});
}

static void get(struct sl_request_view *rq, const char *key, size_t len)
{
	const struct kv_entry *e = kv_get(&store, key, len);

	if (!e) {
		reply_status(rq, 404);
		return;
	}
	sl_reply(rq,
		 &(struct sl_reply_args){.body = e->bytes + e->key_len, .body_len = e->value_len});
}

static void put(struct sl_request_view *rq, const char *key, size_t len)
{
	if (rq->body_len > KV_VALUE_MAX)
		reply_status(rq, 413);
	else
		reply_status(rq, kv_put(&store, key, len, rq->body, rq->body_len) ? 204 : 507);
}

static void mget(struct sl_request_view *rq)
{
	static uint8_t out[MGET_MAX];
	const uint8_t *at = rq->body, *end = at + rq->body_len, *line;
	size_t len = 0;

	for (; (line = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL); at = line + 1) {
		const struct kv_entry *e = kv_get(&store, at, (size_t)(line - at));
		size_t value_len = e ? e->value_len : 0;

		if (len + sizeof(uint32_t) + value_len > MGET_MAX) {
			reply_status(rq, 413);
			return;
		}
		sl_put_le32(out + len, e ? e->value_len : (uint32_t)ABSENT);
		len += sizeof(uint32_t);
		if (value_len)
			memcpy(out + len, e->bytes + e->key_len, value_len);
		len += value_len;
	}
	if (at != end)
		reply_status(rq, 400);
	else
		sl_reply(rq, &(struct sl_reply_args){.body = out, .body_len = len});
}

static bool is(const char *text, size_t len, const char *word)
{
	return len == strlen(word) && memcmp(text, word, len) == 0;
}

static void answer(struct sl_request_view *rq)
{
	const char *key = rq->path + 1;
	size_t len = rq->path_len ? rq->path_len - 1u : 0;

	if (is(rq->method, rq->method_len, "POST") && is(rq->path, rq->path_len, "/mget"))
		mget(rq);
	else if (!len || len > KV_KEY_MAX || rq->path[0] != '/')
		reply_status(rq, 400);
	else if (is(rq->method, rq->method_len, "GET"))
		get(rq, key, len);
	else if (is(rq->method, rq->method_len, "PUT"))
		put(rq, key, len);
	else
		reply_status(rq, 405);
}

static void handle(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		answer(batch->requests[i]);
}

static const char help[] = "Usage: kv [options]\n"
			   "A key-value store in memory: GET /KEY, PUT /KEY, POST /mget.\n"
			   "\n"
			   "  -l, --listen ENDPOINTS  default shm:///run/sluice/kv.sock\n"
			   "  -k, --key-file FILE     shared key of rdma and tcp endpoints\n"
			   "  -m, --memory MIB        limit of keys and values (default 256)\n"
			   "  -h, --help\n";

static const struct option long_options[] = {
	{"listen", required_argument, NULL, 'l'},
	{"key-file", required_argument, NULL, 'k'},
	{"memory", required_argument, NULL, 'm'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

int main(int argc, char **argv)
{
	struct sl_backend_options opt = {.size = sizeof(opt),
					 .listen = "shm:///run/sluice/kv.sock",
					 .on_batch = handle,
					 .inline_handler = true};
	unsigned long mib = 256;
	bool ok = true;
	int c, rc;

	while (ok && (c = getopt_long(argc, argv, "l:k:m:h", long_options, NULL)) != -1) {
		switch (c) {
		case 'l': opt.listen = optarg; break;
		case 'k': opt.key_file = optarg; break;
		case 'm': ok = program_number("kv", optarg, 1 << 20, &mib); break;
		case 'h': fputs(help, stdout); return 0;
		default: ok = false;
		}
	}
	if (!ok || optind != argc) {
		fputs("kv: see --help\n", stderr);
		return 2;
	}
	if (!kv_open(&store, mib << 20)) {
		fputs("kv: out of memory\n", stderr);
		return 1;
	}
	rc = program_run("kv", &opt);
	kv_close(&store);
	return rc;
}
