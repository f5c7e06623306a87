/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/folder.h"
#include "agent/child.h"
#include "agent/list.h"
#include "base/check.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/log.h"
#include "config/agent_status.h"
#include "config/server.h"
#include "sandbox/notify.h"
#include "sandbox/sandbox.h"
#include "sandbox/supervise.h"

enum {
	BACKOFF_MIN_MS = 50,
	BACKOFF_MAX_MS = 5000,
	WELL_MS = 5000,
	LOOK_MS = 2000,
	CLOSE_MS = 2000,
};

struct sl_zygote {
	int fd;
	pid_t pid;
	const char *folder;
};

struct zygote_child {
	pid_t pid;
	int fd;
	uint64_t started_ns, next_ns;
	uint32_t wait_ms;
	uint32_t backoff_ms;
	uint32_t restarts;
	bool leaves;
};

/* In shared memory that outlives the zygote; one buffer receives. */
struct last_list {
	_Atomic uint32_t which;
	size_t len[2];
	char text[2][AGENT_LIST_MAX];
};

struct zygote_state {
	const struct sl_config *cfg;
	const char *folder;
	struct agent_file_ids seen;
	int fd, signal_fd;
	struct zygote_child children[SL_CFG_MAX_AGENTS];
	bool stopping;
	struct last_list *list;
};

static void publish_status(const struct zygote_child *c, uint32_t number)
{
	sl_agent_status_set(number, &(struct sl_agent_info){.up = c->pid != 0,
							    .pid = (uint32_t)c->pid,
							    .restarts = c->restarts,
							    .backoff_ms = c->pid ? 0 : c->wait_ms});
}

/* Returns the read end of an empty pipe instead of a file that cannot be opened. */
static int open_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), ends[2];

	if (fd >= 0)
		return fd;
	sl_log_err("agents: %s: %s", path, strerror(errno));
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
		return -1;
	close(ends[1]);
	return ends[0];
}

static int open_files(const char *text, size_t len, int fds[SL_CFG_MAX_SERVER_FILES])
{
	char path[PATH_MAX];
	size_t at = 0;
	int cnt = 0;

	while (cnt < SL_CFG_MAX_SERVER_FILES && agent_list_next_file(text, len, &at, path) &&
	       (fds[cnt] = open_file(path)) >= 0)
		cnt++;
	return cnt;
}

static bool send_list(const struct zygote_state *k, const struct zygote_child *c, int flags)
{
	const struct last_list *l = k->list;
	uint32_t which = l->which;
	int fds[SL_CFG_MAX_SERVER_FILES], cnt = open_files(l->text[which], l->len[which], fds);
	union agent_list_control control;
	struct iovec iov = {(void *)(uintptr_t)l->text[which], l->len[which]};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	bool ok;

	if (cnt)
		agent_list_attach(&msg, &control, fds, (unsigned)cnt);
	ok = !l->len[which] || sendmsg(c->fd, &msg, MSG_NOSIGNAL | flags) >= 0;
	while (cnt)
		close(fds[--cnt]);
	return ok;
}

static void start_agent(struct zygote_state *k, uint32_t number)
{
	struct zygote_child *c = &k->children[number];
	int ends[2], room = AGENT_LIST_MAX + 4096;
	pid_t self = getpid();

	c->leaves = false;
	c->started_ns = sl_now_ns();
	c->next_ns = c->started_ns + c->backoff_ms * SL_NS_PER_MS;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return;
	(void)setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	fflush(NULL);
	c->pid = fork();
	if (c->pid == 0) {
		close(ends[0]);
		close(k->fd);
		close(k->signal_fd);
		for (uint32_t i = 0; i < SL_CFG_MAX_AGENTS; i++) {
			if (k->children[i].pid && k->children[i].fd >= 0)
				close(k->children[i].fd);
		}
		agent_child_run(&(struct agent_child_options){
			.cfg = k->cfg,
			.folder = k->folder,
			.number = number,
			.fd = ends[1],
			.zygote = self,
		});
	}
	close(ends[1]);
	c->fd = ends[0];
	if (c->pid < 0) {
		c->pid = 0;
		close(ends[0]);
		return;
	}
	publish_status(c, number);
	if (!send_list(k, c, 0))
		sl_log_err("agent %u: cannot be told of its servers: %s", number, strerror(errno));
}

static void note_end(struct zygote_child *c, const char *name, int status)
{
	uint64_t now = sl_now_ns();
	uint32_t wait = now - c->started_ns >= WELL_MS * SL_NS_PER_MS ? 0 : c->backoff_ms;

	c->restarts++;
	c->wait_ms = wait;
	c->next_ns = now + wait * SL_NS_PER_MS;
	sl_log_err("%s %s %d; it starts again in %u ms, for the %u. time", name,
		   WIFSIGNALED(status) ? "died of signal" : "ended with status",
		   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), wait, c->restarts);
	c->backoff_ms = wait ? wait * 2 : BACKOFF_MIN_MS;
	if (c->backoff_ms > BACKOFF_MAX_MS)
		c->backoff_ms = BACKOFF_MAX_MS;
}

static void note_exit(struct zygote_state *k, uint32_t number, int status)
{
	struct zygote_child *c = &k->children[number];
	char name[sizeof("agent-4294967295")];

	if (c->fd >= 0)
		close(c->fd);
	if (c->leaves) {
		c->restarts++;
		c->next_ns = c->backoff_ms = c->wait_ms = 0;
	} else if (!k->stopping) {
		snprintf(name, sizeof(name), "agent %u", number);
		note_end(c, name, status);
	}
	c->pid = 0;
	publish_status(c, number);
}

static void reap_children(struct zygote_state *k)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (uint32_t i = 0; i < k->cfg->agents.count; i++) {
			if (k->children[i].pid == pid)
				note_exit(k, i, status);
		}
	}
}

static void take_signals(struct zygote_state *k)
{
	struct signalfd_siginfo si;

	while (read(k->signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
		k->stopping |= si.ssi_signo == SIGTERM;
	reap_children(k);
}

static void take_list(struct zygote_state *k)
{
	struct last_list *l = k->list;
	uint32_t spare = !l->which;
	ssize_t n = recv(k->fd, l->text[spare], AGENT_LIST_MAX, MSG_DONTWAIT);

	if (n == 0)
		k->stopping = true;
	if (n <= 0)
		return;
	l->len[spare] = (size_t)n;
	l->which = spare;
	for (uint32_t i = 0; i < k->cfg->agents.count; i++) {
		if (k->children[i].pid && !k->children[i].leaves &&
		    !send_list(k, &k->children[i], MSG_DONTWAIT))
			sl_log_err("agent %u: cannot be told of its servers: %s", i,
				   strerror(errno));
	}
}

static bool has_names(const struct zygote_state *k)
{
	uint32_t which = k->list->which;

	return agent_list_has_names(k->list->text[which], k->list->len[which]);
}

static void renew_agents(struct zygote_state *k, const char *why)
{
	sl_log_warn("%s: agents finish their requests and start again", why);
	for (uint32_t i = 0; i < k->cfg->agents.count; i++) {
		struct zygote_child *c = &k->children[i];

		if (!c->pid || c->leaves)
			continue;
		close(c->fd);
		c->fd = -1;
		c->leaves = true;
	}
}

/*
 * Restarts agents whose sandbox has former files of their folder or the resolver.
 */
static void look_around(struct zygote_state *k)
{
	struct agent_file_ids now = agent_file_ids_read(k->folder);
	bool moved = now.dev && (now.dev != k->seen.dev || now.ino != k->seen.ino);

	if (moved)
		renew_agents(k, "the agents' folder was removed and is there again");
	else if (now.resolver != k->seen.resolver && has_names(k))
		renew_agents(k, "the resolver's files have changed");
	if (!now.dev) {
		now.dev = k->seen.dev;
		now.ino = k->seen.ino;
	}
	k->seen = now;
}

static int start_due(struct zygote_state *k)
{
	uint64_t now = sl_now_ns(), next = UINT64_MAX;

	if (k->list->len[k->list->which] <= 1)
		return -1;
	for (uint32_t i = 0; i < k->cfg->agents.count; i++) {
		struct zygote_child *c = &k->children[i];

		if (!c->pid && c->next_ns <= now)
			start_agent(k, i);
		if (!c->pid && c->next_ns < next)
			next = c->next_ns;
	}
	if (next == UINT64_MAX)
		return -1;
	return next > now ? (int)((next - now) / SL_NS_PER_MS) + 1 : 1;
}

static void run_loop(struct zygote_state *k)
{
	struct pollfd fds[2] = {{.fd = k->fd, .events = POLLIN},
				{.fd = k->signal_fd, .events = POLLIN}};
	uint64_t next_ns = 0;

	k->seen = agent_file_ids_read(k->folder);
	while (!k->stopping) {
		int ms = start_due(k);

		(void)poll(fds, 2, ms < 0 || ms > LOOK_MS ? LOOK_MS : ms);
		take_signals(k);
		take_list(k);
		if (sl_now_ns() < next_ns)
			continue;
		look_around(k);
		next_ns = sl_now_ns() + LOOK_MS * SL_NS_PER_MS;
	}
	for (uint32_t i = 0; i < k->cfg->agents.count; i++) {
		if (k->children[i].pid)
			kill(k->children[i].pid, SIGKILL);
	}
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
}

/* Folders of files of TLS, which editors and tools replace. */
static size_t list_folders(const struct sl_config *cfg, struct sl_sandbox_place *places,
			   char (*folders)[PATH_MAX])
{
	char *list = malloc(AGENT_LIST_MAX), path[PATH_MAX];
	size_t len = list ? agent_list_write(list, AGENT_LIST_MAX, cfg) : 0, at = 0, cnt = 0;

	while (len != SIZE_MAX && cnt < SL_CFG_MAX_SERVER_FILES &&
	       agent_list_next_file(list, len, &at, path)) {
		sl_sandbox_folder(path, folders[cnt], PATH_MAX);
		places[cnt] = (struct sl_sandbox_place){folders[cnt], SL_SANDBOX_READ};
		cnt++;
	}
	free(list);
	return cnt;
}

/*
 * The zygote sees more than agents, which restrict themselves, because folder and resolver's files
 * can be replaced.
 */
static int enter_sandbox(const struct sl_config *cfg, struct sl_err *err)
{
	const struct sl_sandbox_place fixed[] = {
		{"/run", SL_SANDBOX_SOCKETS},    {"/run", SL_SANDBOX_READ},
		{"/etc", SL_SANDBOX_READ},       {"/usr/lib", SL_SANDBOX_READ},
		{"/lib", SL_SANDBOX_READ},       {sl_run_dir(), SL_SANDBOX_SOCKETS},
		{sl_run_dir(), SL_SANDBOX_READ},
	};
	struct sl_sandbox_place places[SL_ARRAY_LEN(fixed) + SL_CFG_MAX_SERVER_FILES];
	char(*folders)[PATH_MAX] = calloc(SL_CFG_MAX_SERVER_FILES, sizeof(*folders));
	struct sl_sandbox_options opt = {
		.user = cfg->user,
		.places = places,
		.place_cnt = SL_ARRAY_LEN(fixed),
		.writes_files = true, /* shm rings count as file size */
	};
	int rc;

	if (!folders)
		return sl_fail(err, -ENOMEM, "out of memory");
	memcpy(places, fixed, sizeof(fixed));
	opt.place_cnt += list_folders(cfg, places + SL_ARRAY_LEN(fixed), folders);
	rc = sl_sandbox_enter(&opt, err);
	free(folders);
	if (!rc)
		sl_sandbox_thread(SL_THREAD_KEEPER);
	return rc;
}

static _Noreturn void run_zygote(struct zygote_state *k, pid_t guard)
{
	sigset_t set;

	sl_supervise_under(guard);
	sl_thread_name_set("zygote");
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	k->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (k->signal_fd < 0) {
		sl_log_err("zygote: %s", strerror(errno));
		_exit(1);
	}
	run_loop(k);
	_exit(0);
}

static bool wait_for_list(int fd)
{
	char byte;
	ssize_t n;

	do
		n = recv(fd, &byte, 1, MSG_PEEK);
	while (n < 0 && errno == EINTR);
	return n > 0;
}

static _Noreturn void run_guard(const struct sl_config *cfg, int fd, const char *folder,
				pid_t gateway)
{
	size_t len = sizeof(struct last_list);
	struct zygote_state *k = calloc(1, sizeof(*k));
	void *shared = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct zygote_child zygote = {0};
	char text[300];
	struct sl_err err = {text, sizeof(text)};
	pid_t self = getpid();
	int status = 0;

	setpgid(0, 0);
	sl_supervise_under(gateway);
	sl_notify_use(-1); /* only the gateway notifies the supervisor */
	sl_thread_name_set("zygote-guard");
	if (!wait_for_list(fd))
		_exit(0);
	/* Else glibc asks no name server if it cannot read a new resolv.conf. */
	setenv("RES_OPTIONS", "no-reload", 0);
	if (!k || shared == MAP_FAILED || enter_sandbox(cfg, &err)) {
		sl_log_err("zygote: %s", k && shared != MAP_FAILED ? err.text : "out of memory");
		_exit(1);
	}
	k->cfg = cfg;
	k->folder = folder;
	k->fd = fd;
	k->list = shared;
	for (;;) {
		zygote.started_ns = sl_now_ns();
		fflush(NULL);
		zygote.pid = fork();
		if (zygote.pid == 0)
			run_zygote(k, self);
		if (zygote.pid < 0 || !sl_child_wait(zygote.pid, &status))
			sl_log_err("zygote: %s", strerror(errno));
		else if (WIFEXITED(status) && !WEXITSTATUS(status))
			_exit(0);
		note_end(&zygote, "the agents' zygote", status);
		for (uint64_t now; (now = sl_now_ns()) < zygote.next_ns;)
			(void)poll(NULL, 0, (int)((zygote.next_ns - now) / SL_NS_PER_MS) + 1);
	}
}

struct sl_zygote *sl_zygote_fork(const struct sl_config *cfg, const char *folder,
				 struct sl_err *err)
{
	struct sl_zygote *k = calloc(1, sizeof(*k));
	int ends[2], room = AGENT_LIST_MAX + 4096;
	pid_t self = getpid();

	if (!k || sl_agent_status_make() ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
		sl_fail(err, -1, "agents: %s", strerror(errno));
		free(k);
		return NULL;
	}
	(void)setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	k->folder = folder;
	sl_server_folder_set(folder);
	fflush(NULL);
	k->pid = fork();
	if (k->pid == 0) {
		close(ends[0]);
		run_guard(cfg, ends[1], folder, self);
	}
	close(ends[1]);
	k->fd = ends[0];
	if (k->pid > 0)
		return k;
	sl_fail(err, -1, "agents: cannot start: %s", strerror(errno));
	sl_zygote_close(k);
	return NULL;
}

int sl_zygote_start(struct sl_zygote *k, const struct sl_config *cfg, struct sl_err *err)
{
	const struct passwd *pw = cfg->user[0] ? getpwnam(cfg->user) : NULL;

	if (!pw && cfg->user[0])
		return sl_fail(err, -1, "agents: there is no account %s", cfg->user);
	if (pw && chown(k->folder, pw->pw_uid, pw->pw_gid) != 0)
		return sl_fail(err, -1, "agents: %s: %s", k->folder, strerror(errno));
	if (!sl_zygote_update(k, cfg))
		return sl_fail(err, -1, "agents: cannot start: %s", strerror(errno));
	return 0;
}

bool sl_zygote_alive(const struct sl_zygote *k)
{
	struct pollfd p = {.fd = k->fd};

	return poll(&p, 1, 0) == 0;
}

bool sl_zygote_update(struct sl_zygote *k, const struct sl_config *cfg)
{
	char *list = malloc(AGENT_LIST_MAX);
	size_t len = list ? agent_list_write(list, AGENT_LIST_MAX, cfg) : 0;
	bool ok = false;

	if (len == SIZE_MAX)
		errno = EMSGSIZE;
	else if (list)
		ok = send(k->fd, len ? list : "\n", len ? len : 1, MSG_NOSIGNAL) >= 0;
	free(list);
	return ok;
}

void sl_zygote_close(struct sl_zygote *k)
{
	if (!k)
		return;
	close(k->fd);
	for (int ms = 0; k->pid > 0 && ms < CLOSE_MS && waitpid(k->pid, NULL, WNOHANG) == 0; ms++)
		(void)poll(NULL, 0, 1);
	free(k);
}
