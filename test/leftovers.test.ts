import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineOfRun } from './leftovers.ts';

/** An engine of these containers and networks, which does what it is asked for by their labels. */
function pretendedEngine(objects: Map<string, { kind: 'container' | 'network'; label: string; network?: string }>) {
  const asked: string[] = [];
  const docker = (args: readonly string[]): string => {
    const filters = args.filter((arg) => arg.startsWith('--filter=')).map((arg) => arg.slice('--filter='.length));
    const isIt = (id: string) => {
      const one = objects.get(id);
      return filters.every((filter) => {
        if (filter.startsWith('network=')) return one?.network === filter.slice('network='.length);
        return filter === `label=${one?.label}`;
      });
    };
    const all = (kind: string) => [...objects].filter(([id, one]) => one.kind === kind && isIt(id)).map(([id]) => id);
    const [verb = '', more = ''] = args;
    if (verb === 'ps') return all('container').join('\n');
    if (verb === 'network' && more === 'ls') return all('network').join('\n');
    asked.push(args.join(' '));
    for (const id of args) objects.delete(id);
    return '';
  };
  return { docker, asked };
}

test('a run that is ended takes its own containers and networks away, with what is on these, and nobody else’s', () => {
  const objects = new Map([
    ['own', { kind: 'container' as const, label: 'flynn.test=run-1' }],
    ['net', { kind: 'network' as const, label: 'flynn.test=run-1' }],
    ['job', { kind: 'container' as const, label: 'flynn.cluster=x', network: 'net' }],
    ['other', { kind: 'container' as const, label: 'flynn.test=run-2' }],
    ['other-net', { kind: 'network' as const, label: 'flynn.test=run-2' }],
    ['alone', { kind: 'container' as const, label: 'flynn.test=1' }],
  ]);
  const { docker, asked } = pretendedEngine(objects);
  const engine = new EngineOfRun('run-1', docker);
  engine.remove();
  assert.deepEqual([...objects.keys()], ['other', 'other-net', 'alone']);
  assert.equal(asked.length, 2, 'in as few calls as there are kinds');
  engine.remove();
  assert.equal(asked.length, 2, 'where nothing is left nothing is asked for');
});

test('what somebody else is removing at that moment is looked at again', () => {
  const objects = new Map([
    ['own', { kind: 'container' as const, label: 'flynn.test=run-1' }],
    ['net', { kind: 'network' as const, label: 'flynn.test=run-1' }],
  ]);
  const { docker } = pretendedEngine(objects);
  const engine = new EngineOfRun('run-1', (args) => {
    if (args[0] !== 'rm' || !objects.delete('own')) return docker(args);
    throw new Error('removal of container own is already in progress');
  });
  assert.equal(engine.remove(), undefined);
  assert.equal(objects.size, 0);
});

test('an engine that does not answer is given up, and holds the end of the run for no longer', () => {
  let calls = 0;
  const engine = new EngineOfRun('run-1', () => {
    calls += 1;
    throw new Error('spawnSync docker ETIMEDOUT');
  });
  assert.match(engine.remove() ?? '', /ETIMEDOUT.*label=flynn\.test=run-1/);
  assert.equal(calls, 2);
});
