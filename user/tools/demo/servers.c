/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "tools/demo/demo.h"
#include "tools/terminal.h"

static const char log_file[] = DEMO_DIR "/servers.log";

static const struct {
	const char *path, *text;
} files[] = {
	{DEMO_DIR "/hello.txt", "hello from a file\n"},
	{DEMO_DIR "/nginx.conf",
	 "daemon off; worker_processes 1; pid " DEMO_DIR "/nginx.pid; error_log stderr;\n"
	 "events { }\n"
	 "http {\n"
	 "\taccess_log off; client_body_temp_path " DEMO_DIR "/nginx.tmp; proxy_temp_path " DEMO_DIR
	 "/nginx.tmp;\n"
	 "\tfastcgi_temp_path " DEMO_DIR "/nginx.tmp; uwsgi_temp_path " DEMO_DIR
	 "/nginx.tmp; scgi_temp_path " DEMO_DIR "/nginx.tmp;\n"
	 "\tserver { listen 127.0.0.1:8002; location / { return 200 \"hello from nginx\\n\"; } }\n"
	 "}\n"},
	{DEMO_DIR "/greeter.py",
	 "import grpc\n"
	 "from concurrent import futures\n"
	 "server = grpc.server(futures.ThreadPoolExecutor(4))\n"
	 "hello = grpc.unary_unary_rpc_method_handler(lambda rq, context: b'hello ' + rq)\n"
	 "server.add_generic_rpc_handlers(\n"
	 "    (grpc.method_handlers_generic_handler('demo.Greeter', {'Hello': hello}),))\n"
	 "server.add_insecure_port('127.0.0.1:8003')\n"
	 "server.start()\n"
	 "server.wait_for_termination()\n"},
};

static const char *const python[] = {"/usr/bin/python3", "-m", "http.server", "8001", "--bind",
				     "127.0.0.1",        "-d", DEMO_DIR,      NULL};
static const char *const nginx[] = {"nginx", "-c", DEMO_DIR "/nginx.conf", NULL};
static const char *const greeter[] = {"/usr/bin/python3", DEMO_DIR "/greeter.py", NULL};

int demo_start_servers(struct demo *d)
{
	static const char *const *const argvs[DEMO_SERVERS] = {python, nginx, greeter};
	const struct proc_where where = {.netns = DEMO_GW, .log = log_file, .dies_with_us = true};

	for (size_t i = 0; i < SL_ARRAY_LEN(files); i++) {
		FILE *f = fopen(files[i].path, "we");

		if (!f || fputs(files[i].text, f) < 0 || fclose(f) != 0) {
			snprintf(d->why, sizeof(d->why), "%s: %s", files[i].path, strerror(errno));
			return -1;
		}
	}
	for (unsigned i = 0; i < DEMO_SERVERS; i++) {
		d->servers[i] = proc_spawn(&where, argvs[i], NULL);
		if (d->servers[i] < 0) {
			snprintf(d->why, sizeof(d->why), "%s: %s", argvs[i][0],
				 strerror(-d->servers[i]));
			return -1;
		}
	}
	return 0;
}

void demo_stop_servers(struct demo *d)
{
	for (unsigned i = 0; i < DEMO_SERVERS; i++) {
		if (d->servers[i] > 0)
			proc_stop(d->servers[i], 1000);
	}
}

void demo_remove_servers(void)
{
	for (size_t i = 0; i < SL_ARRAY_LEN(files); i++)
		unlink(files[i].path);
	unlink(log_file);
	unlink(DEMO_DIR "/nginx.pid");
	rmdir(DEMO_DIR "/nginx.tmp");
}
