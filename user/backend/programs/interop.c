/* SPDX-License-Identifier: Apache-2.0 */
/* Backend `interop`: an example with protobuf-c, grpc.testing.TestService of interop.proto. */
#include <errno.h>
#include <getopt.h>
#include <string.h>
#include "backend/programs/program.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include "interop.pb-c.c" /* NOLINT(bugprone-suspicious-include): generated, for this file only */
#pragma GCC diagnostic pop

enum { MAX_SIZE = 32 << 20, GRPC_INVALID_ARGUMENT = 3, GRPC_RESOURCE_EXHAUSTED = 8 };
enum { GRPC_UNIMPLEMENTED = 12 };

/* Metadata that the caller wants back, in front of the reply and behind it. */
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

/* A message with so many zeros; SimpleResponse and StreamingOutputCallResponse look the same. */
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
		reply_status(rq, GRPC_RESOURCE_EXHAUSTED, "no memory for this payload");
	}
	free(packed);
	free(body);
	return rc;
}

static void unary_call(struct sl_request_view *rq, struct sl_reply_args *reply)
{
	Grpc__Testing__SimpleRequest *in =
		grpc__testing__simple_request__unpack(NULL, rq->body_len, rq->body);

	if (!in)
		reply_status(rq, GRPC_INVALID_ARGUMENT, "the message is no SimpleRequest");
	else if (in->response_status && in->response_status->code)
		reply_status(rq, (unsigned)in->response_status->code, in->response_status->message);
	else if (in->response_size < 0 || in->response_size > MAX_SIZE)
		reply_status(rq, GRPC_INVALID_ARGUMENT, "response_size out of range");
	else
		reply_payload(rq, reply, (size_t)in->response_size);
	if (in)
		grpc__testing__simple_request__free_unpacked(in, NULL);
}

/* A message per response parameter, then the status with the trailing metadata. */
static void streaming_call(struct sl_request_view *rq, struct sl_reply_args *reply)
{
	Grpc__Testing__StreamingOutputCallRequest *in =
		grpc__testing__streaming_output_call_request__unpack(NULL, rq->body_len, rq->body);
	struct sl_reply_args last = {.no_message = true};
	int rc = 0;

	if (!in) {
		reply_status(rq, GRPC_INVALID_ARGUMENT, "the message is malformed");
		return;
	}
	reply->more = true;
	for (size_t i = 0; i < in->n_response_parameters && !rc; i++) {
		int32_t size = in->response_parameters[i]->size;

		if (size < 0 || size > MAX_SIZE) {
			last.grpc_status = GRPC_INVALID_ARGUMENT;
			break;
		}
		rc = reply_payload(rq, reply, (size_t)size);
	}
	if (rc == -EAGAIN) /* the part was not taken: the client does not read */
		last.grpc_status = GRPC_RESOURCE_EXHAUSTED;
	last.headers = reply->headers;
	last.header_cnt = reply->header_cnt;
	if (!last.grpc_status && in->response_status) {
		last.grpc_status = (uint16_t)in->response_status->code;
		last.grpc_message = in->response_status->message;
	}
	if (!rc || rc == -EAGAIN)
		sl_reply(rq, &last);
	grpc__testing__streaming_output_call_request__free_unpacked(in, NULL);
}

static bool is_path(const struct sl_request_view *rq, const char *path)
{
	return rq->path_len == strlen(path) && memcmp(rq->path, path, rq->path_len) == 0;
}

static void handle(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[i];
		struct sl_header_arg headers[2];
		struct sl_reply_args reply = {.headers = headers};

		reply.header_cnt = echo_metadata(rq, headers);
		if (is_path(rq, "grpc.testing.TestService/EmptyCall"))
			sl_reply(rq, &reply);
		else if (is_path(rq, "grpc.testing.TestService/UnaryCall"))
			unary_call(rq, &reply);
		else if (is_path(rq, "grpc.testing.TestService/StreamingOutputCall"))
			streaming_call(rq, &reply);
		else
			reply_status(rq, GRPC_UNIMPLEMENTED, "no such method");
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"listen", required_argument, NULL, 'l'},
						{"help", no_argument, NULL, 'h'},
						{NULL, 0, NULL, 0}};
	struct sl_backend_options opt = {.handle = handle};
	int c;

	while ((c = getopt_long(argc, argv, "l:h", options, NULL)) != -1) {
		if (c == 'l') {
			opt.listen = optarg;
			continue;
		}
		fputs("Usage: interop --listen ENDPOINT[,ENDPOINT]\n"
		      "grpc.testing.TestService: EmptyCall, UnaryCall and StreamingOutputCall, see "
		      "interop.proto.\n",
		      c == 'h' ? stdout : stderr);
		return c == 'h' ? 0 : 2;
	}
	if (!opt.listen || optind != argc) {
		fputs("interop: expected --listen ENDPOINT; see --help\n", stderr);
		return 2;
	}
	return program_run("interop", &opt);
}
