/* SPDX-License-Identifier: Apache-2.0 */
/* Read from the bottom: sl_keeper_start -> guard -> be_keeper -> keep -> start_agent -> be_agent. */
#include "agent/keeper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/check.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/log.h"
#include "config/board.h"
#include "config/server.h"
#include "sandbox/sandbox.h"
#include "sandbox/supervise.h"

enum {
	LIST_MAX = 256 << 10, /* bytes of a list, see write_list() */
	BACKOFF_MIN_MS = 50,  /* (start) */
	BACKOFF_MAX_MS = 5000,
	WELL_MS = 5000, /* a life of that length ends the back-off */
	FOLDER_TRIES = 100,
};
static const char folder_prefix[] = "agents-";

struct sl_keeper {
	int fd; /* of lists */
	pid_t pid;
	char folder[SL_KEEPER_FOLDER_LEN];
};

struct child {
	pid_t pid; /* 0: none */
	int fd;    /* it reads lists there */
	uint64_t started_ns, next_ns;
	uint32_t wait_ms;    /* from its end on */
	uint32_t backoff_ms; /* the next wait, unless it lives well */
	uint32_t restarts;
};

/* The last list, in memory that outlives a keeper: the one of two that is not being received. */
struct last_list {
	_Atomic uint32_t which;
	size_t len[2];
	char text[2][LIST_MAX];
};

struct keep {
	const struct sl_config *cfg; /* as of the start */
	int fd, signal_fd;
	struct child children[SL_CFG_MAX_AGENTS];
	bool stopping;
	struct last_list *list;
};

/* --- lists --- */

/*
 * A line for each server: endpoint TAB url TAB name TAB concurrency TAB host, which may be empty.
 * "*" of the endpoint stands for the number of the agent.
 */
static size_t write_list(char *to, size_t cap, const struct sl_config *cfg)
{
	size_t len = 0;

	for (uint32_t p = 0; p < cfg->pool_cnt; p++) {
		const struct sl_cfg_pool *pool = &cfg->pools[p];

		for (uint32_t i = 0; pool->name && i < pool->backend_cnt; i++) {
			const struct sl_cfg_backend *b = &pool->backends[i];
			char endpoint[SL_SERVER_ENDPOINT_LEN];

			if (!b->name || !sl_server_is(b))
				continue;
			sl_server_endpoint(endpoint, SL_SERVER_ANY_AGENT, pool->name, b);
			len += (size_t)snprintf(to + len, cap - len, "%s\t%s\t%s/%s\t%u\t%s\n",
						endpoint, b->endpoint, pool->name, b->name,
						b->concurrency, b->host ? b->host : "");
			if (len >= cap)
				return 0;
		}
	}
	return len;
}

/* --- an agent --- */

struct server_line {
	char listen[SL_SERVER_ENDPOINT_LEN];
	char *to, *name, *host;
	uint32_t concurrency;
};

struct lists {
	struct agent *agent;
	int fd;
	uint32_t number; /* of the agent */
	struct server_line *now;
	uint32_t cnt;
	char *text; /* that `now` points into */
};

/* The keeper's text: trusted, as it is ours. */
static uint32_t parse_list(char *text, uint32_t number, struct server_line *out, uint32_t max)
{
	uint32_t n = 0;
	char *line, *rest = text;

	while (n < max && (line = strsep(&rest, "\n")) && *line) {
		struct server_line *s = &out[n];
		const char *endpoint = strsep(&line, "\t"), *mark = strstr(endpoint, "/*-"), *most;

		s->to = strsep(&line, "\t");
		s->name = strsep(&line, "\t");
		most = strsep(&line, "\t");
		if (!mark || !s->to || !s->name || !most || !line)
			continue;
		s->concurrency = (uint32_t)strtoul(most, NULL, 10);
		s->host = *line ? line : NULL;
		snprintf(s->listen, sizeof(s->listen), "%.*s/%u-%s", (int)(mark - endpoint),
			 endpoint, number, mark + 3);
		n++;
	}
	return n;
}

static bool is_listed(const struct server_line *list, uint32_t cnt, const char *listen)
{
	for (uint32_t i = 0; i < cnt; i++) {
		if (strcmp(list[i].listen, listen) == 0)
			return true;
	}
	return false;
}

/* Those that are new are served, those that are not there any more leave. */
static void change(struct lists *l, struct server_line *next, uint32_t cnt)
{
	struct sl_err err = SL_ERR(300);

	for (uint32_t i = 0; i < l->cnt; i++) {
		if (!is_listed(next, cnt, l->now[i].listen))
			sl_agent_remove(l->agent, l->now[i].listen);
	}
	for (uint32_t i = 0; i < cnt; i++) {
		struct sl_agent_options o = {.listen = next[i].listen,
					     .to = next[i].to,
					     .name = next[i].name,
					     .host = next[i].host,
					     .concurrency = next[i].concurrency,
					     .number = l->number};

		if (is_listed(l->now, l->cnt, next[i].listen))
			continue;
		if (sl_agent_add(l->agent, &o, &err))
			sl_log_err("agent %u: %s: %s", l->number, next[i].name, err.text);
	}
}

static void on_list(void *arg)
{
	struct lists *l = arg;
	struct server_line *next = calloc(SL_CFG_MAX_SERVERS, sizeof(*next));
	char *text = calloc(1, LIST_MAX + 1);
	ssize_t n = text && next ? recv(l->fd, text, LIST_MAX, MSG_DONTWAIT) : -1;
	uint32_t cnt;

	if (n <= 0) {
		free(text);
		free(next);
		if (n == 0) /* the keeper has gone */
			sl_agent_stop(l->agent);
		return;
	}
	cnt = parse_list(text, l->number, next, SL_CFG_MAX_SERVERS);
	change(l, next, cnt);
	sl_agent_look_up(l->agent); /* a reload may be for that */
	free(l->now);
	free(l->text);
	l->now = next;
	l->text = text;
	l->cnt = cnt;
}

static void pin(const struct sl_cfg_agents *a, uint32_t number)
{
	cpu_set_t set;

	if (number >= a->cpu_cnt)
		return;
	CPU_ZERO(&set);
	CPU_SET((unsigned)a->cpus[number], &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		sl_log_warn("agent %u: cpu %d: %s", number, a->cpus[number], strerror(errno));
}

static _Noreturn void be_agent(const struct keep *k, uint32_t number, int fd, pid_t keeper)
{
	struct lists lists = {.fd = fd, .number = number};
	struct sl_err err = SL_ERR(200);
	char name[sizeof("agent-4294967295")];

	sl_supervise_under(keeper);
	snprintf(name, sizeof(name), "agent-%u", number);
	sl_thread_name_set(name);
	pin(&k->cfg->agents, number);
	lists.agent = sl_agent_open(&err);
	if (lists.agent && sl_agent_start(lists.agent))
		sl_log_err("agent %u: names cannot be looked up", number);
	sl_sandbox_thread(SL_THREAD_AGENT);
	if (!lists.agent || sl_agent_watch(lists.agent, fd, on_list, &lists)) {
		sl_log_err("agent %u: %s", number, lists.agent ? "out of memory" : err.text);
		_exit(1);
	}
	sl_agent_run(lists.agent);
	_exit(0);
}

/* --- the keeper --- */

static void tell(const struct child *c, uint32_t number)
{
	sl_board_agent_set(number, &(struct sl_agent_info){.up = c->pid != 0,
							   .pid = (uint32_t)c->pid,
							   .restarts = c->restarts,
							   .backoff_ms = c->pid ? 0 : c->wait_ms});
}

static bool send_list(const struct keep *k, const struct child *c, int flags)
{
	const struct last_list *l = k->list;
	uint32_t which = l->which;

	return !l->len[which] ||
	       send(c->fd, l->text[which], l->len[which], MSG_NOSIGNAL | flags) >= 0;
}

static void start_agent(struct keep *k, uint32_t number)
{
	struct child *c = &k->children[number];
	int ends[2], room = LIST_MAX + 4096;
	pid_t self = getpid();

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
			if (k->children[i].pid)
				close(k->children[i].fd);
		}
		be_agent(k, number, ends[1], self);
	}
	close(ends[1]);
	c->fd = ends[0];
	if (c->pid < 0) {
		c->pid = 0;
		close(ends[0]);
		return;
	}
	tell(c, number);
	if (!send_list(k, c, 0))
		sl_log_err("agent %u: cannot be told of its servers: %s", number, strerror(errno));
}

/* It starts again at next_ns: at once, if it has lived well. */
static void note_end(struct child *c, const char *name, int status)
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

static void ended(struct keep *k, uint32_t number, int status)
{
	struct child *c = &k->children[number];
	char name[sizeof("agent-4294967295")];

	close(c->fd);
	if (!k->stopping) {
		snprintf(name, sizeof(name), "agent %u", number);
		note_end(c, name, status);
	}
	c->pid = 0;
	tell(c, number);
}

static void reap(struct keep *k)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (uint32_t i = 0; i < k->cfg->agents.count; i++) {
			if (k->children[i].pid == pid)
				ended(k, i, status);
		}
	}
}

static void take_signals(struct keep *k)
{
	struct signalfd_siginfo si;

	while (read(k->signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
		k->stopping |= si.ssi_signo == SIGTERM;
	reap(k);
}

static void take_list(struct keep *k)
{
	struct last_list *l = k->list;
	uint32_t spare = !l->which;
	ssize_t n = recv(k->fd, l->text[spare], LIST_MAX, MSG_DONTWAIT);

	if (n == 0)
		k->stopping = true; /* the gateway has gone */
	if (n <= 0)
		return;
	l->len[spare] = (size_t)n;
	l->which = spare;
	for (uint32_t i = 0; i < k->cfg->agents.count; i++) {
		if (k->children[i].pid && !send_list(k, &k->children[i], MSG_DONTWAIT))
			sl_log_err("agent %u: cannot be told of its servers: %s", i,
				   strerror(errno));
	}
}

/* Starts who is due; how long to wait for the next one. */
static int start_due(struct keep *k)
{
	uint64_t now = sl_now_ns(), next = UINT64_MAX;

	if (k->list->len[k->list->which] <= 1) /* there are no servers */
		return -1;
	for (uint32_t i = 0; i < k->cfg->agents.count; i++) {
		struct child *c = &k->children[i];

		if (!c->pid && c->next_ns <= now)
			start_agent(k, i);
		if (!c->pid && c->next_ns < next)
			next = c->next_ns;
	}
	if (next == UINT64_MAX)
		return -1;
	return next > now ? (int)((next - now) / SL_NS_PER_MS) + 1 : 1;
}

static void keep(struct keep *k)
{
	struct pollfd fds[2] = {{.fd = k->fd, .events = POLLIN},
				{.fd = k->signal_fd, .events = POLLIN}};

	while (!k->stopping) {
		(void)poll(fds, 2, start_due(k));
		take_signals(k);
		take_list(k);
	}
	for (uint32_t i = 0; i < k->cfg->agents.count; i++) {
		if (k->children[i].pid)
			kill(k->children[i].pid, SIGKILL);
	}
}

/* What agents may: their sockets, and to look up names. */
static int confine(const struct sl_config *cfg, const char *folder, struct sl_err *err)
{
	struct sl_sandbox_place places[] = {
		{folder, SL_SANDBOX_SOCKETS},
		{"/etc", SL_SANDBOX_READ},
		{"/usr/lib", SL_SANDBOX_READ},
		{"/lib", SL_SANDBOX_READ},
	};
	struct sl_sandbox_options opt = {
		.user = cfg->user,
		.places = places,
		.place_cnt = SL_ARRAY_LEN(places),
		.writes_files = true, /* the rings of shm, whose size counts as that of a file */
	};

	return sl_sandbox_enter(&opt, err);
}

static _Noreturn void be_keeper(struct keep *k, pid_t guard)
{
	sigset_t set;

	sl_supervise_under(guard);
	sl_thread_name_set("keeper");
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	k->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (k->signal_fd < 0) {
		sl_log_err("keeper: %s", strerror(errno));
		_exit(1);
	}
	keep(k);
	_exit(0);
}

/* --- its guard --- */

/*
 * Keeps the keeper, in which all happens that can go wrong: this one only waits. It ends when the
 * keeper does in order, that is, when the gateway has gone.
 */
static _Noreturn void guard(const struct sl_config *cfg, int fd, const char *folder, pid_t gateway)
{
	size_t len = sizeof(struct last_list);
	struct keep *k = calloc(1, sizeof(*k));
	void *shared = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct child keeper = {0};
	char text[300];
	struct sl_err err = {text, sizeof(text)};
	pid_t self = getpid();
	int status = 0;

	setpgid(0, 0);
	sl_supervise_under(gateway);
	sl_thread_name_set("keeper-guard");
	if (!k || shared == MAP_FAILED || confine(cfg, folder, &err)) {
		sl_log_err("keeper: %s", k && shared != MAP_FAILED ? err.text : "out of memory");
		_exit(1);
	}
	k->cfg = cfg;
	k->fd = fd;
	k->list = shared;
	for (;;) {
		keeper.started_ns = sl_now_ns();
		fflush(NULL);
		keeper.pid = fork();
		if (keeper.pid == 0)
			be_keeper(k, self);
		if (keeper.pid < 0 || !sl_child_wait(keeper.pid, &status))
			sl_log_err("keeper: %s", strerror(errno));
		else if (WIFEXITED(status) && !WEXITSTATUS(status))
			_exit(0);
		note_end(&keeper, "the agents' keeper", status);
		for (uint64_t now; (now = sl_now_ns()) < keeper.next_ns;)
			(void)poll(NULL, 0, (int)((keeper.next_ns - now) / SL_NS_PER_MS) + 1);
	}
}

int sl_keeper_folder_make(const char *account, char folder[SL_KEEPER_FOLDER_LEN],
			  struct sl_err *err)
{
	const struct passwd *pw = getpwnam(account);
	struct stat st;
	int fd;

	if (!pw)
		return sl_fail(err, -1, "agents: there is no account %s", account);
	(void)mkdir(SL_RUN_DIR, 0755);
	for (int tries = 0; tries < FOLDER_TRIES; tries++) {
		snprintf(folder, SL_KEEPER_FOLDER_LEN, "%s/%sXXXXXX", SL_RUN_DIR, folder_prefix);
		if (!mkdtemp(folder))
			break;
		fd = open(folder, O_RDONLY | O_DIRECTORY);
		/* Without its lock another gateway may take it for one of the dead, and remove it. */
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 &&
		    st.st_nlink > 0 && fchown(fd, pw->pw_uid, pw->pw_gid) == 0)
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return sl_fail(err, -1, "agents: %s: %s", folder, strerror(errno));
}

struct sl_keeper *sl_keeper_start(const struct sl_config *cfg, struct sl_err *err)
{
	struct sl_keeper *k = calloc(1, sizeof(*k));
	int ends[2], lock, room = LIST_MAX + 4096;
	pid_t self = getpid();

	if (!k || sl_board_make() ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
		sl_fail(err, -1, "agents: %s", strerror(errno));
		free(k);
		return NULL;
	}
	(void)setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	lock = sl_keeper_folder_make(cfg->user, k->folder, err);
	sl_server_folder_set(k->folder);
	fflush(NULL);
	k->pid = lock < 0 ? -1 : fork();
	if (k->pid == 0) {
		close(ends[0]);
		guard(cfg, ends[1], k->folder, self);
	}
	close(ends[1]);
	if (lock >= 0)
		close(lock); /* the keeper has it, and all agents */
	k->fd = ends[0];
	if (k->pid > 0 && sl_keeper_tell(k, cfg))
		return k;
	if (lock >= 0)
		sl_fail(err, -1, "agents: cannot start: %s", strerror(errno));
	sl_keeper_close(k);
	return NULL;
}

bool sl_keeper_tell(struct sl_keeper *k, const struct sl_config *cfg)
{
	char *list = malloc(LIST_MAX);
	size_t len = list ? write_list(list, LIST_MAX, cfg) : 0;
	/* Without servers: a line that names none. */
	bool ok = list && send(k->fd, len ? list : "\n", len ? len : 1, MSG_NOSIGNAL) >= 0;

	free(list);
	return ok;
}

void sl_keeper_close(struct sl_keeper *k)
{
	if (!k)
		return;
	close(k->fd);
	free(k);
}

void sl_keeper_sweep(void)
{
	DIR *run = opendir(SL_RUN_DIR), *dir;
	struct dirent *e, *file;
	int fd;

	while (run && (e = readdir(run))) {
		if (strncmp(e->d_name, folder_prefix, strlen(folder_prefix)) != 0)
			continue;
		fd = openat(dirfd(run), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
		dir = fd < 0 ? NULL : fdopendir(fd);
		if (dir && flock(fd, LOCK_EX | LOCK_NB) == 0) {
			while ((file = readdir(dir)))
				(void)unlinkat(fd, file->d_name, 0);
			(void)unlinkat(dirfd(run), e->d_name, AT_REMOVEDIR);
		}
		if (dir)
			closedir(dir);
		else if (fd >= 0)
			close(fd);
	}
	if (run)
		closedir(run);
}
