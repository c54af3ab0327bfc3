/** The controller's own checks: parts of the platform, what does not get on, certificates of routes. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ExaminedHost } from '@flynn/host-agent/doctor/api';
import type { Found } from '@flynn/host-agent/doctor/finding';
import { certificateOf } from '../certificates/resource-fixture.ts';
import type { DeploymentResource, OperationResource, RunnerResource } from '../resources.ts';
import { routeCertificateFindings } from './certificates.ts';
import { componentFindings, componentsOf } from './components.ts';
import type { Component } from './api.ts';
import { stuckFindings } from './stuck.ts';

const brief = (findings: readonly Found[]) =>
  findings.map(({ severity, subject, what }) => `${severity} ${subject}: ${what}`);
const now = Date.parse('2026-06-01T12:00:00Z');
const ago = (minutes: number) => new Date(now - minutes * 60_000).toISOString();

const common = {
  uid: 'u',
  revision: 1,
  generation: 1,
  labels: {},
  finalizers: [],
  waitingFor: {},
  conditions: [],
} as const;

it('an engine that hangs, or is away, is none of the healthy ones; a host of a version before does not say', () => {
  const host = (id: string, engine: { isConnected: boolean; isHung?: true }): ExaminedHost => ({
    id,
    state: 'up',
    agent: { version: '1', engine: { ...engine, version: '20.10' }, store: { isReachable: true }, scheduler: 'runs' },
  });
  const hosts = [
    host('h1', { isConnected: true }),
    host('h2', { isConnected: true, isHung: true }),
    host('h3', { isConnected: false }),
  ];
  const none = { apps: [], releases: [], formations: [], statuses: [], etcd: [], hostsFor: () => 0 };
  const engine = componentsOf({ ...none, hosts }).find(({ name }) => name === 'container engine');
  assert.deepEqual([engine?.wanted, engine?.healthy], [3, 1]);
});

it('a part with too few healthy instances is named, one that is whole is not, nor what hosts tell themselves', () => {
  const part = (change: Partial<Component>): Component => ({
    name: 'router app',
    app: 'router',
    wanted: 2,
    healthy: 2,
    versions: ['v1'],
    hosts: [],
    ...change,
  });
  assert.deepEqual(componentFindings([part({})]), []);
  assert.deepEqual(brief(componentFindings([part({ healthy: 1 }), part({ healthy: 0 })])), [
    'warning router app: 1 of 2 instances are healthy',
    'critical router app: 0 of 2 instances are healthy',
  ]);
  const { app: _app, ...engine } = part({ name: 'container engine', healthy: 0 });
  assert.deepEqual(componentFindings([engine]), []);
  const page = { ...part({ healthy: 0 }), name: 'dashboard web', app: 'dashboard' };
  assert.deepEqual(
    componentFindings([page]).map(({ severity }) => severity),
    ['warning'],
    'what the platform does without is no emergency',
  );
  assert.deepEqual(componentFindings([{ ...page, wanted: 0 }]), [], 'and may be turned off');
});

describe('what does not get on', () => {
  const runner = (seenMinutes: number): RunnerResource => ({
    ...common,
    type: 'runner',
    id: 'r1',
    createdAt: ago(100),
    updatedAt: ago(1),
    spec: { labels: {}, version: '1', slots: 1, isByIdOnly: false, isPlatform: true },
    status: { state: 'adopted', seenAt: now - seenMinutes * 60_000 },
  });
  const operation = (
    minutes: number,
    status: Partial<OperationResource['status']> = {},
    spec: Partial<OperationResource['spec']> = {},
  ): OperationResource => ({
    ...common,
    type: 'operation',
    id: `op${minutes}`,
    createdAt: ago(minutes),
    updatedAt: ago(minutes),
    spec: { appId: 'a', kind: 'build', pushId: 'p', input: {}, ...spec },
    status: { state: 'queued', output: {}, ...status },
  });
  const deployment = (minutes: number, state: DeploymentResource['status']['state']): DeploymentResource => ({
    ...common,
    type: 'deployment',
    id: `d${minutes}`,
    createdAt: ago(minutes),
    updatedAt: ago(minutes),
    spec: {
      appId: 'a',
      newReleaseId: 'r',
      counts: {},
      oldCounts: {},
      knownJobs: [],
      timeoutMs: 1,
      rollout: { strategy: 'in-batches', canaries: 1, minHealthyMs: 0 },
    },
    status: { state, progress: {} },
  });
  const of = (facts: Partial<Parameters<typeof stuckFindings>[0]>) =>
    brief(
      stuckFindings({ operations: [], deployments: [], runners: [runner(0)], nameOf: () => 'app blog', ...facts }, now),
    );

  it('is passed over while it is young, waits for another, or has ended', () => {
    const next = operation(60, {}, { dependsOn: ['op20'] });
    const first = operation(20, { state: 'running', startedAt: ago(20) });
    const deployments = [deployment(30, 'running'), deployment(900, 'complete'), deployment(60, 'canary')];
    assert.deepEqual(of({ operations: [next, first, operation(2)], deployments }), []);
    assert.deepEqual(of({ runners: [] }), []);
  });

  it('operations nobody takes, operations that never end, and no runner at all', () => {
    assert.deepEqual(of({ operations: [operation(20)] }), ['warning app blog: a build waits to be taken by a runner']);
    assert.deepEqual(of({ operations: [operation(200, { state: 'running', startedAt: ago(180) })] }), [
      'warning app blog: a build goes on and on',
    ]);
    assert.deepEqual(of({ runners: [runner(10)] }), ['critical runners: no runner is heard of']);
  });

  it('deployments that go on and on, or wait for people too long', () => {
    assert.deepEqual(of({ deployments: [deployment(90, 'running'), deployment(3_000, 'canary')] }), [
      'warning app blog: a deployment goes on and on (running)',
      'warning app blog: a deployment is on hold (canary)',
    ]);
    const remedyOf = (state: 'running' | 'finishing') => {
      const deployments = [deployment(90, state)];
      const [found] = stuckFindings({ operations: [], deployments, runners: [], nameOf: () => 'app blog' }, now);
      return found?.remedy ?? '';
    };
    assert.match(remedyOf('running'), /flynn deployment abort/);
    assert.match(remedyOf('finishing'), /it waits for old jobs/, 'what is live cannot be aborted');
  });
});

it('certificates of routes are named before they end, and when none comes', () => {
  const bundle = (days: number) => ({
    certificate: 'c',
    privateKey: 'k',
    notBefore: ago(1),
    notAfter: new Date(now + days * 86_400_000).toISOString(),
    notes: [],
  });
  type Held = { failures?: number; domain?: string; issuer?: string };
  const found = (source: 'own' | 'acme', days: number | undefined, more: Held = {}) => {
    const { failures = 0, domain = 'shop.example.com', issuer = 'i' } = more;
    const failure = { count: failures, message: 'no such name', at: ago(5), nextTryAt: ago(-5) };
    const held = days === undefined ? undefined : { ...bundle(days), issuer };
    const certificate = certificateOf(
      { source, domains: [domain], ...(source === 'own' && held ? { own: held } : {}) },
      { ...(source === 'acme' && held ? { issued: held } : {}), ...(failures === 0 ? {} : { failure }) },
    );
    return routeCertificateFindings([certificate], now);
  };
  const of = (source: 'own' | 'acme', days: number | undefined, failures = 0) =>
    brief(found(source, days, { failures })).join('');
  const remedyOf = (domain: string, issuer: string) => found('own', 2, { domain, issuer })[0]?.remedy ?? '';
  assert.equal(of('own', 30), '');
  assert.match(of('own', 20), /^warning certificate shop\.example\.com: it ends on .*, in 20 days$/);
  assert.match(of('own', 2), /^critical/);
  assert.match(remedyOf('shop.example.com', 'An Authority'), /^flynn route cert add/);
  assert.match(remedyOf('controller.example.com', 'An Authority'), /^flynn route cert add/);
  assert.match(remedyOf('shop.example.com', 'flynn'), /^flynn route cert add/);
  assert.match(remedyOf('controller.example.com', 'flynn'), /^flynn-host bootstrap .* keeps the platform/);
  assert.match(of('own', -1), /^critical .*it ended on/);
  assert.match(of('own', 1), /^critical .*, in 24 hours$/);
  assert.equal(of('acme', undefined, 1), '');
  assert.match(of('acme', undefined, 3), /^critical .*there is none yet; the last 3 tries/);
});

describe('certificates of an authority', () => {
  const dayMs = 86_400_000;
  const lives = [90, 45, 6, 1];

  /** One of so many days, of which a share is over. */
  const found = (days: number, share: number, failures = 0, missing: readonly string[] = []) => {
    const beginMs = now - share * days * dayMs;
    const issued = {
      certificate: 'c',
      privateKey: 'k',
      issuer: 'i',
      notBefore: new Date(beginMs).toISOString(),
      notAfter: new Date(beginMs + days * dayMs).toISOString(),
      notes: [],
    };
    const failure = { count: failures, message: 'no such name', at: ago(5), nextTryAt: ago(-5) };
    const issuedFor = ['shop.example.com'];
    const certificate = certificateOf(
      { domains: [...issuedFor, ...missing] },
      { issued, issuedFor, ...(failures === 0 ? {} : { failure }) },
    );
    return brief(routeCertificateFindings([certificate], now)).join('');
  };

  it('are not told of while they are renewed as they should be, however short they live', () => {
    for (const days of lives) {
      for (const share of [0, 0.3, 0.66, 0.74])
        assert.equal(found(days, share), '', `${days} days, ${share} of them over`);
      assert.equal(found(days, 0.7, 3), '', 'an authority that is away for a moment');
    }
  });

  it('are told of once their renewal is overdue, as gravely as little of their life is left', () => {
    for (const days of lives) {
      assert.match(found(days, 0.83, 1), /^warning certificate shop.*it ends on/, `${days} days`);
      assert.match(found(days, 0.95, 1), /^critical certificate shop.*it ends on/, `${days} days`);
      assert.match(found(days, 1.1, 1), /^critical certificate shop.*it ended on/, `${days} days`);
    }
    assert.match(found(90, 0.83, 4), /, in 15 days; the last 4 tries to get another failed: no such name$/);
    assert.match(found(6, 0.9), /, in 14 hours$/);
    assert.match(found(1, 0.95), /, in 71 minutes$|, in 72 minutes$/);
  });

  it('are told of when tries have failed for long, or for a name that has none yet', () => {
    assert.match(found(90, 0.7, 8), /^warning .* in 27 days; the last 8 tries/);
    assert.equal(found(90, 0.1, 2, ['www.example.com']), '');
    assert.match(
      found(90, 0.1, 3, ['www.example.com']),
      /^warning .*: there is none for www\.example\.com yet; for the others it ends on .*; the last 3 tries/,
    );
  });
});
