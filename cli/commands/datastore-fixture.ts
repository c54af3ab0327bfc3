/** A desk of somebody whose app shop has a datastore, with members that are simulated. For tests. */
import { makeTestDatastore, withAppliances } from '@flynn/controller/datastores/datastore-fixture';
import type { Program } from '@flynn/controller/testing/simulated-host';
import { openDeskWithController } from '../testing.ts';

export async function openDeskWithDatastore(kind: string) {
  const env = await openDeskWithController(withAppliances);
  await env.controller.deployApp('shop', { web: {} });
  const datastore = await makeTestDatastore(env.controller, { app: 'shop', kind });
  return {
    ...env,
    datastore,
    answerWith(programs: (command: readonly string[], input: Buffer) => Program | undefined): void {
      for (const host of env.controller.hosts) host.programs = programs;
    },
    [Symbol.asyncDispose]: () => env[Symbol.asyncDispose](),
  };
}

export const saying = (value: unknown): Program => ({ stdout: JSON.stringify(value), code: 0 });
