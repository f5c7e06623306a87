/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that must not be used, for ASan. */
#ifndef SL_BASE_POISON_H
#define SL_BASE_POISON_H

#if defined(__SANITIZE_ADDRESS__)
#define SL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SL_ASAN 1
#endif
#endif

#ifdef SL_ASAN
#include <sanitizer/asan_interface.h>
#define SL_POISON(p, n)   ASAN_POISON_MEMORY_REGION((p), (n))
#define SL_UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION((p), (n))
#else
#define SL_POISON(p, n)   ((void)(p), (void)(n))
#define SL_UNPOISON(p, n) ((void)(p), (void)(n))
#endif

#endif
