// SPDX-License-Identifier: Apache-2.0
// The gRPC interoperability cases with @grpc/grpc-js. Usage: grpc_js.js --list | ADDRESS CASE
'use strict';
const assert = require('assert');
const grpc = require('@grpc/grpc-js');

const raw = (b) => b;
const TEST = '/grpc.testing.TestService/';
const bytes = (no, b) => Buffer.concat([varint((no << 3) | 2), varint(b.length), b]);
const number = (no, n) => Buffer.concat([varint(no << 3), varint(n)]);
function varint(n) {
	const out = [];
	for (; n > 127; n >>>= 7) out.push((n & 127) | 128);
	return Buffer.from([...out, n]);
}

let client;
function call(path, body, metadata = new grpc.Metadata(), ms = 20000) {
	const result = { trailing: null, initial: null };
	return new Promise((resolve) => {
		const c = client.makeUnaryRequest(path, raw, raw, body, metadata,
			{ deadline: Date.now() + ms }, (error, reply) => {
				result.error = error;
				result.reply = reply;
			});
		c.on('metadata', (m) => (result.initial = m));
		c.on('status', (s) => {
			result.status = s;
			setImmediate(() => resolve(result));
		});
	});
}
const status = (code, text) => bytes(7, Buffer.concat([number(1, code), bytes(2, Buffer.from(text))]));

const cases = {
	async empty_unary() {
		const r = await call(TEST + 'EmptyCall', Buffer.alloc(0));
		assert.strictEqual(r.error, null);
		assert.strictEqual(r.reply.length, 0);
	},
	async large_unary() {
		const request = Buffer.concat([number(2, 314159), bytes(3, bytes(2, Buffer.alloc(271828)))]);
		const r = await call(TEST + 'UnaryCall', request);
		assert.ok(r.reply.equals(bytes(1, bytes(2, Buffer.alloc(314159)))));
	},
	async custom_metadata() {
		const m = new grpc.Metadata();
		m.set('x-grpc-test-echo-initial', 'test_initial_metadata_value');
		m.set('x-grpc-test-echo-trailing-bin', Buffer.from('ababab', 'hex'));
		const r = await call(TEST + 'UnaryCall', number(2, 10), m);
		assert.deepStrictEqual(r.initial.get('x-grpc-test-echo-initial'), ['test_initial_metadata_value']);
		const back = r.status.metadata.get('x-grpc-test-echo-trailing-bin');
		assert.ok(back[0].equals(Buffer.from('ababab', 'hex')));
	},
	async status_code_and_message() {
		const r = await call(TEST + 'UnaryCall', status(2, 'test status message'));
		assert.strictEqual(r.status.code, grpc.status.UNKNOWN);
		assert.strictEqual(r.status.details, 'test status message');
	},
	async special_status_message() {
		const text = '\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n';
		const r = await call(TEST + 'UnaryCall', status(2, text));
		assert.strictEqual(r.status.details, text);
	},
	async unimplemented_method() {
		const r = await call(TEST + 'UnimplementedCall', Buffer.alloc(0));
		assert.strictEqual(r.status.code, grpc.status.UNIMPLEMENTED);
	},
	async unimplemented_service() {
		const r = await call('/grpc.testing.UnimplementedService/UnimplementedCall', Buffer.alloc(0));
		assert.strictEqual(r.status.code, grpc.status.UNIMPLEMENTED);
	},
	async timeout_on_sleeping_server() {
		const r = await call('/sluice.demo.Slow/Call', Buffer.from('x'), undefined, 50);
		assert.strictEqual(r.status.code, grpc.status.DEADLINE_EXCEEDED);
	},
	async cancel_after_begin() {
		const code = await new Promise((resolve) => {
			const c = client.makeUnaryRequest('/sluice.demo.Slow/Call', raw, raw, Buffer.from('x'), () => {});
			c.on('status', (s) => resolve(s.code));
			setTimeout(() => c.cancel(), 50);
		});
		assert.strictEqual(code, grpc.status.CANCELLED);
		assert.strictEqual((await call('/sluice.demo.Echo/Echo', Buffer.from('y'))).error, null);
	},
	async server_streaming() {
		const sizes = [31415, 9, 2653, 58979];
		const request = Buffer.concat(sizes.map((n) => bytes(2, number(1, n))));
		for (const code of [0, 9]) {
			const got = [];
			const end = await new Promise((resolve) => {
				const c = client.makeServerStreamRequest(TEST + 'StreamingOutputCall', raw, raw,
					Buffer.concat([request, status(code, 'the end')]));
				c.on('data', (b) => got.push(b.length));
				c.on('error', () => {});
				c.on('status', resolve);
			});
			assert.deepStrictEqual(got, sizes.map((n) => bytes(1, bytes(2, Buffer.alloc(n))).length));
			assert.strictEqual(end.code, code);
			assert.strictEqual(end.details, 'the end');
		}
	},
	async many_at_once() {
		const calls = [];
		for (let i = 0; i < 300; i++) calls.push(call('/sluice.demo.Echo/Echo', Buffer.alloc(i * 10, i)));
		(await Promise.all(calls)).forEach((r, i) => assert.ok(r.reply.equals(Buffer.alloc(i * 10, i))));
	},
};

if (process.argv[2] === '--list') {
	console.log(Object.keys(cases).join('\n'));
} else {
	client = new grpc.Client(process.argv[2], grpc.credentials.createInsecure());
	cases[process.argv[3]]().then(() => process.exit(0), (e) => {
		console.error(e);
		process.exit(1);
	});
}
