/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC server for the peers, on gRPC's own C core, one thread: /sluice.demo.Echo/Echo returns its
 * message.
 *
 *   slot: request_registered_call -> ARRIVED -> one batch of all that a reply is made of -> DONE
 *         ^----------------------------------------------------------------------------------+
 */
#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 4096 };

struct slot {
	grpc_call *call;
	grpc_byte_buffer *message;
	grpc_metadata_array metadata;
	gpr_timespec deadline;
	bool arrived;
	int cancelled;
};

static grpc_completion_queue *queue;
static grpc_server *server;
static void *method;

static bool await_call(struct slot *s)
{
	s->arrived = false;
	grpc_metadata_array_init(&s->metadata);
	return grpc_server_request_registered_call(server, method, &s->call, &s->deadline,
						   &s->metadata, &s->message, queue, queue,
						   s) == GRPC_CALL_OK;
}

static bool reply(struct slot *s)
{
	grpc_op ops[4] = {
		{.op = GRPC_OP_SEND_INITIAL_METADATA},
		{.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = s->message},
		{.op = GRPC_OP_SEND_STATUS_FROM_SERVER,
		 .data.send_status_from_server.status = GRPC_STATUS_OK},
		{.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
		 .data.recv_close_on_server.cancelled = &s->cancelled},
	};

	s->arrived = true;
	if (!s->message) { /* cancelled before its message came */
		ops[1] = ops[3];
		ops[2].data.send_status_from_server.status = GRPC_STATUS_INTERNAL;
	}
	return grpc_call_start_batch(s->call, ops, s->message ? 4 : 3, s, NULL) == GRPC_CALL_OK;
}

static void release(struct slot *s)
{
	if (s->message)
		grpc_byte_buffer_destroy(s->message);
	s->message = NULL;
	grpc_metadata_array_destroy(&s->metadata);
	grpc_call_unref(s->call);
}

int main(int argc, char **argv)
{
	static struct slot slots[SLOTS];
	grpc_server_credentials *plain;

	if (argc != 2) {
		fputs("usage: grpc_server ADDRESS:PORT or unix:PATH\n", stderr);
		return 2;
	}
	grpc_init();
	queue = grpc_completion_queue_create_for_next(NULL);
	server = grpc_server_create(NULL, NULL);
	grpc_server_register_completion_queue(server, queue, NULL);
	method = grpc_server_register_method(server, "/sluice.demo.Echo/Echo", NULL,
					     GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
	plain = grpc_insecure_server_credentials_create();
	if (!grpc_server_add_http2_port(server, argv[1], plain)) {
		fprintf(stderr, "grpc_server: cannot listen on %s\n", argv[1]);
		return 1;
	}
	grpc_server_credentials_release(plain);
	grpc_server_start(server);
	for (unsigned i = 0; i < SLOTS; i++) {
		if (!await_call(&slots[i]))
			return 1;
	}
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
