/** Every kind, asked for what is somebody else's: one without a row in the fixture fails. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { generic } from './api.ts';
import { idOfMine, paramsOf, rows, startForeignWorld, victimOf } from './foreign-fixture.ts';
import type { ForeignWorld, Row } from './foreign-fixture.ts';
import type { Kind } from './kind.ts';

let place: ForeignWorld;
before(async () => {
  place = await startForeignWorld();
});
after(async () => {
  await place?.[Symbol.asyncDispose]();
});

async function outcomeOf<T>(work: Promise<T>): Promise<T | FlynnError> {
  return work.catch((error: unknown) => {
    if (error instanceof FlynnError) return error;
    throw error;
  });
}

test('each kind has a row, and each that is written is changed by an admin with what the row says', async () => {
  const kinds = place.world.deps.kinds.all();
  assert.deepEqual(Object.keys(rows).toSorted(), kinds.map(({ type }) => type.kind).toSorted());
  for (const { type, writes } of kinds) {
    const row = rows[type.kind];
    assert.equal(row?.spec !== undefined, writes !== 'none', type.kind);
    if (row?.spec === undefined) continue;
    const body = { name: row.name('victim'), labels: { hit: 'yes' }, spec: { ...row.spec('victim') } };
    const would = await place.world.client.call(generic.apply, {
      params: paramsOf(type.kind),
      body,
      query: { dryRun: true },
    });
    assert.equal(would.outcome, row.isFixed ? 'unchanged' : 'configured', `${type.kind}: the row says something else`);
  }
});

function namesIn(kind: Kind, row: Row, app: string): string[] {
  return [row.name(app), ...(kind.type.kind === 'Formation' ? [`${app}/v2`] : [])];
}

test('nothing that is somebody else’s is changed or made, by whatever a body says of which one is meant', async () => {
  const before = await place.foreign();
  for (const kind of place.world.deps.kinds.all()) {
    const row = rows[kind.type.kind];
    assert.ok(row !== undefined);
    const params = paramsOf(kind.type.kind);
    for (const [caller, client] of place.callers) {
      const app = victimOf(caller);
      const theirs = namesIn(kind, row, app);
      const names = [undefined, ...theirs, ...namesIn(kind, row, 'mine'), idOfMine(kind.type.kind), 'unknown'];
      for (const name of new Set(names)) {
        for (const owner of [undefined, 'app/mine', `app/${app}`]) {
          const spec = { ...row.spec?.(app) };
          const body = { ...(name && { name }), ...(owner && { owner }), labels: { hit: 'yes' }, spec };
          const said = `${caller}, ${kind.type.kind} ${JSON.stringify(body)}`;
          const asked = [outcomeOf(client.call(generic.apply, { params, body }))];
          if (name !== undefined && owner === undefined) {
            asked.push(outcomeOf(client.call(generic.patch, { params: { ...params, name }, body: { spec } })));
          }
          for (const one of asked) {
            const outcome = await one;
            if (outcome instanceof FlynnError)
              assert.ok(hasCode(outcome, 'denied', 'invalid', 'not_found', 'conflict'));
            else assert.ok(name === undefined || !theirs.includes(name), `${said} was let in`);
          }
        }
      }
    }
    assert.equal(await place.foreign(), before, `a ${kind.type.kind} that is somebody else's is another now`);
  }
});

test('nothing that is somebody else’s is deleted, and of what may not be seen nothing is told', async () => {
  const before = await place.foreign();
  for (const kind of place.world.deps.kinds.all()) {
    const row = rows[kind.type.kind];
    assert.ok(row !== undefined);
    const params = paramsOf(kind.type.kind);
    for (const [caller, client] of place.callers) {
      const app = victimOf(caller);
      const name = row.name(app);
      const said = `${caller}, ${kind.type.kind} ${name}`;
      assert.ok(
        (await outcomeOf(client.call(generic.remove, { params: { ...params, name } }))) instanceof FlynnError,
        said,
      );
      // Who has a role on the cluster, or one that looks at the app, sees it.
      if (caller === 'a developer of the cluster' || caller === 'a token that only looks') continue;
      const shown = await outcomeOf(client.call(generic.get, { params: { ...params, name } }));
      assert.ok(hasCode(shown, 'not_found'), said);
      const listed = await outcomeOf(client.call(generic.list, { params }));
      if (!Array.isArray(listed)) assert.ok(hasCode(listed, 'denied'), said);
      else assert.ok(!listed.some((one) => one.name === name || one.owner === `app/${app}`), said);
    }
    assert.equal(await place.foreign(), before, `a ${kind.type.kind} that is somebody else's went`);
  }
});

test('a name and what it is of are of one object, for whoever asks', async () => {
  const spec = { domain: 'www.victim.example.com', http: { canonicalHost: 'other.example.com' } };
  const name = 'www.mine.example.com/';
  const asked = place.world.client.call(generic.apply, { params: paramsOf('Route'), body: { name, spec } });
  await assert.rejects(
    asked,
    (error) => hasCode(error, 'invalid') && /name: this route is another/.test(error.message),
  );
  const body = { name: 'victim/v2', owner: 'app/mine', spec: { processes: { web: 1 } } };
  const formed = place.world.client.call(generic.apply, { params: paramsOf('Formation'), body });
  await assert.rejects(
    formed,
    (error) => hasCode(error, 'invalid') && /owner: it belongs to another/.test(error.message),
  );
});
