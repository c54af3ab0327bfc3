import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { health } from './api.ts';
import type { HealthWatch } from './health.ts';

export function healthHandlers(watch: HealthWatch): Handler[] {
  return [
    handle(health.get, async ({ query, signal }) => watch.look(query.patienceMs, signal)),
    handle(health.targets, async ({ signal }) => watch.targets(signal)),
  ];
}
