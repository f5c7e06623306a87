/* SPDX-License-Identifier: Apache-2.0 */
/* sluice/backend.h of version SLUICE_BACKEND_1, without comments: never changed. */
#ifndef SL_TESTS_OLD_BACKEND_1_H
#define SL_TESTS_OLD_BACKEND_1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sluice/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sl_backend;

struct sl_request_view {
	const uint8_t *body;
	size_t body_len;
	const char *method, *path, *query, *content_type;
	uint16_t method_len, path_len, query_len, content_type_len;
	uint8_t protocol;
	uint8_t priority;
	uint32_t budget_us;
	uint64_t arrived_ns;
	uint64_t long_budget_us;
	const uint8_t *meta;
	uint16_t meta_len;
	bool idempotent;

	union {
		bool expect_continue;
		bool expects;
	};

	bool compressed;
	uint64_t length;
	void *own;

	const uint8_t *trailers;
	uint16_t trailers_len;

	uint32_t client;
};

struct sl_batch {
	unsigned count;
	struct sl_request_view *requests[SL_RPC_MAX_BATCH];
};

typedef void sl_batch_fn(void *arg, struct sl_batch *batch);

typedef void sl_request_fn(void *arg, struct sl_request_view *rq);

struct sl_stream_ops {
	void (*open)(void *arg, struct sl_request_view *rq);

	void (*data)(void *arg, struct sl_request_view *rq, const void *bytes, size_t len,
		     size_t left);
	void (*end)(void *arg, struct sl_request_view *rq);

	void (*cancel)(void *arg, struct sl_request_view *rq);
};

struct sl_backend_options {

	const char *listen;
	sl_batch_fn *handle;
	void *arg;
	unsigned max_batch;
	const char *key_file;
	bool busy_poll;
	uint32_t bulk_ring_len;
	bool inline_handler;

	sl_request_fn *cancelled;

	sl_request_fn *writable;

	const struct sl_stream_ops *on_stream;
	bool upgrades;

	bool compressed;

	void *(*place)(void *arg, struct sl_request_view *rq);
	sl_request_fn *unplace;

	void *memory;
	size_t memory_len;
};

struct sl_backend *sl_backend_open(const struct sl_backend_options *opt, char *err, size_t err_len);

int sl_backend_run(struct sl_backend *b);
void sl_backend_stop(struct sl_backend *b);

int sl_backend_poll(struct sl_backend *b, unsigned wait_us);

int sl_backend_fd(const struct sl_backend *b);
int sl_backend_arm(struct sl_backend *b);
void sl_backend_disarm(struct sl_backend *b);

void sl_backend_ready(struct sl_backend *b, bool ready);

void sl_backend_leave(struct sl_backend *b, bool leave);

void sl_backend_close(struct sl_backend *b);

bool sl_request_header(const struct sl_request_view *rq, const char *name, const char **value,
		       size_t *value_len);

bool sl_request_trailer(const struct sl_request_view *rq, const char *name, const char **value,
			size_t *value_len);

bool sl_request_cancelled(const struct sl_request_view *rq);

void sl_stream_pause(struct sl_request_view *rq);
void sl_stream_resume(struct sl_request_view *rq);

int sl_stream_send_continue(struct sl_request_view *rq);
int sl_stream_go_on(struct sl_request_view *rq);

struct sl_reply_args {
	const void *body;
	size_t body_len;
	const char *content_type;
	uint16_t status;
	uint16_t grpc_status;
	const char *grpc_message;
	const struct sl_header_arg *headers;
	unsigned header_cnt;

	bool more;

	bool no_message;

	bool compressed;

	bool has_total;

	bool in_pieces;
	uint64_t total_len;
	const char *reason;
};

int sl_reply(struct sl_request_view *rq, const struct sl_reply_args *args);

int sl_reply_interim(struct sl_request_view *rq, const struct sl_reply_args *args);

typedef void sl_reply_done_fn(void *arg);
int sl_reply_ref(struct sl_request_view *rq, const struct sl_reply_args *args,
		 sl_reply_done_fn *done, void *arg);

int sl_reply_error(struct sl_request_view *rq, enum sl_rpc_status status);

struct sl_backend_stats {
	uint64_t requests, batches, replies, cancelled, expired, bad_messages;
	uint64_t refused;
	uint32_t channels, open_requests, largest_batch;
};

void sl_backend_stats(struct sl_backend *b, struct sl_backend_stats *out);

#ifdef __cplusplus
}
#endif
#endif
