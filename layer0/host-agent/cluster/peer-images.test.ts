import assert from 'node:assert/strict';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { handle, startServer } from '@flynn/kit/http-server';
import { createLogger, silentLogger } from '@flynn/kit/log';
import type { AgentPlace } from '../agent-client.ts';
import { routes } from '../api.ts';
import { fetchFromPeers } from './peer-images.ts';

const key = 'cluster-key';

async function startPeer(id: string, archive: () => Readable) {
  const handlers = [handle(routes.image, async () => ({ body: archive(), headers: {} }))];
  const server = await startServer({ name: id, host: '127.0.0.1', port: 0, key, handlers, log: silentLogger() });
  const place: AgentPlace = { id, address: '127.0.0.1', apiPort: server.port };
  return { place, close: () => server.close() };
}

test('images come from the next host when one cannot give them, and who reads the log hears why', async (t) => {
  const whole = await startPeer('h1', () => Readable.from(['an archive']));
  const gone = await startPeer('h2', () => Readable.from([]));
  const without = await startPeer('h3', () => {
    throw new FlynnError('not_found', 'no such image');
  });
  await gone.close();
  t.after(() => Promise.all([whole.close(), without.close()]));
  const said = new PassThrough();
  const fetchImages = (peers: AgentPlace[]) =>
    fetchFromPeers({ peers: () => peers, access: { key }, log: createLogger('test', { destination: said }) });
  const got: string[] = [];
  for await (const archive of fetchImages([gone.place, without.place, whole.place])(['flynn/x'], {})) {
    got.push(await text(archive));
  }
  assert.deepEqual(got, ['an archive']);
  for await (const _ of fetchImages([gone.place])(['flynn/x'], {})) assert.fail('it is gone');
  said.end();
  const lines = (await text(said))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const warnings = lines.filter(({ level }) => level === 'warn').map(({ msg }) => String(msg));
  assert.ok(warnings.length >= 1, 'of the one that is gone, whoever was asked first');
  for (const warning of warnings) assert.match(warning, /could not have flynn\/x from h2: .*; another is asked/);
});

test('a host that dies within a transfer is given up after a silence, and the next one is asked', async (t) => {
  const silent = await startPeer('h1', () => {
    const archive = new PassThrough();
    archive.write('the beginning of');
    return archive;
  });
  t.after(() => silent.close());
  const said = new PassThrough();
  const log = createLogger('test', { destination: said });
  const peers = [silent.place, { ...silent.place, id: 'h2' }];
  const fetchImages = fetchFromPeers({ peers: () => peers, access: { key }, silenceMs: 100, log });
  let transfers = 0;
  for await (const archive of fetchImages(['flynn/x'], {})) {
    transfers += 1;
    await assert.rejects(text(archive), { code: 'timeout' });
  }
  assert.equal(transfers, 2);
  said.end();
  assert.match(await text(said), /could not have all of flynn\/x: the transfer from h2 went silent/);
});
