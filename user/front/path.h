/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects paths by which a backend could serve what another route protects:
 *
 *   /public/../admin   /public/%2e%2e/admin   /public/..;x/admin   //admin   /public%2f..%2fadmin
 *   /%61dmin
 *
 * A plain path has one interpretation (RFC 3986 2.1, 5.2.4, 6.2.2). It has no:
 * - a segment "." or "..", decoded, with or without parameters
 * - an empty segment other than the last
 * - a backslash, or an encoded slash, backslash or NUL
 * - an encoded unreserved character (letters, digits, - . _ ~)
 * - a % that does not begin two hexadecimal digits
 *
 * A path without a leading slash ("*") is plain.
 */
#ifndef SL_FRONT_PATH_H
#define SL_FRONT_PATH_H

#include <stdbool.h>
#include "base/bytes.h"

/* Returns true for a plain path. */
bool sl_path_is_plain(struct sl_span path);

/*
 * Two decoded interpretations of a path, which is passed on as sent. `literal` keeps %2F, %5C, %25
 * (in capitals), empty and dot segments; `resolved` resolves them. If both match the same route,
 * every server stays within it:
 *
 *   sent                  literal               resolved
 *   /@scope%2fpkg         /@scope%2Fpkg         /@scope/pkg
 *   /%7Euser//x           /~user//x             /~user/x
 *   /public/../admin      /public/../admin      /admin
 *   /public/..%2fadmin    (refused: what remains of `..` depends on what comes first)
 */
struct sl_path_readings {
	struct sl_span literal, resolved;
	bool climbs;
};

/* Returns true if both interpretations equal the path. */
bool sl_path_is_simple(struct sl_span path);
/*
 * Reads a path that begins with a slash. Buffers need path.len bytes. Returns false if ambiguous:
 * `..` above the root or with encoded or empty segments, dot segments with parameters, NUL, invalid
 * % or UTF-8.
 */
bool sl_path_read(struct sl_span path, uint8_t *literal, uint8_t *resolved,
		  struct sl_path_readings *out);
/* Returns the path as sent, after the first `len` bytes of the literal interpretation. */
struct sl_span sl_path_behind(struct sl_span path, size_t len);

/*
 * Decodes unreserved characters, resolves dot segments, merges slashes. `buf` needs path.len bytes;
 * *out points into it. Returns false for encoded slashes, backslashes or NULs, and for dot segments
 * with parameters or above the root.
 */
bool sl_path_normalise(struct sl_span path, uint8_t *buf, struct sl_span *out);

#endif
