import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newId } from '@flynn/kit/ids';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { openTestStore } from '@flynn/store/testing';
import type { Store } from '@flynn/store/store';
import { z } from 'zod';
import { BoundReferences, selects, toOwner, toReferring, toSelecting } from './mappers.ts';
import { keysOf, runReconciler } from './reconciler.ts';
import type { Source } from './reconciler.ts';
import { ResourceService } from './service.ts';
import { defineType } from './type.ts';

const log = silentLogger();
const nothing = { version: 1, status: z.object({}), initialStatus: () => ({}) };
/** A door leads to a room; the plan of a room is computed from the doors that lead to it. */
const roomType = defineType({ ...nothing, name: 'room', spec: z.object({}) });
const doorType = defineType({ ...nothing, name: 'door', spec: z.object({ to: z.string() }) });
const lightType = defineType({
  ...nothing,
  name: 'light',
  spec: z.object({ rooms: z.record(z.string(), z.string()) }),
});

function serviceOn(store: Store): ResourceService {
  return new ResourceService({ store, now: Date.now, newId, log });
}

/** What a source tells, in order. */
function toldBy(source: Source): string[] {
  const told: string[] = [];
  source.subscribe((id) => told.push(id));
  return told;
}

test('a change of what is owned concerns its owner, of that type alone', async () => {
  await using store = openTestStore();
  const service = serviceOn(store);
  await using doors = await service.mirror(doorType);
  const told = toldBy(keysOf(doors, toOwner('room')));
  await service.create(roomType, { id: 'hall', spec: {} });
  await service.create(lightType, { id: 'lamp', spec: { rooms: {} } });
  await service.create(doorType, { spec: { to: 'x' }, owner: { type: 'room', id: 'hall' } });
  await service.create(doorType, { spec: { to: 'x' }, owner: { type: 'light', id: 'lamp' } });
  const { revision } = await service.create(doorType, { spec: { to: 'x' } });
  await doors.reached(revision);
  assert.deepEqual(told, ['hall']);
});

test('a change concerns exactly those that refer to what changed', async () => {
  await using store = openTestStore();
  const service = serviceOn(store);
  await using doors = await service.mirror(doorType);
  await using rooms = await service.mirror(roomType);
  for (const [id, to] of [
    ['front', 'hall'],
    ['back', 'hall'],
    ['trap', 'cellar'],
  ] as const) {
    const { revision } = await service.create(doorType, { id, spec: { to } });
    await doors.reached(revision);
  }
  const told = toldBy(
    keysOf(
      rooms,
      toReferring(doors, ({ spec }) => [spec.to]),
    ),
  );
  await service.create(roomType, { id: 'attic', spec: {} });
  const { revision } = await service.create(roomType, { id: 'hall', spec: {} });
  await rooms.reached(revision);
  assert.deepEqual(told.sort(), ['back', 'front']);
});

test('a change concerns those that select it, before or after', async () => {
  await using store = openTestStore();
  const service = serviceOn(store);
  await using lights = await service.mirror(lightType);
  await using rooms = await service.mirror(roomType);
  await service.create(lightType, { id: 'red', spec: { rooms: { floor: '1' } } });
  const last = await service.create(lightType, { id: 'blue', spec: { rooms: { floor: '2', side: 'north' } } });
  await lights.reached(last.revision);
  const room = await service.create(roomType, { id: 'hall', spec: {}, labels: { floor: '1', side: 'north' } });
  await rooms.reached(room.revision);
  const told = toldBy(
    keysOf(
      rooms,
      toSelecting(lights, ({ spec }) => spec.rooms),
    ),
  );
  const moved = await service.change(roomType, 'hall', () => ({ labels: { floor: '2', side: 'north' } }));
  await rooms.reached(moved.revision);
  assert.deepEqual(told.sort(), ['blue', 'red']);
  assert.equal(selects({}, { a: '1' }), true);
  assert.equal(selects({ a: '1', b: '2' }, { a: '1' }), false);
});

test('a room is put right when the door that led to it leads elsewhere, and when it goes', async () => {
  await using store = openTestStore();
  const service = serviceOn(store);
  const bound = new BoundReferences();
  const plans = new Map<string, string[]>();
  await service.create(roomType, { id: 'hall', spec: {} });
  await service.create(roomType, { id: 'attic', spec: {} });
  await service.create(doorType, { id: 'front', spec: { to: 'hall' } });
  await using doors = await service.mirror(doorType);
  await using rooms = await service.mirror(roomType);
  const stop = new AbortController();
  const doorsTo = (room: string) =>
    [...doors.snapshot.entries].flatMap(([id, { value }]) => (value.spec.to === room ? [id] : []));
  const running = runReconciler({
    name: 'plans',
    // Only the state a door has now is looked at, as a watch without the old one would.
    sources: [
      keysOf(rooms),
      keysOf(doors, (_, key) => [...bound.boundTo(key), doors.snapshot.entries.get(key)?.value.spec.to ?? '']),
    ],
    log,
    signal: stop.signal,
    async reconcile(room) {
      const from = doorsTo(room);
      bound.bind(room, from);
      plans.set(room, from);
    },
  });
  const planned = (room: string, expected: string[]) =>
    waitFor(() => JSON.stringify(plans.get(room)) === JSON.stringify(expected), {
      what: `the plan of ${room}`,
      deadlineMs: 60_000,
      intervalMs: 5,
    });
  await planned('hall', ['front']);
  await service.update(doorType, 'front', () => ({ to: 'attic' }));
  await planned('hall', []);
  await planned('attic', ['front']);
  await service.delete(doorType, 'front');
  await planned('attic', []);
  assert.deepEqual(bound.boundTo('front'), []);
  stop.abort();
  await running;
});
