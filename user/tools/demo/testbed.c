/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "tools/demo/demo.h"
#include "tools/terminal.h"

enum { READY_MS = 40000, STOP_MS = 5000, COMMAND_MS = 10000 };

static const char config_file[] = DEMO_DIR "/demo.conf", matrix_file[] = DEMO_DIR "/matrix";
static const char gateway_log[] = DEMO_DIR "/gateway.log", backend_log[] = DEMO_DIR "/backend.log";
static const char gateway_group[] = "nogroup";
static const char echo_a[] = "shm://" DEMO_DIR "/echo-a.sock";
static const char echo_b[] = "shm://" DEMO_DIR "/echo-b.sock";
static const char score_a[] = "shm://" DEMO_DIR "/score.sock";
static const char chat_a[] = "shm://" DEMO_DIR "/chat.sock";
static const char chat_c[] = "shm://" DEMO_DIR "/chat-c.sock";

static const char config[] =
	"# The demo's configuration; a real one looks the same, but for the account: `sluice`\n"
	"# is the default, which need not be there.\n"
	"user = \"" DEMO_USER "\"\n"
	"descriptor_sets = {\"" DEMO_DIR "/echo.pb\"}\n"
	"interface \"sl0\" { }\n"
	"listener v4 { address = \"" DEMO_V4 "\" port = 8080 protocols = {http, datagram} }\n"
	"listener safe { address = \"" DEMO_V4 "\" port = 8443\n"
	"\ttls { certificate = {\"" DEMO_CERT "\"} key = {\"" DEMO_KEY "\"} } }\n"
	"listener v6 { address = \"" DEMO_V6 "\" port = 8080 protocols = {http, datagram} }\n"
	"pool echo {\n"
	"\tbackend a { endpoint = \"shm://" DEMO_DIR "/echo-a.sock\" }\n"
	"\tbackend b { endpoint = \"shm://" DEMO_DIR "/echo-b.sock\" }\n"
	"\tbatch { max_latency = 1s }\n"
	"}\n"
	"pool score {\n"
	"\tbackend a { endpoint = \"shm://" DEMO_DIR "/score.sock\" }\n"
	"\tbatch { max_latency = 1s }\n"
	"}\n"
	"pool chat { backend a { endpoint = \"shm://" DEMO_DIR "/chat.sock\" } }\n"
	"pool chat_in_c { backend a { endpoint = \"shm://" DEMO_DIR "/chat-c.sock\" } }\n"
	"pool python { backend a { endpoint = \"http://127.0.0.1:8001\" } }\n"
	"pool nginx { backend a { endpoint = \"http://127.0.0.1:8002\" } }\n"
	"pool greeter { backend a { endpoint = \"h2c://127.0.0.1:8003\" } }\n"
	"route \"/hello.txt\" { pool = python }\n"
	"route \"/nginx\" { pool = nginx }\n"
	"route \"/demo.Greeter/\" { pool = greeter }\n"
	"route \"/echo\" { pool = echo datagram_service = 1 }\n"
	"route \"/sluice.demo.Echo/\" { pool = echo }\n"
	"route \"/chat\" { pool = chat stream = yes }\n"
	"route \"/chat-in-c\" { pool = chat_in_c stream = yes }\n"
	"route \"/demo.Chat/\" { pool = chat stream = yes }\n"
	"route \"/score\" { pool = score methods = {POST} deadline = 1s datagram_service = 2 }\n"
	"route \"/\" { respond { status = 200 body = \"hello from sluice\\n\" } }\n";

static const uint8_t echo_set[] = {
#include "demo_echo.pb.inc"
};
static const uint8_t chat_py[] = {
#include "chat.py.inc"
};
static const char netns_sh[] = {
#include "netns.sh.inc"
	0};
static const char *const make_netns[] = {"bash",      "-c", netns_sh, "netns.sh", "make", DEMO_GW,
					 DEMO_CLIENT, "1",  "sl0",    "sl1",      NULL};
static const char *const end_netns[] = {"bash", "-c",    netns_sh,    "netns.sh",
					"end",  DEMO_GW, DEMO_CLIENT, NULL};
static const struct proc_where here;

static int fail_with(struct demo *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int fail_with(struct demo *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (!d->why[0])
		vsnprintf(d->why, sizeof(d->why), fmt, ap);
	va_end(ap);
	return -1;
}

static int run_or_fail(struct demo *d, const char *what, const char *const *argv)
{
	char out[400];
	int rc = proc_run(&here, argv, out, sizeof(out), COMMAND_MS);

	if (!rc)
		return 0;
	out[strcspn(out, "\n")] = 0;
	return fail_with(d, "%s cannot make %s: %s", argv[0], what, rc < 0 ? strerror(-rc) : out);
}

static bool netns_exists(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/run/netns/%s", name);
	return access(path, F_OK) == 0;
}

static void remove_netns(void)
{
	int stopped = term_stopped;
	char out[16];

	term_stopped = 0; /* otherwise proc_run() returns at once */
	proc_run(&here, end_netns, out, sizeof(out), COMMAND_MS);
	term_stopped = stopped;
}

static void remove_files(void)
{
	static const char *const files[] = {
		"echo-a.sock", "echo-b.sock", "score.sock",  "chat.sock",   "chat.py",
		"matrix",      "demo.conf",   "gateway.log", "backend.log", "body",
		"reply",       "echo.pb",     "demo.pem",    "demo.key",    "chat-c.sock"};
	char path[96];

	for (size_t i = 0; i < SL_ARRAY_LEN(files); i++) {
		snprintf(path, sizeof(path), DEMO_DIR "/%s", files[i]);
		unlink(path);
	}
	demo_remove_servers();
}

static int take_lock(struct demo *d)
{
	struct stat st;

	for (int i = 0; i < 10; i++) {
		if (mkdir(DEMO_DIR, 0755) != 0 && errno != EEXIST)
			return fail_with(d, DEMO_DIR ": %s", strerror(errno));
		d->lock_fd = open(DEMO_DIR "/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (d->lock_fd >= 0 && flock(d->lock_fd, LOCK_EX | LOCK_NB) != 0) {
			close(d->lock_fd);
			d->lock_fd = -1;
			return fail_with(d, "another demo is running");
		}
		if (d->lock_fd >= 0 && fstat(d->lock_fd, &st) == 0 && st.st_nlink > 0)
			return 0;
		if (d->lock_fd >= 0)
			close(d->lock_fd);
		d->lock_fd = -1;
	}
	return fail_with(d, DEMO_DIR "/lock: %s", strerror(errno));
}

int demo_clear(struct demo *d)
{
	bool ours = access(DEMO_DIR, F_OK) == 0;

	if (!ours && (netns_exists(DEMO_GW) || netns_exists(DEMO_CLIENT)))
		return fail_with(
			d,
			"found a namespace %s that no demo made; remove it with: ip netns del "
			"NAME",
			netns_exists(DEMO_GW) ? DEMO_GW : DEMO_CLIENT);
	if (take_lock(d) != 0)
		return -1;
	if (netns_exists(DEMO_GW) || netns_exists(DEMO_CLIENT))
		puts("ok  removed what a killed demo left behind");
	remove_netns();
	remove_files();
	return 0;
}

static int write_file(struct demo *d, const char *path, const void *bytes, size_t len)
{
	FILE *f = fopen(path, "we");

	if (!f || fwrite(bytes, 1, len, f) != len || fclose(f) != 0)
		return fail_with(d, "%s: %s", path, strerror(errno));
	return 0;
}

static int write_files(struct demo *d)
{
	static const char *const argv[] = {"openssl",
					   "req",
					   "-x509",
					   "-newkey",
					   "ec",
					   "-pkeyopt",
					   "ec_paramgen_curve:P-256",
					   "-nodes",
					   "-days",
					   "30",
					   "-subj",
					   "/CN=demo",
					   "-addext",
					   "subjectAltName=DNS:" DEMO_HOST,
					   "-keyout",
					   DEMO_KEY,
					   "-out",
					   DEMO_CERT,
					   NULL};

	if (run_or_fail(d, "a certificate", argv) != 0)
		return -1;
	if (write_file(d, DEMO_DIR "/echo.pb", echo_set, sizeof(echo_set)) ||
	    write_file(d, DEMO_DIR "/chat.py", chat_py, sizeof(chat_py)))
		return -1;
	return write_file(d, config_file, config, sizeof(config) - 1);
}

static pid_t start_process(struct demo *d, const char *log, const char *group,
			   const char *const *argv)
{
	struct proc_where where = {
		.netns = DEMO_GW, .log = log, .group = group, .dies_with_us = true};
	pid_t pid = proc_spawn(&where, argv, NULL);

	if (pid < 0)
		fail_with(d, "%s: %s", argv[0], strerror(-pid));
	return pid;
}

static int start_backends(struct demo *d)
{
	char echo[4200], score[4200], chat[4200], path[4200], dim[16], rows[16], top[16];

	snprintf(echo, sizeof(echo), "%s/echo", d->bin);
	snprintf(score, sizeof(score), "%s/score", d->bin);
	snprintf(chat, sizeof(chat), "%s/chat", d->bin);
	snprintf(path, sizeof(path), "PYTHONPATH=%s/python", d->bin);
	snprintf(dim, sizeof(dim), "%d", DEMO_DIM);
	snprintf(rows, sizeof(rows), "%d", DEMO_ROWS);
	snprintf(top, sizeof(top), "%d", DEMO_TOP);
	if (run_or_fail(d, "a matrix",
			(const char *[]){score, "--make-matrix", rows, "--matrix", matrix_file,
					 "--dim", dim, NULL}) != 0)
		return -1;
	d->backends[0] = start_process(d, backend_log, gateway_group,
				       (const char *[]){echo, "--listen", echo_a, NULL});
	d->backends[1] = start_process(d, backend_log, gateway_group,
				       (const char *[]){echo, "--listen", echo_b, NULL});
	d->backends[2] =
		start_process(d, backend_log, gateway_group,
			      (const char *[]){score, "--listen", score_a, "--matrix", matrix_file,
					       "--dim", dim, "--top", top, NULL});
	d->backends[3] = start_process(d, backend_log, gateway_group,
				       (const char *[]){"env", path, "/usr/bin/python3",
							DEMO_DIR "/chat.py", chat_a, NULL});
	d->backends[4] = start_process(
		d, backend_log, gateway_group,
		(const char *[]){chat, "--listen", chat_c, "--interval-us", "10000", NULL});
	for (size_t i = 0; i < SL_ARRAY_LEN(d->backends); i++) {
		if (d->backends[i] < 0)
			return -1;
	}
	return 0;
}

static bool show_log(long *at)
{
	FILE *f = fopen(gateway_log, "re");
	char line[512];
	bool ready = false;

	if (!f)
		return false;
	fseek(f, *at, SEEK_SET);
	while (fgets(line, sizeof(line), f) && strchr(line, '\n')) {
		*at = ftell(f);
		printf("    %s", line);
		ready = ready || strcmp(line, "ready\n") == 0;
	}
	fclose(f);
	fflush(stdout);
	return ready;
}

static int start_gateway(struct demo *d)
{
	char sluice[4200];
	long at = 0;

	snprintf(sluice, sizeof(sluice), "%s/sluice", d->bin);
	d->gateway = start_process(d, gateway_log, NULL,
				   (const char *[]){sluice, "run", "-c", config_file, NULL});
	if (d->gateway < 0)
		return -1;
	for (int ms = 0; ms < READY_MS; ms += 50) {
		if (show_log(&at))
			return 0;
		if (!proc_alive(d->gateway))
			return fail_with(d, "the gateway ended, see above");
		if (!term_sleep(50000000))
			return fail_with(d, "interrupted");
	}
	return fail_with(d, "the gateway is not ready after %d s", READY_MS / 1000);
}

static _Noreturn void serve_kernel(int netns_fd)
{
	static const char banner[] = "SSH-2.0-kernel\r\n";
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(DEMO_KERNEL_PORT)};
	int fd, c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	if (setns(netns_fd, CLONE_NEWNET) != 0)
		_exit(1);
	fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof(any)) != 0 || listen(fd, 8) != 0)
		_exit(1);
	while ((c = accept(fd, NULL, NULL)) >= 0) {
		ssize_t n = send(c, banner, sizeof(banner) - 1, MSG_NOSIGNAL);

		(void)n;
		close(c);
	}
	_exit(1);
}

static int start_kernel_service(struct demo *d)
{
	int fd = open("/run/netns/" DEMO_GW, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return fail_with(d, "/run/netns/" DEMO_GW ": %s", strerror(errno));
	fflush(stdout);
	d->kernel_service = fork();
	if (d->kernel_service == 0)
		serve_kernel(fd);
	close(fd);
	return d->kernel_service > 0 ? 0 : fail_with(d, "fork: %s", strerror(errno));
}

int demo_build(struct demo *d)
{
	d->made_netns = true;
	if (run_or_fail(d, "namespaces", make_netns) || write_files(d))
		return -1;
	puts("ok  namespaces " DEMO_GW " and " DEMO_CLIENT ", joined by veth");
	if (start_backends(d) || start_kernel_service(d) || demo_start_servers(d))
		return -1;
	puts("ok  backends: echo a, echo b, score, chat in Python and in C");
	puts("ok  servers: Python's http.server, nginx, grpcio");
	fflush(stdout);
	if (start_gateway(d))
		return -1;
	puts("ok  gateway");
	return 0;
}

void demo_destroy(struct demo *d)
{
	if (d->gateway > 0)
		proc_stop(d->gateway, STOP_MS);
	for (size_t i = 0; i < SL_ARRAY_LEN(d->backends); i++)
		proc_stop(d->backends[i], 1000);
	demo_stop_servers(d);
	proc_stop(d->kernel_service, 1000);
	if (d->made_netns)
		remove_netns();
	if (d->lock_fd >= 0) {
		remove_files();
		unlink(DEMO_DIR "/lock");
		rmdir(DEMO_DIR);
		close(d->lock_fd);
	}
}
