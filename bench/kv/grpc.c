/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same key-value store and load over gRPC, on gRPC's own C core (which the C++ library wraps), one
 * thread each, without TLS.
 *
 *   grpc serve ADDRESS                        /kv.Store/Get: key -> value; /kv.Store/Put: see below
 *   grpc call ADDRESS CONNECTIONS SECONDS     one operation in progress for each connection
 *   grpc spike ADDRESS SERVED NEW             time to the first reply of NEW clients that join
 *
 * Put's message is {u8 length of the key, key, value}. Messages are bytes, without protobuf.
 */
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <string.h>
#include "load.h"
#include "sdk/programs/kv_store.h"

enum { SLOTS = 512, CONNECTIONS_MAX = 1024 };

static grpc_completion_queue *queue;

static grpc_byte_buffer *buffer_of(const void *bytes, size_t len)
{
	grpc_slice slice = grpc_slice_from_copied_buffer(bytes, len);
	grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);

	grpc_slice_unref(slice);
	return buffer;
}

static grpc_slice slice_of(grpc_byte_buffer *buffer)
{
	grpc_byte_buffer_reader reader;
	grpc_slice slice;

	if (!grpc_byte_buffer_reader_init(&reader, buffer))
		abort();
	slice = grpc_byte_buffer_reader_readall(&reader);
	grpc_byte_buffer_reader_destroy(&reader);
	return slice;
}

/* --- server --- */

struct slot {
	grpc_call *call;
	grpc_byte_buffer *message, *answer;
	grpc_metadata_array metadata;
	gpr_timespec deadline;
	bool put, arrived;
	int cancelled;
};

static grpc_server *server;
static void *methods[2];
static struct kv_store store;

static bool await_call(struct slot *s)
{
	s->arrived = false;
	s->message = s->answer = NULL;
	grpc_metadata_array_init(&s->metadata);
	return grpc_server_request_registered_call(server, methods[s->put], &s->call, &s->deadline,
						   &s->metadata, &s->message, queue, queue,
						   s) == GRPC_CALL_OK;
}

static grpc_byte_buffer *answer_of(const struct slot *s)
{
	grpc_slice message = slice_of(s->message);
	const uint8_t *bytes = GRPC_SLICE_START_PTR(message);
	size_t len = GRPC_SLICE_LENGTH(message);
	grpc_byte_buffer *answer = NULL;

	if (s->put) {
		if (len > *bytes &&
		    kv_put(&store, bytes + 1, *bytes, bytes + 1 + *bytes, len - 1 - *bytes))
			answer = buffer_of("", 0);
	} else {
		const struct kv_entry *e = kv_get(&store, bytes, len);

		if (e)
			answer = buffer_of(e->bytes + e->key_len, e->value_len);
	}
	grpc_slice_unref(message);
	return answer;
}

static bool reply(struct slot *s)
{
	grpc_op ops[4] = {
		{.op = GRPC_OP_SEND_INITIAL_METADATA},
		{.op = GRPC_OP_SEND_STATUS_FROM_SERVER,
		 .data.send_status_from_server.status = GRPC_STATUS_OK},
		{.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
		 .data.recv_close_on_server.cancelled = &s->cancelled},
		{.op = GRPC_OP_SEND_MESSAGE},
	};

	s->arrived = true;
	s->answer = s->message ? answer_of(s) : NULL;
	ops[3].data.send_message.send_message = s->answer;
	if (!s->answer)
		ops[1].data.send_status_from_server.status = GRPC_STATUS_NOT_FOUND;
	return grpc_call_start_batch(s->call, ops, s->answer ? 4 : 3, s, NULL) == GRPC_CALL_OK;
}

static void release(struct slot *s)
{
	if (s->message)
		grpc_byte_buffer_destroy(s->message);
	if (s->answer)
		grpc_byte_buffer_destroy(s->answer);
	grpc_metadata_array_destroy(&s->metadata);
	grpc_call_unref(s->call);
}

static int serve(const char *address)
{
	static struct slot slots[SLOTS];
	grpc_server_credentials *plain = grpc_insecure_server_credentials_create();

	server = grpc_server_create(NULL, NULL);
	grpc_server_register_completion_queue(server, queue, NULL);
	for (unsigned i = 0; i < 2; i++)
		methods[i] = grpc_server_register_method(
			server, i ? "/kv.Store/Put" : "/kv.Store/Get", NULL,
			GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
	if (!kv_open(&store, (size_t)256 << 20) ||
	    !grpc_server_add_http2_port(server, address, plain)) {
		fprintf(stderr, "grpc: cannot listen on %s\n", address);
		return 1;
	}
	grpc_server_credentials_release(plain);
	grpc_server_start(server);
	for (unsigned i = 0; i < SLOTS; i++) {
		slots[i].put = i % 4 == 0;
		if (!await_call(&slots[i]))
			return 1;
	}
	puts("serving");
	fflush(stdout);
	for (;;) {
		grpc_event e = grpc_completion_queue_next(
			queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
		struct slot *s = e.tag;

		if (e.type != GRPC_OP_COMPLETE)
			return 1;
		if (!s->arrived && e.success && reply(s))
			continue;
		release(s);
		if (!await_call(s))
			return 1;
	}
}

/* --- load --- */

struct connection {
	grpc_channel *channel;
	void *methods[2];
	grpc_call *call;
	grpc_byte_buffer *sent, *received;
	grpc_metadata_array head, tail;
	grpc_status_code status;
	grpc_slice details;
	uint64_t sent_ns;
	bool joined; /* later than the load, and without a reply yet */
};

static struct connection connections[CONNECTIONS_MAX];

static void start(struct connection *c, bool put, const void *message, size_t len)
{
	grpc_op ops[6] = {
		{.op = GRPC_OP_SEND_INITIAL_METADATA},
		{.op = GRPC_OP_SEND_MESSAGE},
		{.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
		{.op = GRPC_OP_RECV_INITIAL_METADATA,
		 .data.recv_initial_metadata.recv_initial_metadata = &c->head},
		{.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->received},
		{.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
		 .data.recv_status_on_client = {.trailing_metadata = &c->tail,
						.status = &c->status,
						.status_details = &c->details}},
	};

	c->sent = buffer_of(message, len);
	c->received = NULL;
	ops[1].data.send_message.send_message = c->sent;
	grpc_metadata_array_init(&c->head);
	grpc_metadata_array_init(&c->tail);
	c->sent_ns = sl_now_ns();
	c->call = grpc_channel_create_registered_call(c->channel, NULL, GRPC_PROPAGATE_DEFAULTS,
						      queue, c->methods[put],
						      gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
	if (grpc_call_start_batch(c->call, ops, 6, c, NULL) != GRPC_CALL_OK)
		abort();
}

static void begin(struct connection *c, bool put, uint64_t number)
{
	char message[32 + LOAD_VALUE_LEN] = "";
	int len = load_key(message + 1, 31, number);

	*message = (char)len;
	if (put)
		start(c, true, message, (size_t)len + 1 + LOAD_VALUE_LEN);
	else
		start(c, false, message + 1, (size_t)len);
}

/* Waits for the end of an operation. Returns whether it succeeded. */
static struct connection *finish(bool *ok)
{
	grpc_event e = grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
	struct connection *c = e.tag;

	*ok = e.success && c->status == GRPC_STATUS_OK && c->received;
	grpc_byte_buffer_destroy(c->sent);
	if (c->received)
		grpc_byte_buffer_destroy(c->received);
	grpc_metadata_array_destroy(&c->head);
	grpc_metadata_array_destroy(&c->tail);
	grpc_slice_unref(c->details);
	grpc_call_unref(c->call);
	return c;
}

static void open_channel(struct connection *c, const char *address)
{
	/* Otherwise all channels would share one connection. */
	grpc_arg own = {.type = GRPC_ARG_INTEGER,
			.key = (char *)(uintptr_t) "grpc.use_local_subchannel_pool",
			.value.integer = 1};
	grpc_channel_args args = {1, &own};
	grpc_channel_credentials *plain = grpc_insecure_credentials_create();

	c->channel = grpc_channel_create(address, plain, &args);
	grpc_channel_credentials_release(plain);
	c->methods[0] = grpc_channel_register_call(c->channel, "/kv.Store/Get", NULL, NULL);
	c->methods[1] = grpc_channel_register_call(c->channel, "/kv.Store/Put", NULL, NULL);
}

static void begin_any(struct connection *c)
{
	begin(c, load_is_put(), sl_prng_below(&load.prng, load.keys));
}

/* Fills the store, and connects all. */
static bool open_all(const char *address, unsigned cnt)
{
	bool ok;

	for (unsigned i = 0; i < cnt; i++)
		open_channel(&connections[i], address);
	for (unsigned i = 0; i < load.keys; i++) {
		begin(&connections[i % cnt], true, i);
		finish(&ok);
		if (!ok) {
			fputs("grpc: no reply\n", stderr);
			return false;
		}
	}
	return true;
}

static int measure(unsigned cnt, unsigned seconds)
{
	bool ok;

	load_begin(seconds);
	for (unsigned i = 0; i < cnt; i++)
		begin_any(&connections[i]);
	while (cnt) {
		struct connection *c = finish(&ok);

		if (load_count(c->sent_ns, ok))
			begin_any(c);
		else
			cnt--;
	}
	return load_print(seconds);
}

/* The clients that are served go on while the new ones connect. */
static int spike(const char *address, unsigned served, unsigned cnt)
{
	static uint32_t first_ns[CONNECTIONS_MAX];
	uint64_t warm_ns = sl_now_ns() + SL_NS_PER_SEC / 2, join_ns = 0;
	unsigned first_cnt = 0;
	bool ok;

	load_begin(0);
	for (unsigned i = 0; i < served; i++)
		begin_any(&connections[i]);
	while (first_cnt < cnt && !load.errors) {
		struct connection *c = finish(&ok);

		load_count(c->sent_ns, ok);
		if (c->joined)
			first_ns[first_cnt++] = (uint32_t)(sl_now_ns() - join_ns);
		c->joined = false;
		begin_any(c);
		if (join_ns || sl_now_ns() < warm_ns)
			continue;
		join_ns = sl_now_ns();
		for (unsigned i = served; i < served + cnt; i++) {
			open_channel(&connections[i], address);
			connections[i].joined = true;
			begin_any(&connections[i]);
		}
	}
	return load_print_first(first_ns, cnt);
}

int main(int argc, char **argv)
{
	unsigned cnt = argc == 5 ? (unsigned)atoi(argv[3]) : 0;
	unsigned last = argc == 5 ? (unsigned)atoi(argv[4]) : 0;
	bool joins = argc == 5 && strcmp(argv[1], "spike") == 0;

	grpc_init();
	load_init();
	queue = grpc_completion_queue_create_for_next(NULL);
	if (argc == 3 && strcmp(argv[1], "serve") == 0)
		return serve(argv[2]);
	if (!cnt || !last || cnt + joins * last > CONNECTIONS_MAX ||
	    (!joins && strcmp(argv[1], "call") != 0)) {
		fputs("usage: grpc serve ADDRESS | grpc call ADDRESS CONNECTIONS SECONDS |\n"
		      "       grpc spike ADDRESS SERVED NEW\n",
		      stderr);
		return 2;
	}
	if (!open_all(argv[2], cnt))
		return 1;
	return joins ? spike(argv[2], cnt, last) : measure(cnt, last);
}
