/** The checks of one host: what each of them says of a host that is well, and of one that is not. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import type { JobStatus } from '@flynn/scheduler/cell';
import { label } from '../engine/labels.ts';
import { addressFindings, readAddress } from './address.ts';
import { agentFindings } from './agent-state.ts';
import { certificateFindings } from './certificates.ts';
import { diskFindings, readDisks } from './disks.ts';
import type { DiskRoom } from './disks.ts';
import { driftFindings } from './drift.ts';
import type { DriftFacts } from './drift.ts';
import type { Found } from './finding.ts';
import { kernelFindings, readKernelSettings } from './kernel.ts';
import { countInotify, limitFindings, parseKernelCounts, readKernelCounts } from './limits.ts';
import type { KernelCounts } from './limits.ts';

const brief = (findings: readonly Found[]) => findings.map(({ severity, what }) => `${severity}: ${what}`);
const minute = 60_000;

it('an agent that reaches everything has nothing to say; else each thing it misses is named', () => {
  const well = {
    isEngineConnected: true,
    storeError: undefined,
    isFenceOpen: true,
    hasLease: true,
    schedulerFault: undefined,
  };
  assert.deepEqual(agentFindings('host h1', well), []);
  const ill = {
    isEngineConnected: false,
    storeError: 'no leader',
    isFenceOpen: false,
    hasLease: false,
    schedulerFault: 'no such file',
  };
  const findings = agentFindings('host h1', ill);
  assert.deepEqual(
    findings.map(({ severity }) => severity),
    ['critical', 'critical', 'critical', 'critical', 'warning'],
  );
  assert.match(
    brief(findings).join('\n'),
    /engine does not answer[^]*etcd: no leader[^]*lease is lost[^]*no lease of its subnet[^]*no such file/,
  );
  const hung = { since: 60_000, version: '20.10.24+dfsg1' };
  const [known] = agentFindings('host h1', { ...well, engineHang: hung });
  assert.equal(known?.severity, 'critical');
  assert.equal(known?.since, '1970-01-01T00:01:00.000Z');
  assert.match(known?.what ?? '', /engine hangs/);
  assert.match(known?.remedy ?? '', /^systemctl restart docker.*live-restore.*before 23\.0.*this one is 20\.10\.24/);
  const [other] = agentFindings('host h1', { ...well, engineHang: { ...hung, version: '28.5.2' } });
  assert.doesNotMatch(other?.remedy ?? '', /23/);
  // One that does not answer at all is told as that.
  assert.doesNotMatch(brief(agentFindings('host h1', { ...ill, engineHang: hung })).join(), /hangs/);
  const waiting = agentFindings('host h1', { ...well, storeError: 'no leader', isWaiting: true });
  assert.deepEqual(brief(waiting), ['critical: it has waited for etcd since its agent was started: no leader']);
  assert.deepEqual(agentFindings('host h1', { ...well, isWaiting: true }), []);
  const rival = { address: '10.0.0.9', isTakenBack: false };
  const copy = agentFindings('host h1', { ...well, isFenceOpen: false, rival });
  assert.deepEqual(brief(copy), [
    "critical: another machine is this host too, at 10.0.0.9: one of them was made of a copy of the other's disk",
  ]);
  const [held] = agentFindings('host h1', { ...well, isWaiting: true, rival });
  assert.match(held?.why ?? '', /the agent here does nothing but wait/);
  const gone = { address: '10.0.0.9', isTakenBack: false, isGone: true as const };
  const [aside] = agentFindings('host h1', { ...well, isWaiting: true, rival: gone });
  assert.match(aside?.what ?? '', /^another machine was this host too, at 10\.0\.0\.9/);
  assert.match(aside?.remedy ?? '', /flynn-host bootstrap .* here, with FLYNN_ADDRESS=ADDRESS/);
  const [tried] = agentFindings('host h1', { ...well, rival: { ...rival, isTakenBack: true } });
  assert.match(tried?.what ?? '', /^another machine announced itself as this host, at 10\.0\.0\.9/);
});

it('an address that the machine has no more is told, with those it has instead', async () => {
  const facts = { address: '192.0.2.7', isOwn: false, others: ['192.0.2.9', '198.51.100.4'] };
  const [found] = addressFindings('host h1', facts);
  assert.match(found?.what ?? '', /^192\.0\.2\.7, .* is not an address of this machine: it has 192\.0\.2\.9, 198\./);
  assert.match(found?.remedy ?? '', /FLYNN_ADDRESS=192\.0\.2\.9 flynn-host bootstrap/);
  assert.deepEqual(addressFindings('host h1', { ...facts, isOwn: true }), []);
  assert.equal((await readAddress('127.0.0.1', 'flynn0', undefined)).isOwn, true);
  const elsewhere = await readAddress('203.0.113.9', 'flynn0', undefined);
  assert.equal(elsewhere.isOwn, false);
  // That of a host behind NAT comes with its bridge.
  assert.equal((await readAddress('203.0.113.9', 'flynn0', 'home')).isOwn, true);
  assert.ok(!elsewhere.others.includes('127.0.0.1'));
});

describe('disks', () => {
  const room: DiskRoom = {
    holds: 'its data',
    path: '/data',
    totalBytes: 100e9,
    freeBytes: 40e9,
    usedPercent: 60,
    usedInodesPercent: 10,
    isReadOnly: false,
  };

  it('fill up by bytes or by inodes, or are not writable', () => {
    const of = (change: Partial<DiskRoom>) => brief(diskFindings('host h1', [{ ...room, ...change }]));
    assert.deepEqual(of({}), []);
    assert.deepEqual(of({ usedPercent: 84.9 }), []);
    assert.deepEqual(of({ usedPercent: 85, freeBytes: 15e9 }), [
      'warning: the disk of its data (/data) is 85 % full: 15.0 GB left',
    ]);
    assert.deepEqual(of({ usedPercent: 97, freeBytes: 3e8 }), [
      'critical: the disk of its data (/data) is 97 % full: 300 MB left',
    ]);
    assert.deepEqual(of({ usedInodesPercent: 96 }), [
      'critical: the disk of its data (/data) has used 96 % of its inodes',
    ]);
    assert.deepEqual(of({ usedInodesPercent: undefined }), []);
    assert.match(of({ isReadOnly: true }).join(''), /^critical: .* read-only$/);
  });

  it('are read once each, whatever is on them; what is not there is left out', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'flynn-disks-'));
    const disks = await readDisks([
      { holds: 'one', path: folder },
      { holds: 'two', path: folder },
      { holds: 'three', path: join(folder, 'nothing') },
    ]);
    await rm(folder, { recursive: true });
    assert.equal(disks.length, 1);
    const [disk] = disks;
    assert.equal(disk?.holds, 'one, two');
    assert.ok(disk.totalBytes > 0 && disk.usedPercent >= 0 && disk.usedPercent <= 100 && !disk.isReadOnly);
  });
});

describe('limits of the kernel', () => {
  const counts: KernelCounts = {
    files: { used: 1_000, limit: 100_000 },
    connections: { used: 10, limit: 1_000 },
    inotifyInstances: { used: 20, limit: 128 },
    threads: { used: 300, limit: 30_000 },
    memory: { totalBytes: 100, availableBytes: 50, stalledPercent: 0 },
  };

  it('are named before they are reached, with the setting that moves them', () => {
    const of = (change: Partial<KernelCounts>) => limitFindings('host h1', { ...counts, ...change });
    assert.deepEqual(of({}), []);
    assert.deepEqual(of({ connections: undefined }), []);
    const [tracked] = of({ connections: { used: 800, limit: 1_000 } });
    assert.equal(tracked?.what, '800 of 1000 connections the kernel tracks are in use');
    assert.match(tracked.remedy, /sysctl -w net\.netfilter\.nf_conntrack_max=4000/);
    assert.deepEqual(brief(of({ inotifyInstances: { used: 127, limit: 128 } })), [
      'critical: 127 of 128 inotify instances of root are in use',
    ]);
    assert.match(brief(of({ files: { used: 81, limit: 100 } })).join(''), /^warning: 81 of 100 open files/);
    assert.match(brief(of({ threads: { used: 99, limit: 100 } })).join(''), /^critical: 99 of 100 processes/);
  });

  it('name the container that has most of the connections, and whether it gets more', () => {
    const crowded = { ...counts, connections: { used: 900, limit: 1_000 } };
    const [found] = limitFindings('host h1', crowded, { name: 'web.1', jobId: 'j1', count: 700, isHeld: true });
    assert.match(found?.what ?? '', /; the container web\.1 has begun 700 of them, and is refused more until/);
    assert.match(found?.remedy ?? '', /flynn-host log j1 .*sysctl -w net\.netfilter\.nf_conntrack_max=4000/);
    const [other] = limitFindings('host h1', crowded, { name: 'web.1', jobId: 'j1', count: 400, isHeld: false });
    assert.match(other?.what ?? '', /400 of them$/);
    assert.deepEqual(limitFindings('host h1', counts, { name: 'web.1', jobId: 'j1', count: 4, isHeld: false }), []);
  });

  it('memory is short when little is left, or when processes wait for it', () => {
    const of = (availableBytes: number, stalledPercent: number | undefined) =>
      brief(limitFindings('h', { ...counts, memory: { totalBytes: 100, availableBytes, stalledPercent } }));
    assert.deepEqual(of(6, undefined), []);
    assert.deepEqual(of(4, 0), ['warning: 4.0 % of its memory is left']);
    assert.match(of(30, 50).join(''), /^critical: 30\.0 % .*50 % went by waiting/);
  });

  it('are read as the kernel writes them', async () => {
    const parsed = parseKernelCounts({
      files: '2144\t0\t9000000\n',
      count: '37\n',
      max: '262144\n',
      threads: '62987\n',
      load: '0.10 0.20 0.30 2/345 6789\n',
      memory: 'MemTotal:       8000 kB\nMemFree: 1 kB\nMemAvailable:   2000 kB\n',
      pressure: 'some avg10=0.00 avg60=12.50 avg300=0.00 total=1\nfull avg10=0.00 avg60=1.00 avg300=0.00 total=1\n',
    });
    assert.deepEqual(parsed, {
      files: { used: 2144, limit: 9_000_000 },
      connections: { used: 37, limit: 262144 },
      threads: { used: 345, limit: 62987 },
      memory: { totalBytes: 8_192_000, availableBytes: 2_048_000, stalledPercent: 12.5 },
    });
    const own = await readKernelCounts(await countInotify());
    assert.ok(own.files.used > 0 && own.threads.used > 1 && own.memory.availableBytes > 0);
    assert.ok(own.inotifyInstances.limit > 0);
  });
});

it('kernel settings the platform stands on are named with what they should be', async () => {
  const controllers = ['cpu', 'memory', 'pids', 'io'];
  const of = (sysctls: Record<string, string>, groups: string[] | undefined = controllers) =>
    kernelFindings('host h1', { sysctls: new Map(Object.entries(sysctls)), controllers: groups });
  const right = { 'net/ipv4/ip_forward': '1', 'net/core/somaxconn': '4096', 'kernel/pid_max': '32768' };
  assert.deepEqual(of(right), []);
  const [forward] = of({ ...right, 'net/ipv4/ip_forward': '0' });
  assert.equal(forward?.severity, 'critical');
  assert.match(`${forward.what} ${forward.remedy}`, /net\.ipv4\.ip_forward is 0 .*sysctl -w net\.ipv4\.ip_forward=1/);
  assert.match(brief(of({ ...right, 'net/core/somaxconn': '128' })).join(''), /^warning: net\.core\.somaxconn is 128$/);
  assert.match(brief(of(right, ['cpu'])).join(''), /does not control memory, pids by groups/);
  const own = await readKernelSettings();
  assert.match(own.sysctls.get('net/ipv4/ip_forward') ?? '', /^[01]$/);
});

it('a certificate is named before it ends, once it has ended, and while it is not valid yet', async () => {
  const authority = await createAuthority('flynn test');
  const { certificate } = await issueCertificate(authority, { name: 'h1', addresses: ['localhost'] });
  const known = {
    name: 'its certificate',
    certificate,
    why: 'w',
    remedy: 'make another',
    warnDays: 30,
    criticalDays: 7,
  };
  const of = (atMs: number) => certificateFindings('host h1', [known], atMs);
  const [ended] = of(Date.parse('2100-01-01'));
  const endMs = Date.parse(/ended on (\S+)/.exec(ended?.what ?? '')?.[1] ?? '');
  assert.equal(ended?.severity, 'critical');
  const day = 24 * 60 * minute;
  assert.deepEqual(of(endMs - 40 * day), []);
  const [soon] = of(endMs - 20 * day);
  assert.equal(soon?.severity, 'warning');
  assert.deepEqual([soon.matter, of(0)[0]?.matter], ['its certificate', 'its certificate']);
  assert.match(soon.what, /^its certificate ends on \S+, in (19|20) days$/);
  assert.ok(Date.parse(soon.since ?? '') < endMs - 29 * day);
  assert.equal(of(endMs - 5 * day)[0]?.severity, 'critical');
  assert.match(of(0)[0]?.what ?? '', /valid only from/);
  assert.throws(() => certificateFindings('h', [{ ...known, certificate: 'nonsense' }], 0), /cannot be read/);
});

describe('drift', () => {
  const now = 1_000 * minute;
  const job = (id: string, agoMinutes: number) => ({
    id,
    workloadId: 'w1',
    desired: 'run' as const,
    createdAt: now - agoMinutes * minute,
  });
  const status = (id: string, change: Partial<JobStatus>): JobStatus => ({
    id,
    hostId: 'h1',
    workloadId: 'w1',
    version: 'v',
    meta: { 'flynn.app_name': 'blog', 'flynn.type': 'web' },
    state: 'running',
    isFinal: false,
    restarts: 0,
    createdAt: now - 60 * minute,
    ...change,
  });
  const container = (id: string, agoMinutes: number) => ({
    id: `c-${id}`,
    name: `flynn-test-${id}`,
    labels: { [label.job]: id },
    state: 'running' as const,
    createdAtMs: now - agoMinutes * minute,
  });
  const quiet: DriftFacts = { assigned: [], statuses: [], containers: [], networkRepairs: [], networkProblems: [] };
  const of = (facts: Partial<DriftFacts>) => driftFindings('host h1', { ...quiet, ...facts }, now);

  it('a job that is to run and does not is named after a while, with why', () => {
    assert.deepEqual(of({ assigned: [job('a', 4)] }), []);
    assert.deepEqual(of({ assigned: [job('a', 60)], statuses: [status('a', {})] }), []);
    const statuses = [status('a', { state: 'starting', error: 'could not pull x' })];
    const [found] = of({ assigned: [job('a', 10), job('b', 10)], statuses });
    assert.equal(found?.what, '2 jobs of app blog (web) are to run there and do not: could not pull x');
    assert.equal(found.since, new Date(now - 10 * minute).toISOString());
    assert.match(found.remedy, /flynn-host inspect a/);
  });

  it('process types of one app are told apart, idle or crashing', () => {
    const types = ['web', 'worker'].map((type) => {
      return { workloadId: `w-${type}`, meta: { 'flynn.app_name': 'shop', 'flynn.type': type } };
    });
    const assigned = types.map(({ workloadId }) => ({ ...job(workloadId, 60), workloadId }));
    const statuses = types.map((type) => status(type.workloadId, { ...type, state: 'starting', restarts: 9 }));
    const matters = of({ assigned, statuses }).map(({ matter }) => matter);
    assert.deepEqual(matters, ['idle web', 'idle worker', 'crashing web', 'crashing worker']);
  });

  it('one that runs and fails its check is named since it does', () => {
    const times = { startedAt: now - 50 * minute, unhealthySince: now - 7 * minute };
    const statuses = [status('a', { state: 'starting', error: 'unhealthy: no answer', ...times })];
    const [found] = of({ assigned: [job('a', 60)], statuses });
    assert.equal(found?.since, new Date(now - 7 * minute).toISOString());
  });

  it('a job that crashes again and again is named, with its code and its app', () => {
    assert.deepEqual(of({ statuses: [status('a', { state: 'crashed', restarts: 2 })] }), []);
    assert.deepEqual(of({ statuses: [status('a', { state: 'running', restarts: 9 })] }), []);
    const found = of({ statuses: [status('a', { state: 'crashed', restarts: 7, exitCode: 3 })] });
    assert.deepEqual(brief(found), [
      'warning: 1 job of app blog (web) ends again and again, the last time with exit code 3',
    ]);
    assert.equal(found[0]?.app, 'blog');
  });

  it('a container nobody wants is named, once it had time to go', () => {
    const assigned = [job('a', 60)];
    const statuses = [status('a', {})];
    assert.deepEqual(of({ assigned, statuses, containers: [container('a', 60), container('b', 1)] }), []);
    assert.deepEqual(brief(of({ containers: [container('b', 60)] })), [
      'warning: the container flynn-test-b runs, and nobody wants it',
    ]);
  });

  it('many of them are one finding, which stays the same while they go and come', () => {
    const many = of({ containers: Array.from({ length: 70 }, (_, at) => container(`${at}`, 10 + at)) });
    assert.deepEqual(brief(many), ['warning: 70 containers run that nobody wants, like flynn-test-69']);
    assert.match(many[0]?.remedy ?? '', /docker rm -f flynn-test-69 .*flynn-test-65$/);
    assert.equal(many[0]?.since, new Date(now - 79 * minute).toISOString());
    assert.equal(of({ containers: [container('b', 60)] })[0]?.matter, many[0]?.matter);
  });

  it('a network that somebody keeps changing, or that cannot be put right, is named', () => {
    assert.deepEqual(of({ networkRepairs: [now - 61 * minute, now - 5 * minute, now - minute] }), []);
    const [often] = of({ networkRepairs: [now - 9 * minute, now - 5 * minute, now - minute] });
    assert.match(often?.what ?? '', /changed its bridge, routes or rules 3 times/);
    assert.equal(often?.since, new Date(now - 9 * minute).toISOString());
    assert.deepEqual(brief(of({ networkProblems: ['the bridge flynn0 is gone'] })), [
      'critical: the bridge flynn0 is gone',
    ]);
  });
});
