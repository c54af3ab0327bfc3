import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { apps, jobs } from '../api.ts';
import { checkBuildPlace, placeOf } from './place.ts';
import type { Operation } from '../model.ts';
import { operations } from '../operations/api.ts';
import { cellKeys } from '@flynn/scheduler/cell';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';

const params = { app: 'shop' };

test('a place is what the app’s metadata says, without what says nothing', () => {
  assert.deepEqual(placeOf({ note: 'x', 'git.branch': 'main' }), {});
  assert.deepEqual(placeOf({ 'build.folder': './apps//web/', 'build.dockerfile': 'deploy/web.Dockerfile' }), {
    folder: 'apps/web',
    dockerfile: 'deploy/web.Dockerfile',
  });
  assert.deepEqual(placeOf({ 'build.folder': 'a folder/..x' }), { folder: 'a folder/..x' });
});

test('what is no path inside of the repository is refused when it is written, with what to write', () => {
  for (const [name, text, why] of [
    ['folder', '/apps/web', /begins with a slash: say it from the repository's top, as apps\/web/],
    ['folder', 'apps/../../x', /leads upwards/],
    ['folder', '..', /leads upwards/],
    ['folder', '.', /is the top itself: flynn build unset folder/],
    ['folder', '', /is the top itself/],
    ['folder', 'a\nb', /has a character/],
    ['folder', String.raw`apps\web`, /has a character/],
    ['folder', 'x'.repeat(1_001), /is longer than 1000/],
    ['dockerfile', '/Dockerfile', /begins with a slash: say it from the top of what is built/],
    ['dockerfile', 'deploy/', /is a folder: name the file, as deploy\/web\.Dockerfile/],
  ] as const) {
    const meta = { [`build.${name}`]: text };
    assert.throws(
      () => checkBuildPlace(meta),
      (error) => hasCode(error, 'invalid') && why.test(error.message),
      text,
    );
    // Of a version that did not know what it means: it stands in nobody's way, and nothing is built from it.
    checkBuildPlace(meta, meta);
    assert.throws(
      () => placeOf(meta),
      (error) => hasCode(error, 'invalid'),
    );
  }
});

async function startWorld(): Promise<TestController> {
  const world = await startTestController();
  await world.deployApp('slug-builder', { build: { command: ['build'] } }, { isSystem: true });
  await world.client.call(apps.create, { body: { name: 'shop' } });
  return world;
}

const setMeta = ({ client }: TestController, meta: Record<string, string>) =>
  client.call(apps.update, { params, body: { meta } });
const push = ({ client }: TestController, pushId: string, more: { folder?: string; dockerfile?: string } = {}) =>
  client.call(operations.push, {
    params,
    body: { pushId, sourceDigest: 'sha256:x', commit: 'c', branch: 'main', ...more },
  });
const build = (
  { client }: TestController,
  [operation]: Operation[],
  more: { kind: 'slug' | 'dockerfile'; dockerfile?: string },
) => client.call(jobs.build, { params, body: { operationId: operation?.id ?? '', sourceDigest: 'sha256:x', ...more } });

test('no app has a place that is none', async () => {
  await using world = await startWorld();
  const meta = { 'build.folder': '../other' };
  await assert.rejects(setMeta(world, meta), (error) => hasCode(error, 'invalid'));
  await assert.rejects(world.client.call(apps.create, { body: { name: 'other', meta } }), (error) =>
    hasCode(error, 'invalid'),
  );
});

test('a push of something else than the app is built from is refused, but for one that was taken before', async () => {
  await using world = await startWorld();
  const before = await push(world, 'before');
  await setMeta(world, { 'build.folder': 'apps/web/', 'build.dockerfile': 'web.Dockerfile' });
  const refused = (error: unknown) => hasCode(error, 'conflict') && /flynn build -a shop/.test(error.message);
  await assert.rejects(push(world, 'whole'), refused);
  await assert.rejects(push(world, 'other', { folder: 'apps/api', dockerfile: 'web.Dockerfile' }), refused);
  await assert.rejects(push(world, 'usual', { folder: 'apps/web' }), refused);
  const taken = await push(world, 'taken', { folder: 'apps/web', dockerfile: 'web.Dockerfile' });
  assert.deepEqual([taken[0]?.input.folder, taken[0]?.input.dockerfile], ['apps/web', 'web.Dockerfile']);
  assert.equal((await push(world, 'before'))[0]?.id, before[0]?.id);
});

test('a Dockerfile that the app names is built whatever the source looks like; what is from elsewhere by now is not', async () => {
  await using world = await startWorld();
  await setMeta(world, { 'build.dockerfile': 'web.Dockerfile' });
  const pushed = await push(world, 'p', { dockerfile: 'web.Dockerfile' });
  await setMeta(world, {});
  await assert.rejects(
    build(world, pushed, { kind: 'slug' }),
    (error) =>
      hasCode(error, 'invalid') &&
      /was set anew since.*push again; if it follows a repository: flynn source poll --again -a shop$/.test(
        error.message,
      ),
  );
  await setMeta(world, { 'build.dockerfile': 'web.Dockerfile' });
  const { workloadId } = await build(world, pushed, { kind: 'slug' });
  const { value } = (await world.store.get(cellKeys.workload(workloadId))) ?? {};
  assert.ok(value !== undefined);
  const version = (JSON.parse(value) as { version: string }).version;
  const template = await world.store.get(cellKeys.template(workloadId, version));
  assert.match(template?.value ?? '', /"FLYNN_BUILD_KIND":"dockerfile"/);
  assert.match(template?.value ?? '', /"FLYNN_BUILD_DOCKERFILE":"web\.Dockerfile"/);
});

test('a build is of the Dockerfile that its runner tells, or of none', async () => {
  await using world = await startWorld();
  await setMeta(world, { 'build.dockerfile': 'web.Dockerfile' });
  const pushed = await push(world, 'p', { dockerfile: 'web.Dockerfile' });
  await assert.rejects(
    build(world, pushed, { kind: 'dockerfile', dockerfile: 'other.Dockerfile' }),
    (error) => hasCode(error, 'invalid') && /builds web\.Dockerfile, not other\.Dockerfile/.test(error.message),
  );
  await build(world, pushed, { kind: 'dockerfile', dockerfile: 'web.Dockerfile' });
});

test('a build that runs is answered again as it is, whatever was set since', async () => {
  await using world = await startWorld();
  const pushed = await push(world, 'p');
  const { workloadId } = await build(world, pushed, { kind: 'slug' });
  await setMeta(world, { 'build.folder': 'apps/web' });
  assert.equal((await build(world, pushed, { kind: 'slug' })).workloadId, workloadId);
});
