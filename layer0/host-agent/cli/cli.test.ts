import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { hostSettingsSchema } from '@flynn/scheduler/cell';
import { createMemoryStore } from '@flynn/store/memory';
import { cellKeys } from '@flynn/scheduler/cell';
import { redact } from './debug.ts';
import { addEtcdCommands } from './etcd.ts';
import { formatBytes, formatTable } from './format.ts';
import { addHostCommands, hostNews, parseTags } from './hosts.ts';
import { closedFor, engineCondition, leaseCondition } from '../hosts/record.ts';
import { parseEnvironment } from './installation.ts';
import { jobNote, matchJob, withoutEnvironment } from './jobs.ts';
import { changeSettings, listHosts, settingsAfter } from '../hosts/settings.ts';
import { Command } from 'commander';
import { HttpClient } from '@flynn/kit/http-client';
import { handle, startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { routes } from '../api.ts';
import type { CliContext } from './context.ts';
import { metricsText } from '@flynn/kit/metrics';

describe('flynn-host', () => {
  it('takes the beginning of a job id, with or without the host, if it means one job', () => {
    const ids = ['h1-abc1', 'h1-abd2', 'h1-xyz'];
    assert.equal(matchJob(ids, 'h1-abc1'), 'h1-abc1');
    assert.equal(matchJob(ids, 'xy'), 'h1-xyz');
    assert.equal(matchJob(ids, 'h1-abd'), 'h1-abd2');
    assert.throws(() => matchJob(ids, 'ab'), /could be h1-abc1, h1-abd2/);
    assert.throws(() => matchJob(ids, 'q'), /no job "q"/);
  });

  it('tells when a job that ended is started again', () => {
    const job = { isFinal: false, error: 'ended with exit code 1' };
    assert.equal(jobNote({ ...job, nextStartAt: 32_000 }, 500), 'ended with exit code 1; starts again in 32 s');
    assert.equal(jobNote({ ...job, nextStartAt: 500 }, 500), job.error);
    assert.equal(jobNote({ isFinal: false, nextStartAt: 1_500 }, 500), 'starts again in 1 s');
    assert.equal(jobNote({ ...job, isFinal: true, nextStartAt: 32_000 }, 500), job.error);
    assert.equal(jobNote({ isFinal: false, lastError: 'x' }, 500), 'before: x');
  });

  it('shows no secret', () => {
    const text = 'FLYNN_KEY=abcdef123 x "apiToken": "s3cretvalue" http://user:pass@h/ flynn plainly-known end';
    const shown = redact(text, ['plainly-known']);
    for (const secret of ['abcdef123', 's3cretvalue', 'pass@', 'plainly-known'])
      assert.ok(!shown.includes(secret), secret);
    assert.match(shown, /^FLYNN_KEY=\(redacted\) x .* end$/);
    assert.deepEqual(withoutEnvironment({ a: [{ env: { X: '1' }, b: 2 }] }), { a: [{ b: 2 }] });
  });

  it('reads the settings of the agent, and tags', () => {
    assert.deepEqual(parseEnvironment('# c\nFLYNN_KEY=a=b\n\nX=1\n'), { FLYNN_KEY: 'a=b', X: '1' });
    assert.deepEqual(parseTags(['zone=a', 'old=']), { zone: 'a', old: null });
    assert.throws(() => parseTags(['zone']), /NAME=VALUE/);
  });

  it('erases nothing of etcd before it is told that it may', async (t) => {
    t.after(() => (process.exitCode = 0));
    for (const command of ['replace', 'recover']) {
      const printed: string[] = [];
      const program = new Command();
      const installation = () => Promise.reject(new Error('it was looked at'));
      addEtcdCommands({ program, installation, print: (text) => printed.push(text) });
      await program.parseAsync(['etcd', command], { from: 'user' });
      assert.match(printed.join(''), new RegExp(`flynn-host etcd ${command} --yes`));
      assert.equal(process.exitCode, 2);
      await assert.rejects(program.parseAsync(['etcd', command, '--yes'], { from: 'user' }), /it was looked at/);
    }
  });

  it('writes columns that awk takes apart, empty cells included', () => {
    const table = formatTable([
      ['ID', 'ERROR', 'APP'],
      ['a', undefined, 'two words\nmore'],
    ]);
    assert.equal(table, 'ID  ERROR  APP\na   -      two words more\n');
    assert.deepEqual([0, 1023, 1536, 20 * 2 ** 30].map(formatBytes), ['0B', '1023B', '1.5K', '20G']);
  });
});

describe('what operators want of a host', () => {
  const before = hostSettingsSchema.parse({ cordoned: true, tags: { zone: 'a', disk: 'ssd' } });

  it('changes only what was named', () => {
    assert.deepEqual(settingsAfter(before, { tags: { zone: null, rack: '7' } }, 0), {
      cordoned: true,
      tags: { disk: 'ssd', rack: '7' },
    });
    const draining = settingsAfter(before, { drain: { deadlineMs: 1_000 } }, 5_000);
    assert.deepEqual(draining.drain, { startedAt: 5_000, deadlineAt: 6_000, maxParallel: 1, leavesCordon: true });
    assert.deepEqual(settingsAfter(draining, { drain: {} }, 9_000), draining);
    assert.deepEqual(settingsAfter(draining, { drain: null }, 9_000), before);
    assert.deepEqual(settingsAfter(draining, { cordoned: false }, 9_000), { cordoned: false, tags: before.tags });
  });

  it('is told by the command that asked for it, with the way back', async () => {
    const record = {
      id: 'h1',
      address: '10.0.0.1',
      apiPort: 1,
      capacity: { memoryBytes: 1, cpuMillis: 1 },
      attributes: {},
      cordoned: false,
      startedAt: 1,
    };
    const told: string[] = [];
    let settings = hostSettingsSchema.parse({});
    const status = {
      host: record,
      version: '1',
      engine: { isConnected: true, version: '1' },
      store: { isReachable: true },
      lease: { isAlone: true, fencedJobs: 0 },
      jobs: {},
      conditions: [],
    };
    await using server = await startServer({
      name: 'agent',
      handlers: [
        handle(routes.status, async () => status),
        handle(routes.hosts, async () => [{ id: 'h1', record, settings }]),
        handle(routes.changeSettings, async ({ body }) => (settings = settingsAfter(settings, body, 0))),
      ],
      host: '127.0.0.1',
      port: 0,
      log: silentLogger(),
    });
    await using client = new HttpClient({ baseUrl: server.url, name: 'the agent' });
    const program = new Command();
    const withAgent: CliContext['withAgent'] = (run) => run(client);
    const installation = () => Promise.reject(new Error('it was looked at'));
    addHostCommands({ program, withAgent, installation, print: (text) => told.push(text) });
    const asked = ['cordon', 'drain --deadline 10 --max-parallel 3', 'drain', 'undrain', 'uncordon h1'];
    for (const line of asked) await program.parseAsync(line.split(' '), { from: 'user' });
    const draining =
      'h1 is draining: its jobs move elsewhere, 3 of a workload at a time, and what is left at 1970-01-01T00:10:00.000Z is stopped; "flynn-host undrain h1" calls it off\n';
    const cordoned =
      'h1 is cordoned: it takes no more jobs, and those it has run on; "flynn-host uncordon h1" opens it again\n';
    assert.deepEqual(told, [cordoned, draining, draining, cordoned, 'h1 takes jobs\n']);
    assert.match(hostNews({ id: 'h1', record: { ...record, cordoned: true }, settings }), /a disk of it is full/);
    const unleased = closedFor(record, { [leaseCondition]: 'none' });
    assert.match(hostNews({ id: 'h1', record: unleased, settings }), /the cluster has no lease for it/);
    const hung = closedFor(record, { [engineCondition]: 'hangs' });
    assert.match(hostNews({ id: 'h1', record: hung, settings }), /its container engine hangs/);
    assert.match(hostNews({ id: 'h1', settings }), /^h1 is away/);
  });

  it('is kept for hosts that are away, and not for hosts that never were', async () => {
    const store = createMemoryStore();
    const { signal } = new AbortController();
    const change = (id: string) => changeSettings(store, id, { cordoned: true }, { signal, now: 0 });
    await assert.rejects(change('h9'), /there is no host h9/);
    const record = {
      id: 'h1',
      address: '10.0.0.1',
      apiPort: 1,
      capacity: { memoryBytes: 1, cpuMillis: 1 },
      startedAt: 1,
    };
    await store.transact({ then: [{ put: cellKeys.host('h1'), value: JSON.stringify(record) }] });
    await change('h1');
    await store.transact({ then: [{ delete: cellKeys.host('h1') }] });
    const [host] = await listHosts(store, { signal });
    assert.equal(host?.record, undefined);
    assert.equal(host?.settings.cordoned, true);
    // One that only left what it said of its jobs has not vanished either.
    await store.transact({ then: [{ put: cellKeys.jobStatus('h2', 'h2-a'), value: '{}' }] });
    assert.deepEqual(
      (await listHosts(store, { signal })).map(({ id }) => id),
      ['h1', 'h2'],
    );
    await store.close();
  });
});

it('figures are written as Prometheus reads them', () => {
  const text = metricsText([
    { name: 'a_total', help: 'A.', type: 'counter', samples: [{ value: 3 }, { labels: { job: 'x"y' }, value: 1 }] },
    { name: 'b', help: 'B.', type: 'gauge', samples: [] },
  ]);
  assert.equal(text, '# HELP a_total A.\n# TYPE a_total counter\na_total 3\na_total{job="x\\"y"} 1\n');
});
