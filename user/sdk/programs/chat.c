/* SPDX-License-Identifier: Apache-2.0 */
/* Example of streams: repeats a message's words, one by one. */
#include <errno.h>
#include <getopt.h>
#include <string.h>
#include "sdk/programs/program.h"

enum { TEXT_MAX = 4096, WAIT_US = 100000 };

struct options {
	const char *listen, *key_file;
	unsigned long interval_us, repeat;
};

struct talk {
	struct talk *next, **back;
	struct sl_request_view *rq;
	uint64_t next_ns;
	unsigned long rounds; /* repetitions left */
	size_t len, at;       /* text; next word */
	size_t whole;         /* complete messages */
	bool ended, blocked, begun;
	char text[TEXT_MAX];
};

static struct {
	struct options opt;
	struct talk *talks;
} chat;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static bool is_grpc(const struct sl_request_view *rq)
{
	return !rq->method_len;
}

static void talk_over(struct talk *t)
{
	*t->back = t->next;
	if (t->next)
		t->next->back = t->back;
	t->rq->own = NULL;
	free(t);
}

static size_t next_word(struct talk *t, const char **word)
{
	size_t len = 0;

	while (t->at < t->whole && t->text[t->at] == ' ')
		t->at++;
	*word = t->text + t->at;
	while (t->at + len < t->whole && (*word)[len] != ' ')
		len++;
	return len;
}

static int say_word(struct talk *t, const char *word, size_t len)
{
	char event[TEXT_MAX + 16];
	int n = snprintf(event, sizeof(event), "data: %.*s\n\n", (int)len, word);
	struct sl_reply_args a = {.body = event, .body_len = (size_t)n, .more = true};

	if (is_grpc(t->rq)) {
		a.body = word;
		a.body_len = len;
	} else if (!t->begun) {
		a.content_type = "text/event-stream";
	}
	return sl_reply(t->rq, &a);
}

static void say_end(struct talk *t)
{
	struct sl_request_view *rq = t->rq;
	struct sl_reply_args a = {.no_message = true};

	if (!t->begun && !is_grpc(rq))
		a.content_type = "text/event-stream";
	talk_over(t);
	sl_reply(rq, &a);
}

static uint64_t talk_on(struct talk *t, uint64_t now)
{
	const char *word;
	size_t len;
	int rc;

	while (!t->blocked && now >= t->next_ns) {
		len = next_word(t, &word);
		if (!len && t->rounds > 1 && t->whole) {
			t->rounds--;
			t->at = 0;
			continue;
		}
		if (!len) {
			if (t->ended)
				say_end(t);
			return UINT64_MAX;
		}
		rc = say_word(t, word, len);
		t->blocked = rc == -EAGAIN;
		if (rc == -ECANCELED) {
			talk_over(t);
			return UINT64_MAX;
		}
		if (rc)
			return UINT64_MAX;
		t->begun = true;
		t->at += len;
		t->next_ns = now + chat.opt.interval_us * 1000;
	}
	return t->blocked ? UINT64_MAX : t->next_ns;
}

static void on_open(void *arg, struct sl_request_view *rq)
{
	struct talk *t = calloc(1, sizeof(*t));

	(void)arg;
	if (!t) {
		sl_reply_error(rq, SL_RPC_REFUSED);
		return;
	}
	if (rq->expect_continue)
		(void)sl_stream_send_continue(rq);
	rq->own = t;
	t->rq = rq;
	t->rounds = chat.opt.repeat;
	t->next = chat.talks;
	t->back = &chat.talks;
	if (t->next)
		t->next->back = &t->next;
	chat.talks = t;
}

static void on_data(void *arg, struct sl_request_view *rq, const void *bytes, size_t len,
		    size_t left)
{
	struct talk *t = rq->own;
	size_t n;

	(void)arg;
	if (chat.opt.repeat <= 1) {
		memmove(t->text, t->text + t->at, t->len - t->at);
		t->len -= t->at;
		t->whole -= t->at;
		t->at = 0;
	}
	n = len < TEXT_MAX - 1 - t->len ? len : TEXT_MAX - 1 - t->len;
	memcpy(t->text + t->len, bytes, n);
	t->len += n;
	if (left)
		return;
	if (t->len < TEXT_MAX - 1)
		t->text[t->len++] = ' ';
	t->whole = t->len;
}

static void on_end(void *arg, struct sl_request_view *rq)
{
	struct talk *t = rq->own;

	(void)arg;
	t->ended = true;
}

static void on_cancel(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	talk_over(rq->own);
	sl_reply_error(rq, SL_RPC_CANCELLED);
}

static void on_writable(void *arg, struct sl_request_view *rq)
{
	struct talk *t = rq->own;

	(void)arg;
	if (t)
		t->blocked = false;
}

static void handle_batch(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		sl_reply_error(batch->requests[i], SL_RPC_NO_METHOD);
}

static volatile sig_atomic_t stopped;

static void on_signal(int sig)
{
	(void)sig;
	stopped = 1;
}

static int serve_backend(struct sl_backend *b)
{
	struct talk *t, *next;
	int rc = 0;

	while (!stopped && rc >= 0) {
		uint64_t now = now_ns(), first = UINT64_MAX, at, wait_us;

		for (t = chat.talks; t; t = next) {
			next = t->next;
			at = talk_on(t, now);
			first = at < first ? at : first;
		}
		now = now_ns();
		wait_us = first > now ? (first - now) / 1000 : 0;
		rc = sl_backend_poll(b, wait_us < WAIT_US ? (unsigned)wait_us : WAIT_US);
	}
	return rc;
}

static int parse_args(int argc, char **argv, struct options *o)
{
	static const struct option options[] = {{"listen", required_argument, NULL, 'l'},
						{"key-file", required_argument, NULL, 'K'},
						{"interval-us", required_argument, NULL, 'i'},
						{"repeat", required_argument, NULL, 'r'},
						{"help", no_argument, NULL, 'h'},
						{NULL, 0, NULL, 0}};
	bool ok = true;
	int c;

	while (ok && (c = getopt_long(argc, argv, "l:K:i:r:h", options, NULL)) != -1) {
		switch (c) {
		case 'l': o->listen = optarg; break;
		case 'K': o->key_file = optarg; break;
		case 'i': ok = program_number("chat", optarg, 60000000, &o->interval_us); break;
		case 'r': ok = program_number("chat", optarg, 1000000000, &o->repeat); break;
		default: ok = false;
		}
	}
	if (ok && o->listen && optind == argc)
		return 0;
	fputs("Usage: chat --listen ENDPOINT[,ENDPOINT] [--interval-us N] [--repeat N]\n"
	      "Answers each message of a stream with its words, N us apart, N times over.\n",
	      c == 'h' ? stdout : stderr);
	return c == 'h' ? 1 : 2;
}

int main(int argc, char **argv)
{
	static const struct sl_stream_ops streams = {
		.on_open = on_open, .on_data = on_data, .on_end = on_end, .on_cancel = on_cancel};
	struct sl_backend_options opt = {.on_batch = handle_batch,
					 .on_stream = &streams,
					 .on_writable = on_writable,
					 .inline_handler = true};
	struct sigaction action = {.sa_handler = on_signal};
	struct sl_backend *b;
	char err[256];
	int rc;

	chat.opt = (struct options){.repeat = 1};
	rc = parse_args(argc, argv, &chat.opt);
	if (rc)
		return rc == 1 ? 0 : rc;
	opt.listen = chat.opt.listen;
	opt.key_file = chat.opt.key_file;
	b = sl_backend_open(&opt, err, sizeof(err));
	if (!b) {
		fprintf(stderr, "chat: %s\n", err);
		return 1;
	}
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	printf("chat: serving on %s\n", chat.opt.listen);
	fflush(stdout);
	rc = serve_backend(b);
	sl_backend_close(b);
	return rc < 0;
}
