/** For tests: a platform with one app, which takes every push. */
import type { App, Operation } from '@flynn/controller/model';
import type { Platform, Push } from './platform.ts';

export const testApp: App = {
  id: 'a',
  name: 'app',
  meta: {},
  isSystem: false,
  deployTimeoutMs: 1,
  createdAt: '',
  updatedAt: '',
};

/** What was asked of it. */
export type AskedPlatform = Platform & { pushes: Push[]; cancelled: string[] };

export function testPlatform(changes: Partial<Platform> = {}): AskedPlatform {
  const pushes: Push[] = [];
  const cancelled: string[] = [];
  const operation: Operation = {
    id: 'b',
    appId: testApp.id,
    kind: 'build',
    pushId: 'p',
    input: {},
    state: 'complete',
    output: {},
    createdAt: '',
  };
  const platform: AskedPlatform = {
    pushes,
    cancelled,
    actingFor: () => platform,
    findKey: async () => undefined,
    findApp: async () => testApp,
    isDeploying: async () => false,
    appIds: async () => new Set([testApp.id]),
    push: async (_app, push) => {
      pushes.push(push);
      return [operation];
    },
    async *follow() {
      yield 'a line';
      return operation;
    },
    cancel: async (id) => void cancelled.push(id),
    ...changes,
  };
  return platform;
}
