// SPDX-License-Identifier: Apache-2.0
// The gRPC interoperability cases with @grpc/grpc-js. Usage: cases.js --list | ADDRESS CASE
// With CA, a file of certificates, set in the environment: over TLS.
'use strict';
const assert = require('assert');
const fs = require('fs');
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

const wants = (n) => bytes(2, number(1, n));
const payload = (n) => bytes(1, bytes(2, Buffer.alloc(n)));
function duplex(metadata = new grpc.Metadata(), ms = 20000, method = 'FullDuplexCall') {
	const c = client.makeBidiStreamRequest(TEST + method, raw, raw, metadata, { deadline: Date.now() + ms });
	const waiting = [], got = [];
	c.next = () => new Promise((resolve) => (got.length ? resolve(got.shift()) : waiting.push(resolve)));
	const tell = (what) => (waiting.length ? waiting.shift()(what) : got.push(what));
	c.on('data', tell);
	c.on('error', () => {});
	c.over = new Promise((resolve) => c.on('status', resolve));
	return c;
}

const cases = {
	async client_streaming() {
		const sizes = [27182, 8, 1828, 45904];
		const reply = await new Promise((resolve, reject) => {
			const c = client.makeClientStreamRequest(TEST + 'StreamingInputCall', raw, raw, new grpc.Metadata(),
				{ deadline: Date.now() + 20000 }, (error, r) => (error ? reject(error) : resolve(r)));
			for (const n of sizes) c.write(payload(n));
			c.end();
		});
		assert.ok(reply.equals(number(1, 74922)));
	},
	async ping_pong() {
		const c = duplex();
		for (const n of [31415, 9, 2653, 58979]) {
			c.write(wants(n));
			assert.ok((await c.next()).equals(payload(n)));
		}
		c.end();
		assert.strictEqual((await c.over).code, grpc.status.OK);
	},
	async empty_stream() {
		const c = duplex();
		c.end();
		assert.strictEqual((await c.over).code, grpc.status.OK);
	},
	async timeout_on_sleeping_server() {
		const c = duplex(new grpc.Metadata(), 300);
		c.write(Buffer.alloc(0));
		assert.strictEqual((await c.over).code, grpc.status.DEADLINE_EXCEEDED);
	},
	async cancel_after_begin() {
		const code = await new Promise((resolve) => {
			const c = client.makeClientStreamRequest(TEST + 'StreamingInputCall', raw, raw, () => {});
			c.on('status', (s) => resolve(s.code));
			setTimeout(() => c.cancel(), 50);
		});
		assert.strictEqual(code, grpc.status.CANCELLED);
		assert.strictEqual((await call('/sluice.demo.Echo/Echo', Buffer.from('y'))).error, null);
	},
	async cancel_after_first_response() {
		const c = duplex();
		c.write(wants(31415));
		await c.next();
		c.cancel();
		assert.strictEqual((await c.over).code, grpc.status.CANCELLED);
	},
	async custom_metadata_full_duplex() {
		const m = new grpc.Metadata();
		m.set('x-grpc-test-echo-initial', 'test_initial_metadata_value');
		m.set('x-grpc-test-echo-trailing-bin', Buffer.from('ababab', 'hex'));
		const c = duplex(m);
		const initial = new Promise((resolve) => c.on('metadata', resolve));
		c.write(wants(10));
		assert.deepStrictEqual((await initial).get('x-grpc-test-echo-initial'), ['test_initial_metadata_value']);
		c.end();
		const back = (await c.over).metadata.get('x-grpc-test-echo-trailing-bin');
		assert.ok(back[0].equals(Buffer.from('ababab', 'hex')));
	},
	async status_code_and_message_full_duplex() {
		const c = duplex();
		c.write(status(2, 'test status message'));
		c.end();
		const s = await c.over;
		assert.strictEqual(s.code, grpc.status.UNKNOWN);
		assert.strictEqual(s.details, 'test status message');
	},
	async unimplemented_stream() {
		const c = duplex(new grpc.Metadata(), 20000, 'UnimplementedStreamingCall');
		c.write(wants(1));
		assert.strictEqual((await c.over).code, grpc.status.UNIMPLEMENTED);
	},
	async status_while_the_client_still_sends() {
		const c = duplex();
		c.write(status(10, 'enough'));
		const s = await c.over;
		assert.strictEqual(s.code, grpc.status.ABORTED);
		assert.strictEqual(s.details, 'enough');
	},
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
	async every_status() {
		for (let code = 1; code <= 16; code++) {
			const r = await call(TEST + 'UnaryCall', status(code, 'x'));
			assert.strictEqual(r.status.code, code);
			assert.strictEqual(r.status.details, 'x');
		}
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
	async timeout_of_a_unary_call() {
		const r = await call('/sluice.demo.Slow/Echo', Buffer.from('x'), undefined, 50);
		assert.strictEqual(r.status.code, grpc.status.DEADLINE_EXCEEDED);
	},
	async cancel_of_a_unary_call() {
		const code = await new Promise((resolve) => {
			const c = client.makeUnaryRequest('/sluice.demo.Slow/Echo', raw, raw, Buffer.from('x'), () => {});
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
	client = new grpc.Client(process.argv[2], process.env.CA ? grpc.credentials.createSsl(fs.readFileSync(process.env.CA))
		: grpc.credentials.createInsecure());
	cases[process.argv[3]]().then(() => process.exit(0), (e) => {
		console.error(e);
		process.exit(1);
	});
}
