-- SPDX-License-Identifier: Apache-2.0
-- What wrk itself does not print: one line of numbers (requests, seconds, percentiles in us, errors by kind).
function done(summary, latency, requests)
	local e = summary.errors
	print(string.format("wrk %d %.6f %.3f %.3f %.3f %d %d %d %d %d", summary.requests, summary.duration / 1e6,
		latency:percentile(50), latency:percentile(99), latency:percentile(99.9),
		e.connect, e.read, e.write, e.status, e.timeout))
end
