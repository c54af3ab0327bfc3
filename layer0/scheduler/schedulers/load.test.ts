import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { hasCode } from '@flynn/kit/errors';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadSchedulers } from './load.ts';
import { ToyCell } from '../toy-cell.ts';
import { hostOf, workloadOf } from '../testing.ts';

describe('schedulers by configuration', () => {
  const example = fileURLToPath(new URL('../examples/cheapest-host-first.ts', import.meta.url));
  it('load the example, which fills the cheapest hosts first', async () => {
    const schedulers = await loadSchedulers([example]);
    const priced = (id: string, price: string) => hostOf(id, { attributes: { price } });
    const cell = new ToyCell().put(
      priced('h1', '30'),
      priced('h2', '10'),
      hostOf('h3'),
      workloadOf({ kind: 'cheapest', count: 22 }),
    );
    cell.run('web', 'workload', { schedulers });
    const counts = Map.groupBy(
      cell.jobsOf('web').toSorted((a, b) => a.hostId.localeCompare(b.hostId)),
      ({ hostId }) => hostId,
    );
    assert.deepEqual(
      [...counts].map(([hostId, jobs]) => [hostId, jobs.length]),
      [
        ['h1', 10],
        ['h2', 10],
        ['h3', 2],
      ],
    );
  });
  it('load the example, by which what was chosen of one price counts when the next one is looked at', async () => {
    const schedulers = await loadSchedulers([example]);
    const constraints = [{ attribute: 'zone', operator: 'distinct' as const }];
    const inZone = (id: string, zone: string, price: string) => hostOf(id, { attributes: { zone, price } });
    const cell = new ToyCell().put(
      inZone('h1', 'a', '10'),
      inZone('h2', 'a', '20'),
      inZone('h3', 'b', '30'),
      workloadOf({ kind: 'cheapest', count: 3, constraints }),
    );
    cell.run('web', 'workload', { schedulers });
    assert.deepEqual(cell.hostsOf('web'), ['h1', 'h3']);
  });
  it('say which kinds there are when nobody plans for one', () => {
    const cell = new ToyCell().put(workloadOf({ kind: 'cheapest' }));
    const end = cell.run('web').outcomes[0]?.end;
    assert.deepEqual(
      [end?.state, end?.reason],
      [
        'failed',
        'no scheduler plans for the kind "cheapest", there are: service, omni, ephemeral, gang; no host took it up',
      ],
    );
  });
  it('are refused, by their path, when they are not what they have to be', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'schedulers-'));
    try {
      const write = async (name: string, text: string) => {
        const path = join(folder, name);
        await writeFile(path, text);
        return path;
      };
      const table: [string[], RegExp][] = [
        [['relative.ts'], /relative\.ts has to be an absolute path/],
        [[join(folder, 'none.ts')], /could not load the scheduler .*none\.ts/],
        [[await write('throws.ts', 'throw new Error("oh no")')], /throws\.ts: oh no/],
        [
          [await write('empty.ts', 'export const kind = "x"')],
          /empty\.ts does not export what it has to.*expected a function/s,
        ],
        [
          [await write('kind.ts', 'export const kind = "A B"; export function schedule() {}')],
          /expected lower-case letters/,
        ],
        [
          [await write('own.ts', 'export const kind = "omni"; export function schedule() {}')],
          /"omni", which is a built-in scheduler's already/,
        ],
        [[example, example], /"cheapest", which is .*cheapest-host-first\.ts's already/],
      ];
      for (const [paths, message] of table) {
        await assert.rejects(
          loadSchedulers(paths),
          (error: Error) => hasCode(error, 'invalid') && message.test(error.message),
        );
      }
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
