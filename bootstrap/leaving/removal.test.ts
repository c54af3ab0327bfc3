import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode, messageOf } from '@flynn/kit/errors';
import { engineThat } from '../machine/engine-fixture.ts';
import { removeContainers, removeImages, removeNetworks, removeVolumes } from './removal.ts';

const limits = () => ({ signal: AbortSignal.timeout(60_000) });

test('what the engine refuses for a moment is removed all the same, and what depends on it as well', async () => {
  const left = { containers: ['c1', 'c2'], volumes: ['v1'], networks: ['n1'] };
  let refusals = 3;
  await using engine = await engineThat((request) => {
    const [, kind = '', id = ''] = /^DELETE \/(\w+)\/(\w+)$/.exec(request) ?? [];
    if (kind === 'containers' || kind === 'volumes' || kind === 'networks') {
      // Somebody else removes it just now, or what uses it is not quite gone.
      if ((refusals -= 1) >= 0) return { status: kind === 'networks' ? 403 : 409, body: { message: 'in use' } };
      left[kind] = left[kind].filter((one) => one !== id);
      refusals = 1;
      return { status: 204 };
    }
    if (request === 'GET /containers/json') return { status: 200, body: left.containers.map((Id) => ({ Id })) };
    if (request === 'GET /networks') return { status: 200, body: left.networks.map((Id) => ({ Id })) };
    const Volumes = left.volumes.length === 0 ? null : left.volumes.map((Name) => ({ Name }));
    return { status: 200, body: { Volumes } };
  });
  // Listed by two labels, each is removed twice over here; it counts as it was listed.
  assert.ok((await removeContainers(engine.docker, 'test', limits())) >= 2);
  assert.equal(await removeVolumes(engine.docker, 'test', limits()), 1);
  assert.equal(await removeNetworks(engine.docker, 'test', limits()), 1);
  assert.deepEqual(left, { containers: [], volumes: [], networks: [] });
});

test('what the engine keeps is told at the end, with its reason', async () => {
  const end = new AbortController();
  let refusals = 0;
  await using engine = await engineThat((request) => {
    if (request.startsWith('GET')) return { status: 200, body: { Volumes: [{ Name: 'v1' }] } };
    // The first refusal is known by the time of the second.
    if ((refusals += 1) === 2) end.abort();
    return { status: 409, body: { message: 'volume is in use - [c9]' } };
  });
  await assert.rejects(
    removeVolumes(engine.docker, 'test', { signal: end.signal }),
    (error) => hasCode(error, 'conflict') && /keeps volumes.*in use - \[c9\]/.test(error.message),
  );
});

/** Of twenty containers; each request is answered by the kind of thing it is about, unless it is one of these. */
async function hanging(kinds: readonly ('removal' | 'networks')[], onRequest: (request: string) => void) {
  return engineThat((request) => {
    onRequest(request);
    if (request.startsWith('DELETE')) return kinds.includes('removal') ? 'never' : { status: 204 };
    if (request === 'GET /networks') return kinds.includes('networks') ? 'never' : { status: 200, body: [] };
    return { status: 200, body: Array.from({ length: 20 }, (_, at) => ({ Id: `c${at}` })) };
  });
}

test('containers go a few at a time; of an engine that hangs over them it is said that it is to be restarted', async () => {
  const end = new AbortController();
  const asked: string[] = [];
  await using engine = await hanging(['removal', 'networks'], (request) => {
    asked.push(request);
    if (request === 'GET /networks') end.abort();
  });
  const patience = { quietMs: 20, answerMs: 0 };
  await assert.rejects(
    removeContainers(engine.docker, 'test', { signal: end.signal, patience }),
    (error) => hasCode(error, 'unavailable') && /engine hangs.*systemctl restart docker.*23\.0/.test(error.message),
  );
  assert.equal(asked.filter((request) => request.startsWith('DELETE')).length, 4);
});

test('one that takes its time, and answers what needs its locks, is not told as one that hangs', async () => {
  const end = new AbortController();
  let answered = 0;
  await using engine = await hanging(['removal'], (request) => {
    if (request === 'GET /networks' && (answered += 1) === 3) end.abort();
  });
  const patience = { quietMs: 20, answerMs: 60_000 };
  await assert.rejects(
    removeContainers(engine.docker, 'test', { signal: end.signal, patience }),
    (error) => !/hangs/.test(messageOf(error)),
  );
});

test('images go with all their names, children before parents; those that others use stay and are named', async () => {
  const images = new Map([
    ['flynn/base:1', 'flynn/node:1'],
    ['flynn/used:1', 'a container of others'],
    ['flynn/node:1', ''],
  ]);
  await using engine = await engineThat((request) => {
    if (request.startsWith('GET')) {
      return { status: 200, body: [...images.keys()].map((tag) => ({ Id: `sha256:${tag}`, RepoTags: [tag] })) };
    }
    const tag = decodeURIComponent(request.replace('DELETE /images/', ''));
    const user = images.get(tag) ?? '';
    if (user !== '' && (images.has(user) || user.includes(' '))) return { status: 409, body: { message: 'in use' } };
    images.delete(tag);
    return { status: 200, body: [] };
  });
  const own = await removeImages(engine.docker, 'test', { ...limits(), keepOwn: true });
  assert.deepEqual(own, { count: 2, kept: ['flynn/used:1'] });
});
