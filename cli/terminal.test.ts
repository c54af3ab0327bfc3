import assert from 'node:assert/strict';
import { connect, createServer, type Socket } from 'node:net';
import { once } from 'node:events';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { encodeFrame, type Frame, readFrames } from '@flynn/kit/frames';
import { waitFor } from '@flynn/kit/retry';
import { joinJob } from './terminal.ts';
import { TestIo } from './testing.ts';

const deadlineMs = 60_000;

class Attachment implements AsyncDisposable {
  readonly io = new TestIo();
  readonly client: Socket;
  readonly job: Socket;
  readonly frames: Frame[] = [];
  readonly #close: () => void;

  private constructor(client: Socket, job: Socket, close: () => void) {
    this.client = client;
    this.job = job;
    this.#close = close;
    void this.#read();
  }

  static async open(): Promise<Attachment> {
    const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    assert.ok(typeof address === 'object' && address !== null);
    const accepted = once(server, 'connection');
    const client = connect(address.port, '127.0.0.1');
    client.on('error', () => client.destroy());
    const [job] = await accepted;
    assert.ok(job instanceof Object);
    job.on('error', () => job.destroy());
    return new Attachment(client, job, () => server.close());
  }

  join(options: { isTerminal: boolean } = { isTerminal: false }): Promise<number> {
    return joinJob(this.io, this.client, options);
  }

  say(...frames: Frame[]): void {
    for (const frame of frames) this.job.write(encodeFrame(frame));
  }

  heard(count: number): Promise<boolean> {
    return waitFor(() => this.frames.length >= count, { what: `${count} frames`, deadlineMs, intervalMs: 2 });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.client.destroy();
    this.job.destroy();
    this.#close();
  }

  async #read(): Promise<void> {
    try {
      for await (const frame of readFrames(this.job)) this.frames.push(frame);
    } catch {
      // Either side hangs up when the test is through.
    }
  }
}

const bytes = (text: string): Buffer => Buffer.from(text);

test('output goes where it came from, byte for byte, and the exit code is answered', async () => {
  await using at = await Attachment.open();
  const odd = Buffer.from([0, 255, 10, 13, 27]);
  at.say(
    { kind: 'stdout', data: bytes('out é\n') },
    { kind: 'stderr', data: bytes('err\n') },
    { kind: 'ping' },
    { kind: 'stdout', data: odd },
    { kind: 'exit', code: 42 },
  );
  assert.equal(await at.join(), 42);
  assert.deepEqual(at.io.stdout.bytes, Buffer.concat([bytes('out é\n'), odd]));
  assert.equal(at.io.stderr.text, 'err\n');
});

test('input reaches the job until its end', async () => {
  await using at = await Attachment.open();
  const joined = at.join();
  at.io.stdin.write('one\n');
  await at.heard(1);
  at.io.stdin.end('two');
  await at.heard(3);
  assert.deepEqual(at.frames, [
    { kind: 'stdin', data: bytes('one\n') },
    { kind: 'stdin', data: bytes('two') },
    { kind: 'stdin-end' },
  ]);
  at.say({ kind: 'exit', code: 0 });
  assert.equal(await joined, 0);
});

test('more input than the connection takes at once arrives complete and in order', async () => {
  await using at = await Attachment.open();
  const joined = at.join();
  const sent = Buffer.alloc(9 * 1024 * 1024, Buffer.from('0123456789abcde'));
  at.io.stdin.end(sent);
  await waitFor(() => at.frames.at(-1)?.kind === 'stdin-end', { what: 'all of it', deadlineMs, intervalMs: 5 });
  const received = Buffer.concat(at.frames.map((frame) => (frame.kind === 'stdin' ? frame.data : bytes(''))));
  assert.ok(received.equals(sent));
  at.say({ kind: 'exit', code: 0 });
  await joined;
});

test('in a terminal input is raw, Ctrl-C is a byte, and changes of its size are told', async () => {
  await using at = await Attachment.open();
  const joined = at.join({ isTerminal: true });
  assert.equal(at.io.stdin.isRaw, true);
  at.io.stdin.write('\u0003');
  await at.heard(2);
  Object.assign(at.io.stdout, { columns: 132, rows: 50 });
  assert.equal(at.io.signal('SIGWINCH'), 1);
  assert.equal(at.io.signal('SIGINT'), 0);
  await at.heard(3);
  assert.deepEqual(at.frames, [
    { kind: 'resize', columns: 100, rows: 40 },
    { kind: 'stdin', data: Buffer.from([3]) },
    { kind: 'resize', columns: 132, rows: 50 },
  ]);
  at.say({ kind: 'exit', code: 130 });
  assert.equal(await joined, 130);
  assert.equal(at.io.stdin.isRaw, false);
  assert.equal(at.io.signal('SIGWINCH'), 0);
});

test('without a terminal Ctrl-C and a polite kill are signals for the job, which decides', async () => {
  await using at = await Attachment.open();
  const joined = at.join();
  assert.equal(at.io.signal('SIGINT'), 1);
  assert.equal(at.io.signal('SIGTERM'), 1);
  await at.heard(2);
  assert.deepEqual(at.frames, [
    { kind: 'signal', signal: 'SIGINT' },
    { kind: 'signal', signal: 'SIGTERM' },
  ]);
  assert.equal(at.io.stdin.isRaw, false);
  at.say({ kind: 'exit', code: 5 });
  assert.equal(await joined, 5);
  assert.equal(at.io.signal('SIGINT'), 0);
});

test('the third Ctrl-C is for the command itself: the job may heed none, or the connection be dead', async () => {
  await using at = await Attachment.open();
  const joined = at.join();
  at.io.signal('SIGINT');
  at.io.signal('SIGINT');
  await at.heard(2);
  at.io.signal('SIGINT');
  await assert.rejects(joined, (error) => hasCode(error, 'unavailable') && /flynn ps/.test(error.message));
  assert.equal(at.frames.length, 2);
});

test('an exit with a reason tells it', async () => {
  await using at = await Attachment.open();
  at.say({ kind: 'exit', code: 137, error: 'killed: out of memory' });
  assert.equal(await at.join(), 137);
  assert.equal(at.io.stderr.text, 'flynn: killed: out of memory\n');
});

test('an error of the other side is thrown as what it is', async () => {
  await using at = await Attachment.open();
  at.say({ kind: 'error', code: 'exhausted', message: 'no host has room' });
  await assert.rejects(at.join(), (error) => hasCode(error, 'exhausted') && error.message === 'no host has room');
});

const losses: [string, (job: Socket) => void][] = [
  ['ends', (job) => job.end()],
  ['breaks', (job) => job.resetAndDestroy()],
  ['ends within a frame', (job) => job.end(Buffer.from([1, 0, 0]))],
];
for (const [how, lose] of losses) {
  test(`a connection that ${how} before the job is an error, and the terminal is as before`, async () => {
    await using at = await Attachment.open();
    const joined = at.join({ isTerminal: true });
    await at.heard(1);
    lose(at.job);
    await assert.rejects(
      joined,
      (error) => hasCode(error, 'unavailable') && /ended before the job did[^]*flynn ps/.test(error.message),
    );
    assert.equal(at.io.stdin.isRaw, false);
  });
}

test('an input that breaks is the end of the input, not of the command', async () => {
  await using at = await Attachment.open();
  const joined = at.join();
  at.io.stdin.destroy(new Error('EIO'));
  await at.heard(1);
  assert.deepEqual(at.frames, [{ kind: 'stdin-end' }]);
  at.say({ kind: 'exit', code: 3 });
  assert.equal(await joined, 3);
});
