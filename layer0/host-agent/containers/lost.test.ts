import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AsyncQueue } from '@flynn/kit/queue';
import { listen, quick } from '../engine/door-fixture.ts';
import type { Engine, EngineEvent } from '../engine/engine.ts';
import { volumeName } from '../engine/labels.ts';
import { jobOf, openHost, scenario } from '../host-fixture.ts';

test('a job whose volume the engine has no more waits for it; with one it can do without it begins again, and says so', () =>
  scenario(async ({ engine, store }) => {
    const agent = await openHost({ engine, store });
    const volumes = [{ name: 'data', path: '/data' }];
    const job = jobOf('a', { volumes });
    const cache = jobOf('b', { volumes: [{ name: 'cache', path: '/data', isReplaceable: true }] });
    await agent.assign([job, cache]);
    for (const one of [job, cache]) await agent.reach(one, 'running', (s) => s.state === 'running');
    const loseContainers = async () => {
      for (const { id } of await engine.list()) await engine.remove(id);
    };
    await loseContainers();
    await agent.containers.refresh();
    for (const one of [job, cache]) {
      const kept = await agent.reach(one, 'running again', (s) => s.state === 'running' && s.restarts === 1);
      assert.doesNotMatch(kept.lastError ?? '', /volume/);
    }
    await loseContainers();
    for (const { name } of await engine.listVolumes()) await engine.removeVolume(name);
    await agent.containers.refresh();
    const empty = await agent.reach(cache, 'running once more', (s) => s.state === 'running' && s.restarts === 2);
    assert.match(empty.lastError ?? '', /has its volume cache no more: it began again with an empty one/);
    const held = await agent.reach(job, 'held', (s) => s.state === 'failed');
    assert.match(held.error ?? '', /has its volume data no more: where a disk .* scale the process to 0 and back/);
    assert.equal(held.isFinal, false);
    assert.equal((await engine.list()).length, 1);

    await engine.ensureVolume(volumeName('test', 'data'));
    await agent.reach(job, 'running with its data', (s) => s.state === 'running');
    await agent.stop();
  }));

test('a container removed behind its back is a crash, and nothing of its watch is left over', () =>
  scenario(async ({ engine, store }) => {
    const door = await listen();
    const service = jobOf('a', {
      ports: [{ port: door.port, protocol: 'tcp', service: { name: 'web', check: quick } }],
    });
    const single = jobOf('b', { restart: 'never' });
    // Nothing is heard of the end: the next list shows that it is gone.
    const deaf: Engine = {
      ...engine,
      events({ signal }) {
        const queue = new AsyncQueue<EngineEvent>();
        signal.addEventListener('abort', () => queue.end(), { once: true });
        return queue;
      },
    };
    const agent = await openHost({ engine: deaf, store });
    await agent.assign([service, single]);
    for (const job of [service, single]) await agent.reach(job, 'running', (s) => s.state === 'running');
    for (const container of await engine.list()) await engine.remove(container.id);
    await agent.containers.refresh();
    const lost = await agent.reach(single, 'over', (s) => s.isFinal);
    assert.equal(lost.state, 'crashed');
    assert.match(lost.error ?? '', /removed/);
    await agent.reach(service, 'running again', (s) => s.state === 'running' && s.restarts === 1);
    assert.deepEqual(agent.announcer.calls, ['register web', 'deregister web', 'register web']);
    assert.equal((await engine.list()).length, 1);
    await agent.stop();
    await door.close();
  }));
