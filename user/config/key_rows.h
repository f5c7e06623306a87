/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_CONFIG_KEY_ROWS_H
#define SL_CONFIG_KEY_ROWS_H

#include "config/defaults.h"
#include "config/keys.h"

#define FIELD(type, field) sizeof(((type *)0)->field), offsetof(type, field)
#define US                 UINT64_C(1000)
#define MS                 UINT64_C(1000000)
#define SEC                UINT64_C(1000000000)
#define KIB                UINT64_C(1024)
#define MIB                (KIB * KIB)
#define GIB                (KIB * MIB)
#define DEFAULT(name)      SL_DEFAULT_TEXT(SL_DEFAULT_##name)

#define ROOT(name_, type_, f, ...)                                                                 \
	{                                                                                          \
		CONF_ROOT, false, false, FIELD(struct sl_config, f), name_, &type_, __VA_ARGS__    \
	}
#define ROOT_LIST(name_, type_, f, ...)                                                            \
	{                                                                                          \
		CONF_ROOT, true, false, FIELD(struct sl_config, f), name_, &type_, __VA_ARGS__     \
	}
#define INTERFACE(name_, type_, list_, f, ...)                                                     \
	{                                                                                          \
		CONF_INTERFACE, list_, false, FIELD(struct sl_cfg_interface, f), name_, &type_,    \
			__VA_ARGS__, .restart = true                                               \
	}
#define WORKERS(name_, type_, list_, f, ...)                                                       \
	{                                                                                          \
		CONF_WORKERS, list_, false, FIELD(struct sl_config, f), name_, &type_,             \
			__VA_ARGS__, .restart = true                                               \
	}
/* Keys of an interface that only restrict what is accepted. */
#define EDGE(name_, type_, list_, f, ...)                                                          \
	{                                                                                          \
		CONF_INTERFACE, list_, false, FIELD(struct sl_cfg_interface, f), name_, &type_,    \
			__VA_ARGS__                                                                \
	}
#define LISTENER(name_, type_, list_, req, f, ...)                                                 \
	{                                                                                          \
		CONF_LISTENER, list_, req, FIELD(struct sl_cfg_listener, f), name_, &type_,        \
			__VA_ARGS__                                                                \
	}
#define TLS(name_, type_, list_, f, ...)                                                           \
	{                                                                                          \
		CONF_TLS, list_, false, FIELD(struct sl_cfg_tls, f), name_, &type_, __VA_ARGS__    \
	}
#define POOL(name_, type_, f, ...)                                                                 \
	{                                                                                          \
		CONF_POOL, false, false, FIELD(struct sl_cfg_pool, f), name_, &type_, __VA_ARGS__  \
	}
#define ENDPOINTS "shm:///PATH (of at most 100 bytes), rdma://ADDRESS:PORT, rdma+ud://ADDRESS:PORT"
#define BACKEND(name_, type_, req, f, ...)                                                         \
	{                                                                                          \
		CONF_BACKEND, false, req, FIELD(struct sl_cfg_backend, f), name_, &type_,          \
			__VA_ARGS__                                                                \
	}
#define BATCH(name_, type_, f, ...)                                                                \
	{                                                                                          \
		CONF_BATCH, false, false, FIELD(struct sl_cfg_batch, f), name_, &type_,            \
			__VA_ARGS__                                                                \
	}
#define HEALTH(name_, type_, f, ...)                                                               \
	{                                                                                          \
		CONF_HEALTH, false, false, FIELD(struct sl_cfg_health, f), name_, &type_,          \
			__VA_ARGS__                                                                \
	}
#define SERVER_TLS(name_, type_, f, ...)                                                           \
	{                                                                                          \
		CONF_SERVER_TLS, false, false, FIELD(struct sl_cfg_server_tls, f), name_, &type_,  \
			__VA_ARGS__                                                                \
	}
#define ROUTE(name_, type_, list_, f, ...)                                                         \
	{                                                                                          \
		CONF_ROUTE, list_, false, FIELD(struct conf_route_ref, f), name_, &type_,          \
			__VA_ARGS__                                                                \
	}
#define MATCH(name_, type_, req, f, ...)                                                           \
	{                                                                                          \
		CONF_MATCH, false, req, FIELD(struct conf_match_ref, f), name_, &type_,            \
			__VA_ARGS__                                                                \
	}
#define AFFINITY(name_, type_, list_, f, ...)                                                      \
	{                                                                                          \
		CONF_AFFINITY, list_, false, FIELD(struct conf_route_ref, pools.affinity.f),       \
			name_, &type_, __VA_ARGS__                                                 \
	}
#define SPLIT(name_, type_, f, ...)                                                                \
	{                                                                                          \
		CONF_SPLIT, false, false, FIELD(struct conf_route_ref, f), name_, &type_,          \
			__VA_ARGS__                                                                \
	}
#define MIRROR(name_, type_, f, ...)                                                               \
	{                                                                                          \
		CONF_MIRROR, false, false, FIELD(struct conf_route_ref, f), name_, &type_,         \
			__VA_ARGS__                                                                \
	}
#define LIMIT(name_, type_, f, ...)                                                                \
	{                                                                                          \
		CONF_LIMITS, false, false, FIELD(struct sl_config, limits.f), name_, &type_,       \
			__VA_ARGS__                                                                \
	}
#define RESPOND(name_, type_, f, ...)                                                              \
	{                                                                                          \
		CONF_RESPOND, false, false, FIELD(struct conf_route_ref, f), name_, &type_,        \
			__VA_ARGS__                                                                \
	}
#define TCP(name_, type_, f, ...)                                                                  \
	{                                                                                          \
		CONF_TCP, false, false, FIELD(struct sl_config, limits.f), name_, &type_,          \
			__VA_ARGS__, .restart = true                                               \
	}
#define MEMORY(name_, type_, f, ...)                                                               \
	{                                                                                          \
		CONF_MEMORY, false, false, FIELD(struct sl_config, limits.f), name_, &type_,       \
			__VA_ARGS__, .restart = true                                               \
	}
#define ADMIN(name_, type_, list_, f, ...)                                                         \
	{                                                                                          \
		CONF_ADMIN, list_, false, FIELD(struct sl_config, admin.f), name_, &type_,         \
			__VA_ARGS__, .restart = true                                               \
	}
#define AGENTS(name_, type_, list_, f, ...)                                                        \
	{                                                                                          \
		CONF_AGENTS, list_, false, FIELD(struct sl_config, agents.f), name_, &type_,       \
			__VA_ARGS__, .restart = true                                               \
	}
#define ACCESS_LOG(name_, type_, list_, f, ...)                                                    \
	{                                                                                          \
		CONF_ACCESS_LOG, list_, false, FIELD(struct sl_config, access_log.f), name_,       \
			&type_, __VA_ARGS__                                                        \
	}

#endif
