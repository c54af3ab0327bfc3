import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Deployment, Job } from '@flynn/controller/model';
import { httpSettingsSchema } from '@flynn/controller/routes/settings';
import type { StreamEvent } from '../api/streams.ts';
import { isSameRow, isUnderWay, viewOf } from './app-state.ts';
import { put, someApp, someDeployment, someFormation, someJob, someRoute, worldOf } from './world-fixture.ts';

function stateWith(facts: {
  processes?: Record<string, number>;
  jobs?: readonly Partial<Job>[];
  deployment?: Partial<Deployment>;
  isInMaintenance?: boolean;
  isNew?: boolean;
}) {
  const { processes = { web: 2 }, jobs = [], deployment = {}, isInMaintenance = false, isNew = false } = facts;
  const app = isNew ? someApp({ releaseId: undefined }) : someApp();
  const http = httpSettingsSchema.parse(isInMaintenance ? { maintenance: {} } : {});
  const world = worldOf([
    ['app', app],
    ...(isNew
      ? []
      : [['formation', someFormation(processes)] as const, ['deployment', someDeployment(deployment)] as const]),
    ['route', someRoute({ http })],
    ...jobs.map((job, index) => ['job', someJob({ id: `j${index}`, ...job })] as const),
  ]);
  return viewOf(world, app).state;
}

const up = { state: 'running' } as const;
const crashed = { state: 'crashed' } as const;

describe('how an app is', () => {
  it('is what its jobs are against what is wanted', () => {
    assert.equal(stateWith({ jobs: [up, up] }), 'up');
    assert.equal(stateWith({ jobs: [up] }), 'partly');
    assert.equal(stateWith({ jobs: [up, crashed] }), 'partly');
    assert.equal(stateWith({ jobs: [crashed, crashed] }), 'crashed');
    assert.equal(stateWith({ jobs: [] }), 'down');
    assert.equal(stateWith({ processes: { web: 0 } }), 'off');
    assert.equal(stateWith({ isNew: true }), 'new');
  });

  it('is short where one of its types is', () => {
    assert.equal(stateWith({ processes: { web: 1, worker: 1 }, jobs: [up] }), 'partly');
  });

  it('counts neither jobs of other releases nor one-off ones', () => {
    assert.equal(
      stateWith({
        jobs: [
          { ...up, releaseId: 'r0' },
          { ...up, type: 'run' },
        ],
      }),
      'down',
    );
  });

  it('may have more than wanted, of a type that every host has', () => {
    assert.equal(stateWith({ processes: { web: 1 }, jobs: [up, up, up] }), 'up');
  });

  it('is in maintenance where its requests do not reach it, and crashed first', () => {
    assert.equal(stateWith({ jobs: [up, up], isInMaintenance: true }), 'maintenance');
    assert.equal(stateWith({ jobs: [crashed], isInMaintenance: true }), 'crashed');
  });

  it('is what its newest deployment is, while that goes on', () => {
    assert.equal(stateWith({ deployment: { state: 'running' }, jobs: [up, up] }), 'deploying');
    assert.equal(stateWith({ deployment: { state: 'canary' }, jobs: [up, up] }), 'waiting');
    assert.equal(stateWith({ deployment: { state: 'failed' }, jobs: [up, up] }), 'up');
  });

  it('knows that a deployment is under way until its last job has ended', () => {
    assert.equal(isUnderWay(someDeployment({ state: 'finishing' })), true);
    assert.equal(isUnderWay(someDeployment({ state: 'complete' })), false);
    assert.equal(isUnderWay(undefined), false);
  });

  it('is the same row of a list until something that is shown of it changes', () => {
    const told = (more: readonly StreamEvent[] = []) => {
      for (const event of more) world.take(event);
      return viewOf(world, world.app('shop') ?? someApp());
    };
    const world = worldOf([
      ['app', someApp()],
      ['formation', someFormation({ web: 1 })],
      ['job', someJob()],
      ['route', someRoute()],
    ]);
    const before = told();
    assert.equal(
      isSameRow(told([put('job', someJob({ restarts: 3 })), put('app', someApp({ id: 'a2' }))]), before),
      true,
    );
    const changes = [
      put('job', someJob({ state: 'crashed' })),
      put('route', someRoute()),
      put('deployment', someDeployment()),
      put('app', someApp()),
    ];
    for (const change of changes) {
      const known = told();
      assert.equal(isSameRow(told([change]), known), false, change.event);
    }
  });
});
