/** What an hour of 1,000 apps takes of the controller's memory, and how long a look at them keeps it busy. */
import { FiguresHistory } from '@flynn/controller/figures/history';
import { Processors } from '@flynn/controller/figures/processors';
import { RequestRates } from '@flynn/controller/figures/requests';
import { stepMs, stepsKept } from '@flynn/controller/figures/ring';
import { typeRows } from '@flynn/controller/figures/sample';
import { latencyBoundsMs } from '@flynn/controller/routes/latency';
import { FlynnError } from '@flynn/kit/errors';
import type { Bench } from './bench.ts';
import { figure } from './figure.ts';
import { usedBytes } from './used-bytes.ts';

const apps = 1_000;
const jobsPerApp = 2;
const routers = ['192.0.2.1:1114', '192.0.2.2:1114', '192.0.2.3:1114'];
const mebibyte = 2 ** 20;

export const bench: Bench = {
  needs: 'nothing',
  run: async () => {
    const appIds = Array.from({ length: apps }, (_, at) => `app${at}`);
    const jobs = appIds.flatMap((appId) =>
      Array.from({ length: jobsPerApp }, (_, at) => ({
        id: `host1-${appId}x${at}`,
        workloadId: `${appId}-release-web`,
        hostId: 'host1',
        isUncertain: false,
        meta: { 'flynn.type': 'web' },
      })),
    );
    const before = usedBytes();
    const history = new FiguresHistory(32 * mebibyte);
    const [rates, processors] = [new RequestRates(), new Processors()];
    let busyMs = 0;
    for (let look = 0; look < stepsKept; look += 1) {
      const atMs = look * stepMs;
      const counts = new Map(
        routers.map((instance) => {
          return [instance, { instance, atMs, apps: appIds.map((appId) => countedAt(appId, look)) }];
        }),
      );
      const seconds = new Map(jobs.map(({ id }) => [id, { atMs, seconds: look }]));
      const memoryBytes = new Map(jobs.map(({ id }) => [id, 50 * mebibyte]));
      const startedAt = performance.now();
      const cores = processors.note(seconds, () => 'host1', new Set(seconds.keys()));
      const types = typeRows(jobs, { cores, memoryBytes, memoryLimitOf: () => 512 * mebibyte });
      history.note(look, { appIds: new Set(appIds), types, requests: rates.note(counts, []) });
      busyMs += performance.now() - startedAt;
    }
    const bytes = usedBytes() - before;
    if (appIds.some((id) => history.isLeftOut(id))) throw new FlynnError('internal', 'an app has been left out');
    return [
      figure({ name: `an hour of ${apps} apps`, value: bytes / mebibyte, unit: 'MB', must: '<= 20' }),
      figure({ name: 'of that drawings', value: history.bytes / mebibyte, unit: 'MB' }),
      figure({ name: 'a look', value: busyMs / stepsKept, unit: 'ms', must: '<= 50' }),
    ];
  },
};

function countedAt(appId: string, look: number) {
  const latency = Array.from({ length: latencyBoundsMs.length + 1 }, () => look);
  return { appId, routes: 1, sinceMs: 0, requests: look, active: 1, clientErrors: 0, serverErrors: 0, latency };
}
