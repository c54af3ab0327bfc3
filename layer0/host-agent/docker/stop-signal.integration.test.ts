import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shortId } from '@flynn/kit/ids';
import { waitFor } from '@flynn/kit/retry';
import { testLabels } from '@flynn/kit/testing-label';
import Docker from 'dockerode';
import { z } from 'zod';
import { endOf } from '../engine/conformance.ts';
import { openDocker, testImage } from './fixture.ts';

const docker = new Docker({ socketPath: '/var/run/docker.sock' });

void test('a job is asked to stop by the signal that its image names, and by SIGTERM where it names none', async (t) => {
  const fixture = await openDocker();
  const { engine, network } = fixture;
  const ours = await engine.ensureImage({ name: testImage });
  const base = await docker.createContainer({
    Image: ours,
    Cmd: ['true'],
    StopSignal: 'SIGQUIT',
    Labels: testLabels,
  });
  const exitOf = async (imageRef: string): Promise<number | undefined> => {
    const id = await engine.create({
      name: `flynn-stop-signal-${shortId()}`,
      labels: testLabels,
      imageRef,
      hostname: 'stopping',
      command: ['sh', '-c', 'trap "exit 3" QUIT; trap "exit 4" TERM; touch /ready; while :; do sleep 0.05; done'],
      env: { PATH: '/usr/bin:/bin' },
      network: { type: 'bridge', name: network.name, dns: [] },
      volumes: [],
      tty: false,
      stdin: false,
      limits: { memoryBytes: 64 * 2 ** 20, cpuMillis: 100, pids: 50, files: 100 },
    });
    await engine.start(id);
    const isReady = async (): Promise<boolean> => {
      using looking = await engine.exec(id, { command: ['test', '-e', '/ready'], tty: false, stdin: false });
      return (await looking.exitCode()) === 0;
    };
    await waitFor(isReady, { what: 'the program to heed signals', deadlineMs: 60_000 });
    await engine.stop(id, { timeoutMs: 60_000 });
    return (await endOf(engine, id)).exitCode;
  };
  try {
    const { Id } = z.object({ Id: z.string() }).parse(await base.commit());
    t.after(() => docker.getImage(Id).remove({ force: true }));
    assert.equal(await exitOf(Id), 3);
    assert.equal(await exitOf(ours), 4);
  } finally {
    await base.remove({ force: true });
    await fixture.close();
  }
});
