/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/output.h"
#include "cli/cli.h"

#define ADMIN_OPTIONS                                                                              \
	"  -c, --config FILE    the gateway's configuration, which names its admin endpoint\n"     \
	"  --admin PATH         its admin socket (default: the one in /run/sluice of a gateway\n"  \
	"                       that runs here), or, to look only, ADDRESS:PORT\n"

const struct cli_command cli_commands[] = {
	{"run", "-c FILE [--no-supervise]", "run the gateway in the foreground",
	 "  -c, --config FILE    the configuration; `sluice help config` lists its keys\n"
	 "\n"
	 "  --no-supervise       one process: nobody starts it again when it dies of a signal\n"
	 "\n"
	 "SIGTERM and SIGINT drain (a second one ends at once), SIGHUP reloads,\n"
	 "SIGUSR1 opens the access log's file again.\n",
	 cli_run},
	{"check", "-c FILE [--offline | --fix | --has-interface] | --defaults",
	 "check a configuration, and what it asks of this machine",
	 "  -c, --config FILE    the configuration\n"
	 "  --offline            the file and what it includes alone, for a pipeline: interfaces,\n"
	 "                       accounts, keys and the file's owner are not looked at\n"
	 "  --fix                print the text of the file with the names that keys have now; files\n"
	 "                       that it includes are fixed one by one\n"
	 "  --has-interface      exit with status 1 if the file names no interface; the unit for\n"
	 "                       systemd then starts nothing\n"
	 "  --defaults           print all keys with their defaults instead\n"
	 "  --json               as JSON\n",
	 cli_check},
	{"demo", "[--keep] [--maps]", "gateway, backends and clients in namespaces, with results",
	 "  --keep               leave it running until ^C, for clients of your own\n"
	 "  --maps               show what bpftool sees of the gateway's maps\n",
	 cli_demo},
	{"status", "[-c FILE]", "what a running gateway does",
	 ADMIN_OPTIONS "  --json               as JSON\n", cli_status},
	{"top", "[-c FILE]", "pools, batches and latencies, live",
	 ADMIN_OPTIONS "  --interval DURATION  between two views (default 1s)\n"
		       "  --count N            end after N views (default: go on)\n"
		       "  --json               one JSON object per view\n",
	 cli_top},
	{"set",
	 "[-c FILE] POOL NAME=VALUE... | POOL/BACKEND NAME=VALUE... | --interface IF deny=PREFIX...",
	 "override what the batch controller decides, or who is let in",
	 ADMIN_OPTIONS "  --interface IF       the edge of an interface instead of a pool\n"
		       "  --json               answer as JSON\n"
		       "\n"
		       "  size=N       largest batch\n"
		       "  delay=D      how long a batch may wait for more requests; 0: never\n"
		       "  bound=D      latency bound\n"
		       "  deadline=D   deadline of requests without one\n"
		       "  shed=S       share of new connections to refuse, 0 to 1\n"
		       "\n"
		       "Of a backend, until the gateway ends:\n"
		       "  state=S      drain: no new requests; up: as before\n"
		       "  weight=N     instead of the configured one, 1 to 256\n"
		       "\n"
		       "A value of auto gives the decision back. Without NAME=VALUE: show.\n"
		       "\n"
		       "Of an interface, beside what the file says, until the gateway ends:\n"
		       "  deny=PREFIX    drop what these clients send to the listeners\n"
		       "  allow=PREFIX   let them in; the longest prefix decides\n"
		       "  remove=PREFIX  remove the rule of that prefix\n"
		       "  unban=ADDRESS  serve a repeat offender again (key penalty)\n",
	 cli_set},
	{"drain", "[-c FILE] [--wait]", "take no new connections, finish what runs, end",
	 ADMIN_OPTIONS "  --wait               return when the gateway has ended\n"
		       "  --json               answer as JSON\n",
	 cli_drain},
	{"reload", "[-c FILE]", "read the configuration again; no request is lost",
	 ADMIN_OPTIONS
	 "  --json               answer as JSON\n"
	 "\n"
	 "The gateway checks the whole file first, with all that it includes: if it is\n"
	 "wrong, nothing changes, and the exit status is 1 after a line for each mistake.\n"
	 "Returns 0 when what can change is in force in all workers. This is for scripts\n"
	 "and ExecReload= of a unit, where -c names the gateway: its socket follows from\n"
	 "the first interface of FILE, or is admin { socket }.\n"
	 "What cannot change while it runs (interfaces, workers, memory, the admin\n"
	 "endpoint) is named; `sluice help config` marks those keys. SIGHUP does the\n"
	 "same and tells the log.\n",
	 cli_reload},
	{"doctor", "[-c FILE] [INTERFACE...]", "what this machine can do, and what to do about it",
	 "  -c, --config FILE    look at the interfaces of a configuration\n"
	 "  INTERFACE            try XDP and AF_XDP on it (for a moment)\n"
	 "  --json               as JSON\n",
	 cli_doctor},
	{"trace", "[-c FILE]", "drops, verdicts, outcomes and errors as they happen",
	 ADMIN_OPTIONS "  --interval DURATION  between two looks (default 1s)\n"
		       "  --count N            end after N looks (default: go on)\n"
		       "  --json               one JSON object per look\n",
	 cli_trace},
	{"events", "[-c FILE] [--status 5xx] [--slow 100ms] [--pool NAME]",
	 "a line for each request as it ends",
	 ADMIN_OPTIONS
	 "  --status S           only replies with this status or class: 503, 5xx\n"
	 "  --slow DURATION      only requests that took as long\n"
	 "  --pool NAME          only requests of this pool\n"
	 "  --route PREFIX       only requests of the route with this prefix\n"
	 "  --backend NAME       only requests that this backend got last\n"
	 "  --count N            end after N lines (default: go on)\n"
	 "  --json               lines as in the access log, with all fields\n"
	 "\n"
	 "A class of gRPC calls follows from their gRPC status: 5xx are faults of the\n"
	 "server, 4xx other errors. The gateway's Unix socket is needed. A slow reader\n"
	 "misses lines, which it is told of; it never slows the gateway.\n",
	 cli_events},
	{"agent", "--listen ENDPOINTS --to URL [OPTIONS]",
	 "make a server that knows nothing of sluice a backend",
	 "  --listen ENDPOINTS   where gateways reach it: shm:///PATH, rdma://ADDRESS:PORT,\n"
	 "                       rdma+ud://ADDRESS:PORT, tcp://ADDRESS:PORT, or several with\n"
	 "                       commas between them\n"
	 "  --to URL             the server: http://HOST:PORT, h2c://HOST:PORT (HTTP/2, gRPC),\n"
	 "                       https://HOST:PORT, h2://HOST:PORT (both with TLS 1.3),\n"
	 "                       http+unix:///PATH, h2c+unix:///PATH\n"
	 "  --host NAME          what to ask the server of the --to before it for, instead of what\n"
	 "                       clients have asked for: NAME, NAME:PORT\n"
	 "  --key-file FILE      shared key of gateways that come by rdma or tcp\n"
	 "  --concurrency N      requests that the server gets at a time, or auto: learnt from\n"
	 "                       its latency (default)\n"
	 "  --health PATH        ask servers for it every 2 s; without status 200 they get no\n"
	 "                       requests. h2c, h2: the name of a service for\n"
	 "                       grpc.health.v1\n"
	 "  --health-interval D  time between these checks\n"
	 "  --ca-file FILE       issuers of certificates of https and h2 servers (those of Debian)\n"
	 "  --server-name NAME   what the certificate of the --to before it is for, if it is not\n"
	 "                       the host of the URL\n"
	 "  --certificate FILE   certificate for servers that want one, with --key FILE\n"
	 "  --no-verify          accept any certificate: others can read and change everything\n"
	 "  --user NAME          become this account, without capabilities and in a sandbox, once its\n"
	 "                       endpoints are open; not with rdma\n"
	 "  --log-level LEVEL    err, warn, info, debug\n"
	 "\n"
	 "One agent may front several servers: --listen and --to once for each. Servers on\n"
	 "the gateway's own host need none: an endpoint may name them. SIGTERM drains.\n",
	 cli_agent},
	{"ingress", "--listen ADDRESSES --to ENDPOINTS [OPTIONS]",
	 "local sockets for programs whose servers are behind agents on other hosts",
	 "  --listen ADDRESSES   where programs of this host connect: 127.0.0.1:PORT, [::1]:PORT,\n"
	 "                       *:PORT, unix:/PATH, or several with commas between them\n"
	 "  --to ENDPOINTS       where `sluice agent` listens: rdma://ADDRESS:PORT,\n"
	 "                       rdma+ud://ADDRESS:PORT, tcp://HOST:PORT, shm:///PATH; requests are\n"
	 "                       spread over several with commas between them\n"
	 "  --key-file FILE      shared key of the agents behind rdma and tcp\n"
	 "  --user NAME          account to serve as when started as root (default sluice)\n"
	 "  --group NAME         group whose members may use Unix sockets\n"
	 "  --workers N          threads (1)\n"
	 "  --admin PATH         admin socket, or none (default: in /run/sluice)\n"
	 "  --log-level LEVEL    err, warn, info, debug\n"
	 "  --print              print the configuration of the gateway that this would run\n"
	 "\n"
	 "HTTP/1.1, HTTP/2 and gRPC pass unchanged, so neither client nor server is changed.\n"
	 "One ingress may serve several services: --listen and --to once for each. It is a\n"
	 "gateway on kernel sockets: `sluice status` looks at it, SIGTERM drains.\n",
	 cli_ingress},
	{"load", "[OPTIONS] http[s]://ADDRESS:PORT/PATH", "load generator, closed or open loop",
	 "  -n, --connections N  (1)         -d, --depth N     requests in flight on each (1)\n"
	 "  -t, --time D         (10s)       -w, --warmup D    not counted (500ms)\n"
	 "  -N, --requests N     end after N replies, or that time\n"
	 "  -r, --rate R         open loop: R requests per second; latency counts from the\n"
	 "                       intended time of sending\n"
	 "  -P, --poisson        with exponential gaps\n"
	 "  -b, --body FILE      POST it     -s, --size N      POST N bytes\n"
	 "  -e, --echo           the reply must equal the request's body\n"
	 "  -x, --expect FILE    the reply must be this\n"
	 "  -p, --per-connection N  close after N requests and open anew\n"
	 "  -u, --datagram N     datagrams to service N (sluice/datagram.h), -T, --timeout D (1s)\n"
	 "  -i, --xdp INTERFACE  AF_XDP and sluice's own TCP instead of kernel sockets;\n"
	 "                       takes all TCP to that interface's address, -q, --queue N (0)\n"
	 "  -c, --cpu N          pin to that CPU\n"
	 "  -j, --json           as JSON     -Q, --quiet       no progress\n",
	 cli_load},
	{"version", "", "version", "  --json               as JSON\n", cli_version},
	{"help", "[COMMAND | TOPIC]", "help on a command, or all there is of a topic",
	 "  config      keys of a configuration, with types, ranges and defaults\n"
	 "  metrics     what /metrics shows\n"
	 "  drops       why a packet is passed on, refused or discarded\n"
	 "  outcomes    how a request ends, and what its client is told\n"
	 "  commands    these commands\n"
	 "\n"
	 "  --json               a topic as JSON\n"
	 "  --roff               a topic as part of a manual page\n",
	 cli_help},
};
const size_t cli_command_cnt = SL_ARRAY_LEN(cli_commands);

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "help";
	bool wants_help = false;

	sl_output_fill();
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
		name = "help";
	else if (strcmp(name, "--version") == 0)
		name = "version";
	for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++)
		wants_help |= strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
	for (size_t i = 0; i < cli_command_cnt; i++) {
		char *help[] = {(char *)(uintptr_t) "help", argv[1], NULL};

		if (strcmp(cli_commands[i].name, name) != 0)
			continue;
		if (wants_help)
			return cli_help(2, help);
		return cli_commands[i].run(argc > 1 ? argc - 1 : 0, argv + 1);
	}
	fprintf(stderr, "sluice: found command \"%.64s\"; `sluice help` lists them\n", name);
	return CLI_USAGE;
}
