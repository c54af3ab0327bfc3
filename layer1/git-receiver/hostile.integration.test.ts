/** Noise where SSH is expected, and where git is, of people who may push. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { closed } from '@flynn/kit/testing-sockets';
import { remoteHead, setUp } from './testing.ts';

/** The same bytes at every run. */
function noise(seed: string, length: number): Buffer {
  const blocks = Array.from({ length: Math.ceil(length / 32) }, (_, block) =>
    createHash('sha256').update(`${seed} ${block}`).digest(),
  );
  return Buffer.concat(blocks).subarray(0, length);
}

const packet = (text: string): string => `${(text.length + 4).toString(16).padStart(4, '0')}${text}`;
const [zero, one] = ['0'.repeat(40), '1'.repeat(40)];

/** What git would not send. */
const talk: [string, Buffer][] = [
  ...Array.from({ length: 8 }, (_, index): [string, Buffer] => [
    `noise ${index}`,
    noise(`git ${index}`, 50 * 4 ** index),
  ]),
  ['nothing', Buffer.alloc(0)],
  ['a length of nothing', Buffer.from('0001')],
  ['a length that never comes', Buffer.from('fff0')],
  ['a length that is none', Buffer.from('zzzz')],
  ['a ref out of its folder', Buffer.from(`${packet(`${zero} ${one} ../../x\0report-status`)}0000`)],
  ['a ref with a line in it', Buffer.from(`${packet(`${zero} ${one} refs/heads/main\nx\0report-status`)}0000`)],
  ['a commit that does not come', Buffer.from(`${packet(`${zero} ${one} refs/heads/main\0report-status`)}0000`)],
  [
    'a pack that is noise',
    Buffer.concat([
      Buffer.from(`${packet(`${zero} ${one} refs/heads/main\0report-status`)}0000PACK\0\0\0\x02\0\0\0\x01`),
      noise('pack', 4_096),
    ]),
  ],
  [
    'a pack of more objects than there could be',
    Buffer.from(
      `${packet(`${zero} ${one} refs/heads/main\0report-status`)}0000PACK\0\0\0\x02\xff\xff\xff\xff`,
      'latin1',
    ),
  ],
];

test(
  'noise instead of SSH, or of git, ends with an error, builds nothing, and the next push works',
  { timeout: 300_000 },
  async (t) => {
    const world = await setUp(t);
    const head = await world.commit({ Procfile: 'web: run' });
    for (let index = 0; index < 12; index += 1) {
      const socket = connect(world.receiver.port, '127.0.0.1');
      // It is closed on us, while we still send.
      const isClosed = closed(socket);
      const start = index % 2 === 0 ? '' : 'SSH-2.0-noise\r\n';
      socket.end(Buffer.concat([Buffer.from(start), noise(`ssh ${index}`, 20 * 3 ** index)]));
      socket.resume();
      await isClosed;
    }
    for (const service of ['git-receive-pack', 'git-upload-pack']) {
      for (const [name, bytes] of talk) {
        const args = [...world.sshArgs('known'), 'git@127.0.0.1', `${service} '/app.git'`];
        const client = spawn('ssh', args, { stdio: ['pipe', 'ignore', 'ignore'] });
        client.stdin.on('error', () => {
          // The receiver has heard enough.
        });
        client.stdin.end(bytes);
        const [code] = (await once(client, 'exit', { signal: AbortSignal.timeout(60_000) })) as [number | null];
        assert.notEqual(code, null, `${service}: ${name} did not end by itself`);
        if (name.startsWith('noise')) assert.notEqual(code, 0, `${service}: ${name}`);
        assert.equal(world.pushes.length, 0, `${service}: ${name}`);
      }
    }
    assert.equal(await remoteHead(world), '');
    // It would wait for what had not ended.
    const pushed = await world.git(['push', world.remote(), 'main']);
    assert.equal(pushed.code, 0, pushed.output);
    assert.equal(await remoteHead(world), head);
  },
);
