/* SPDX-License-Identifier: Apache-2.0 */
/* Backend `interop`: an example with protobuf-c, grpc.testing.TestService of interop.proto. */
#include <errno.h>
#include <getopt.h>
#include <string.h>
#include "sdk/programs/program.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include "interop.pb-c.c" /* NOLINT(bugprone-suspicious-include): generated, for this file only */
#pragma GCC diagnostic pop

enum { MAX_SIZE = 32 << 20, GRPC_INVALID_ARGUMENT = 3, GRPC_RESOURCE_EXHAUSTED = 8 };
enum { GRPC_UNIMPLEMENTED = 12 };

static unsigned echo_metadata(const struct sl_request_view *rq, struct sl_header_arg out[2])
{
	static const char *const names[] = {"x-grpc-test-echo-initial",
					    "x-grpc-test-echo-trailing-bin"};
	unsigned n = 0;
	const char *value;
	size_t len;

	for (int i = 0; i < 2; i++) {
		if (sl_request_header(rq, names[i], &value, &len))
			out[n++] = (struct sl_header_arg){
				.name = names[i], .value = value, .value_len = len, .trailer = i};
	}
	return n;
}

static void reply_status(struct sl_request_view *rq, unsigned code, const char *message)
{
	sl_reply(rq,
		 &(struct sl_reply_args){.grpc_status = (uint16_t)code, .grpc_message = message});
}

static int reply_payload(struct sl_request_view *rq, struct sl_reply_args *reply, size_t size)
{
	Grpc__Testing__Payload payload = GRPC__TESTING__PAYLOAD__INIT;
	Grpc__Testing__SimpleResponse response = GRPC__TESTING__SIMPLE_RESPONSE__INIT;
	uint8_t *body = calloc(1, size + 1), *packed = NULL;
	int rc = -ENOMEM;

	payload.body.data = body;
	payload.body.len = size;
	response.payload = &payload;
	if (body)
		packed = malloc(grpc__testing__simple_response__get_packed_size(&response) + 1);
	if (packed) {
		reply->body_len = grpc__testing__simple_response__pack(&response, packed);
		reply->body = packed;
		rc = sl_reply(rq, reply);
	} else {
		rq->own = NULL;
		reply_status(rq, GRPC_RESOURCE_EXHAUSTED, "no memory for this payload");
	}
	free(packed);
	free(body);
	return rc;
}

static void unary_call(struct sl_request_view *rq, struct sl_reply_args *reply, const uint8_t *body,
		       size_t len)
{
	Grpc__Testing__SimpleRequest *in = grpc__testing__simple_request__unpack(NULL, len, body);

	if (!in)
		reply_status(rq, GRPC_INVALID_ARGUMENT, "malformed SimpleRequest");
	else if (in->response_status && in->response_status->code)
		reply_status(rq, (unsigned)in->response_status->code, in->response_status->message);
	else if (in->response_size < 0 || in->response_size > MAX_SIZE)
		reply_status(rq, GRPC_INVALID_ARGUMENT, "response_size out of range");
	else
		reply_payload(rq, reply, (size_t)in->response_size);
	if (in)
		grpc__testing__simple_request__free_unpacked(in, NULL);
}

static bool is_path(const struct sl_request_view *rq, const char *path)
{
	return rq->path_len == strlen(path) && memcmp(rq->path, path, rq->path_len) == 0;
}

enum method { EMPTY, UNARY, INPUT, OUTPUT, FULL_DUPLEX, HALF_DUPLEX, METHODS };

static const char *const method_paths[METHODS] = {
	[EMPTY] = "grpc.testing.TestService/EmptyCall",
	[UNARY] = "grpc.testing.TestService/UnaryCall",
	[INPUT] = "grpc.testing.TestService/StreamingInputCall",
	[OUTPUT] = "grpc.testing.TestService/StreamingOutputCall",
	[FULL_DUPLEX] = "grpc.testing.TestService/FullDuplexCall",
	[HALF_DUPLEX] = "grpc.testing.TestService/HalfDuplexCall",
};

struct call {
	enum method method;
	uint8_t *in;
	size_t in_len;
	int32_t *sizes;
	size_t size_cnt, sent;
	int32_t sum;
	bool ended;
	unsigned status;
	char *message;
};

static void call_free(struct call *c)
{
	free(c->in);
	free(c->sizes);
	free(c->message);
	free(c);
}

static void call_finish(struct sl_request_view *rq)
{
	struct call *c = rq->own;
	struct sl_header_arg headers[2];
	struct sl_reply_args last = {.no_message = true,
				     .headers = headers,
				     .header_cnt = echo_metadata(rq, headers),
				     .grpc_status = (uint16_t)c->status,
				     .grpc_message = c->message};
	Grpc__Testing__StreamingInputCallResponse sum =
		GRPC__TESTING__STREAMING_INPUT_CALL_RESPONSE__INIT;
	uint8_t packed[16];

	if ((c->method == INPUT || c->method == EMPTY) && !c->status) {
		sum.aggregated_payload_size = c->method == INPUT ? c->sum : 0;
		last.no_message = false;
		last.body = packed;
		last.body_len = grpc__testing__streaming_input_call_response__pack(&sum, packed);
	}
	rq->own = NULL;
	sl_reply(rq, &last);
	call_free(c);
}

static void call_go_on(void *arg, struct sl_request_view *rq)
{
	struct call *c = rq->own;
	struct sl_header_arg headers[2];
	struct sl_reply_args reply = {.headers = headers, .more = true};
	int rc = 0;

	(void)arg;
	if (!c)
		return;
	reply.header_cnt = echo_metadata(rq, headers);
	while (c->sent < c->size_cnt && (c->ended || c->method == FULL_DUPLEX) && !rc) {
		rc = reply_payload(rq, &reply, (size_t)c->sizes[c->sent]);
		if (rc == -EAGAIN)
			return;
		c->sent += !rc;
	}
	if (rc)
		call_free(c);
	else if (c->ended)
		call_finish(rq);
}

static void call_open(void *arg, struct sl_request_view *rq)
{
	struct call *c = calloc(1, sizeof(*c));

	(void)arg;
	while (c && c->method < METHODS && !is_path(rq, method_paths[c->method]))
		c->method++;
	rq->own = c;
	if (!c) {
		sl_reply_error(rq, SL_RPC_REFUSED);
	} else if (c->method == METHODS) {
		rq->own = NULL;
		reply_status(rq, GRPC_UNIMPLEMENTED, "no such method");
		call_free(c);
	}
}

static void call_fail(struct call *c, unsigned status, const char *message)
{
	c->status = status;
	free(c->message);
	c->message = message ? strdup(message) : NULL;
	c->ended = true;
}

static void take_status(struct call *c, const Grpc__Testing__EchoStatus *asked)
{
	if (c->status)
		return;
	if (asked->code) {
		call_fail(c, (unsigned)asked->code, asked->message);
	} else {
		free(c->message);
		c->message = asked->message ? strdup(asked->message) : NULL;
	}
}

static void ask_for(struct call *c, const Grpc__Testing__StreamingOutputCallRequest *in)
{
	size_t n = in->n_response_parameters;
	int32_t *sizes = realloc(c->sizes, (c->size_cnt + n + 1) * sizeof(*sizes));

	if (!sizes) {
		call_fail(c, GRPC_RESOURCE_EXHAUSTED, "no memory for the requested messages");
		return;
	}
	c->sizes = sizes;
	for (size_t i = 0; i < n; i++) {
		int32_t size = in->response_parameters[i]->size;

		if (size < 0 || size > MAX_SIZE)
			call_fail(c, GRPC_INVALID_ARGUMENT, "size out of range");
		else
			sizes[c->size_cnt++] = size;
	}
}

static void take_message(struct call *c)
{
	Grpc__Testing__StreamingOutputCallRequest *out;
	Grpc__Testing__StreamingInputCallRequest *in;

	if (c->method == INPUT) {
		in = grpc__testing__streaming_input_call_request__unpack(NULL, c->in_len, c->in);
		if (!in)
			call_fail(c, GRPC_INVALID_ARGUMENT, "the message is malformed");
		else if (in->payload)
			c->sum += (int32_t)in->payload->body.len;
		if (in)
			grpc__testing__streaming_input_call_request__free_unpacked(in, NULL);
	} else if (c->method >= OUTPUT) {
		out = grpc__testing__streaming_output_call_request__unpack(NULL, c->in_len, c->in);
		if (!out)
			call_fail(c, GRPC_INVALID_ARGUMENT, "the message is malformed");
		else
			ask_for(c, out);
		if (out && out->response_status)
			take_status(c, out->response_status);
		if (out)
			grpc__testing__streaming_output_call_request__free_unpacked(out, NULL);
	}
}

static void call_data(void *arg, struct sl_request_view *rq, const void *bytes, size_t len,
		      size_t left)
{
	struct call *c = rq->own;
	uint8_t *to = realloc(c->in, c->in_len + len + 1);
	struct sl_reply_args reply = {0};
	struct sl_header_arg headers[2];

	if (!to) {
		rq->own = NULL;
		reply_status(rq, GRPC_RESOURCE_EXHAUSTED, "no memory for this message");
		call_free(c);
		return;
	}
	c->in = to;
	if (len)
		memcpy(c->in + c->in_len, bytes, len);
	c->in_len += len;
	if (left)
		return;
	if (c->method == UNARY) {
		reply.headers = headers;
		reply.header_cnt = echo_metadata(rq, headers);
		rq->own = NULL;
		unary_call(rq, &reply, c->in, c->in_len);
		call_free(c);
		return;
	}
	take_message(c);
	c->in_len = 0;
	call_go_on(arg, rq);
}

static void call_end(void *arg, struct sl_request_view *rq)
{
	struct call *c = rq->own;

	c->ended = true;
	call_go_on(arg, rq);
}

static void call_cancel(void *arg, struct sl_request_view *rq)
{
	call_free(rq->own);
	rq->own = NULL;
	(void)arg;
	sl_reply_error(rq, SL_RPC_CANCELLED);
}

static void handle_batch(void *arg, struct sl_batch *batch)
{
	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[i];
		struct sl_header_arg headers[2];
		struct sl_reply_args reply = {.headers = headers};
		struct call *c;

		reply.header_cnt = echo_metadata(rq, headers);
		if (is_path(rq, method_paths[EMPTY])) {
			sl_reply(rq, &reply);
		} else if (is_path(rq, method_paths[UNARY])) {
			unary_call(rq, &reply, rq->body, rq->body_len);
		} else if (is_path(rq, method_paths[OUTPUT])) {
			call_open(arg, rq);
			c = rq->own;
			if (!c)
				continue;
			c->ended = true;
			call_data(arg, rq, rq->body, rq->body_len, 0);
		} else {
			reply_status(rq, GRPC_UNIMPLEMENTED, "no such method");
		}
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"listen", required_argument, NULL, 'l'},
						{"help", no_argument, NULL, 'h'},
						{NULL, 0, NULL, 0}};
	static const struct sl_stream_ops on_stream = {.on_open = call_open,
						       .on_data = call_data,
						       .on_end = call_end,
						       .on_cancel = call_cancel};
	struct sl_backend_options opt = {
		.on_batch = handle_batch, .on_stream = &on_stream, .on_writable = call_go_on};
	int c;

	while ((c = getopt_long(argc, argv, "l:h", options, NULL)) != -1) {
		if (c == 'l') {
			opt.listen = optarg;
			continue;
		}
		fputs("Usage: interop --listen ENDPOINT[,ENDPOINT]\n"
		      "grpc.testing.TestService; streaming calls need a route with `stream = yes`.\n"
		      "See interop.proto.\n",
		      c == 'h' ? stdout : stderr);
		return c == 'h' ? 0 : 2;
	}
	if (!opt.listen || optind != argc) {
		fputs("interop: expected --listen ENDPOINT; see --help\n", stderr);
		return 2;
	}
	return program_run("interop", &opt);
}
